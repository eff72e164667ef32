"""Jobs that are not materializations: deletions, every check in full, and housekeeping.

What does not belong here: assets' own runs, which need no job of their own.
"""

import dagster as dg

from ingest_assets.defs.housekeeping import keep_house
from ingest_assets.defs.keys import DeletionConfig
from ingest_assets.defs.report import report_housekeeping, run_deletion
from ingest_assets.defs.resources import PlatformResource


@dg.op(
    name="confirm_and_delete",
    description="Confirm by a HEAD that each object is gone, then delete its document at every model version. "
    "Deletions that were withheld need `approve_withheld: true`.",
)
def confirm_and_delete(context: dg.OpExecutionContext, config: DeletionConfig, platform: PlatformResource) -> None:
    """Delete documents that are gone from the source, each with a receipt."""
    run_deletion(context, config, platform.get())


@dg.job(
    name="delete_documents",
    description="Deletes documents that are gone from the source, at every model version, each with a receipt. To "
    "approve deletions that were withheld, launch it with `approve_withheld: true`.",
    tags={"lane": "incremental"},
)
def delete_documents_job() -> None:
    """Carry out deletions."""
    confirm_and_delete()


@dg.op(name="keep_house", description="Remove what nothing needs any more, and say how much a document costs.")
def keep_house_op(context: dg.OpExecutionContext, platform: PlatformResource) -> None:
    """Remove what nothing needs any more."""
    report_housekeeping(context, keep_house(context.instance, platform.get()))


@dg.job(
    name="housekeeping",
    description="Removes partition keys of deleted documents and retired versions, superseded chunks, and old events "
    "of Dagster's log; the state of a partition is never lost.",
)
def housekeeping_job() -> None:
    """Keep house."""
    keep_house_op()


housekeeping_schedule = dg.ScheduleDefinition(
    name="housekeeping",
    job=housekeeping_job,
    cron_schedule="41 3 * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Every night.",
)

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
