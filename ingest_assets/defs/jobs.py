"""Jobs that are not materializations: carrying out deletions.

What does not belong here: assets' own runs, which need no job of their own.
"""

import dagster as dg

from ingest_assets.defs.keys import DocumentsConfig
from ingest_assets.defs.report import run_deletion
from ingest_assets.defs.resources import PlatformResource


@dg.op(
    name="confirm_and_delete",
    description="Confirm by a HEAD that each object is gone, then delete its document at every model version.",
)
def confirm_and_delete(context: dg.OpExecutionContext, config: DocumentsConfig, platform: PlatformResource) -> None:
    """Delete documents that are gone from the source, each with a receipt."""
    run_deletion(context, config.keys, platform.get())


@dg.job(
    name="delete_documents",
    description="Deletes documents that are gone from the source, at every model version, each with a receipt.",
    tags={"lane": "incremental"},
)
def delete_documents_job() -> None:
    """Carry out deletions."""
    confirm_and_delete()
