"""Jobs that are not materializations: carrying out deletions, and looking at everything on a schedule.

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


check_everything_job = dg.define_asset_job(
    "check_everything",
    selection=dg.AssetSelection.all_asset_checks(),
    description="Every check in full, over the whole corpus; lists the source anew.",
)

check_everything_schedule = dg.ScheduleDefinition(
    name="check_everything",
    job=check_everything_job,
    cron_schedule="17 */6 * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="After a run, checks look at its documents only; this looks at all of them, every six hours.",
)
