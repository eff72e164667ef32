"""What every run reports in the same way, and in this order: what is good, the results of the checks, then the failure.

What does not belong here: the bodies (`ingest_report.py`, `embedding_report.py`). Neighbours of a bad document stay
green, and checks are stored whatever happens.
"""

import traceback
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from uuid import UUID

import dagster as dg

from ingest_assets.checks import run_checks
from ingest_assets.database import rows
from ingest_assets.defs.bookkeeping import record_checks, spent
from ingest_assets.defs.keys import DeletionConfig
from ingest_assets.deletion import approve_deletions, delete_documents
from ingest_assets.errors import EnvironmentProblem, IngestError, Refused
from ingest_assets.leases import Lease, lease
from ingest_assets.platform import Platform
from ingest_assets.progress import Progress, report
from ingest_assets.verdicts import CheckContext

CAUSE = "cause"  # metadata of a failure that is not about single documents
SHOWN = 10  # documents named in a failure; the rest is counted


@contextmanager
def reported(
    context: dg.AssetExecutionContext | dg.OpExecutionContext, platform: Platform, keys: Collection[str]
) -> Iterator[Lease]:
    """Hold the run's lease, store the results of the checks at the end in any case, and name our own errors."""
    try:
        with lease(platform.database, context.run.run_id) as held:
            try:
                yield held
            finally:
                context.log.info("Dagster was told about partitions in %.3f s.", spent.seconds)
                record_checks(context, run_checks(check_context(platform, context.run.run_id, keys)))
    except IngestError as error:
        context.log.debug(traceback.format_exc())
        raise dg.Failure(str(error), metadata={CAUSE: _cause(error)}, allow_retries=False) from error


def run_deletion(context: dg.OpExecutionContext, config: DeletionConfig, platform: Platform) -> None:
    """Carry out deletions that are confirmed and report each in the run's log.

    Raises:
        Failure: the run names no document, or the source does not say whether an object is there.
    """
    keys = _keys_to_delete(config, platform)
    with reported(context, platform, keys):
        outcomes = delete_documents(platform.database, platform.source, keys, context.run.run_id)
        results: Counter[str] = Counter()
        for done, outcome in enumerate(outcomes, start=1):
            context.log.info("%s: %s, %d rows removed", outcome.partition_key, outcome.result, outcome.removed_rows)
            results[outcome.result] += 1
            report(Progress("delete", done, len(keys)))
    context.add_output_metadata(dict(results))


def _keys_to_delete(config: DeletionConfig, platform: Platform) -> list[str]:
    try:
        if config.approve_withheld:
            return approve_deletions(platform.database, config.keys)
    except IngestError as error:
        raise dg.Failure(str(error), metadata={CAUSE: _cause(error)}, allow_retries=False) from error
    if not config.keys:
        raise dg.Failure(
            "This run names no document. To approve deletions that were withheld, launch delete_documents with "
            "`approve_withheld: true` in the config of confirm_and_delete; others are requested by deletion_sensor.",
            allow_retries=False,
        )
    return list(config.keys)


def report_housekeeping(context: dg.OpExecutionContext, done: Mapping[str, float]) -> None:
    """Show what housekeeping did, in the run's log and as metadata of its output."""
    context.log.info("; ".join(f"{name}: {count}" for name, count in done.items()))
    context.add_output_metadata(dict(done))


def _cause(error: IngestError) -> str:
    if isinstance(error, EnvironmentProblem):
        return "environment"
    return "refused" if isinstance(error, Refused) else "embedding"


def check_context(platform: Platform, run_id: str | None, keys: Collection[str] | None = None) -> CheckContext:
    """Return what checks look at after a run of some documents; without `keys` everything, listing the source anew."""
    documents: tuple[UUID, ...] | None = None
    if keys is not None:
        with platform.database.connection() as connection:
            found = rows(connection, "ids_of_partitions", partition_keys=list(keys))
        documents = tuple(item["document_id"] for item in found)
    return CheckContext(
        platform.database,
        platform.source,
        platform.settings.source.deletion_grace_seconds,
        run_id=run_id,
        lists_source=keys is None,
        documents=documents,
    )


def warn_of_gone(context: dg.AssetExecutionContext, keys: Sequence[str]) -> None:
    """Say in the run's log which of its documents are not there any more."""
    if keys:
        context.log.warning("%d documents are gone: %s. They were deleted meanwhile.", len(keys), named(keys))


def named(names: Sequence[str]) -> str:
    """Return some names for a sentence, the rest as a number."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
