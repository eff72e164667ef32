"""The two sensors that keep the index true: level-triggered, they look at the state and request what is missing.

What does not belong here: the state itself (`discovery.py`, `embedding.py`) and run requests (`requests.py`).
No run keys: Dagster would never repeat a run that failed. What is in flight is not requested again.
"""

import time

import dagster as dg

from ingest_assets.changes import by_lane
from ingest_assets.chunk import chunker_version
from ingest_assets.defs.backfills import keys_in_backfills, unfinished_backfills
from ingest_assets.defs.partitions import add_documents, synchronise_versions
from ingest_assets.defs.requests import ASSETS, DueRun, due_again, failures_by_key, keys_in_flight
from ingest_assets.defs.resources import PlatformResource
from ingest_assets.defs.runs import failed_runs, report_dead_runs, unfinished_runs
from ingest_assets.discovery import continue_discovery, deletable_documents, overdue_deletions, pending_documents
from ingest_assets.embedding import uncovered_documents
from ingest_assets.extract import extractor_version
from ingest_assets.hints import resolve_hints
from ingest_assets.models import declare_models, ignored_notice, ignored_versions, lane_of
from ingest_assets.platform import Platform
from ingest_assets.settings import load_settings

INTERVAL_SECONDS = 5  # as often as the daemon looks; a document passes two of these sensors on its way to readers
LISTING_SECONDS = 12.0  # of one tick, before the runs it requests; the next tick lists on
HINTS_SECONDS = 5.0
RUNS_PER_TICK = 20  # the daemon makes each in a fraction of a second; the next tick goes on with the rest
DELETE_JOB = "delete_documents"


@dg.sensor(
    name="source_sensor",
    description="Lists the source and looks at hinted keys, adds partitions for new documents, requests ingest runs.",
    target=[*ASSETS["ingest"]],
    minimum_interval_seconds=INTERVAL_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def source_sensor(context: dg.SensorEvaluationContext, platform: PlatformResource) -> dg.SensorResult:
    """Request what the source asks for."""
    due = list(due_from_source(context.instance, platform.get()))
    return _result(due, "The index knows everything in the source.")


@dg.sensor(
    name="deletion_sensor",
    description="Requests the deletion of documents that are gone, once what came with them is embedded.",
    job_name=DELETE_JOB,
    minimum_interval_seconds=INTERVAL_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def deletion_sensor(context: dg.SensorEvaluationContext, platform: PlatformResource) -> dg.SensorResult:
    """Request deletions."""
    return _result(list(due_deletions(context.instance, platform.get())), "Nothing is to be deleted.")


@dg.sensor(
    name="embedding_sensor",
    description="Requests embedding runs for documents that are not covered at a version that is not retired.",
    target=[*ASSETS["embed"]],
    minimum_interval_seconds=INTERVAL_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def embedding_sensor(context: dg.SensorEvaluationContext, platform: PlatformResource) -> dg.SensorResult:
    """Request embedding of what is not covered."""
    # The cursor holds what was said, so that it is said once and not at every tick.
    notice = ignored_notice(ignored_versions(platform.get().database, load_settings().models))
    if notice and context.cursor != notice:
        context.log.warning(notice)
    nothing = " ".join(filter(None, ["Every document is covered at every version.", notice]))
    result = _result(list(due_embeddings(context.instance, platform.get())), nothing)
    return result._replace(cursor=notice) if notice != (context.cursor or "") else result


def due_from_source(instance: dg.DagsterInstance, platform: Platform) -> list[DueRun]:
    """Look at hinted keys, list on, add partitions, and return ingest runs for what is not in flight."""
    report_dead_runs(instance, platform.database)
    settings = platform.settings
    resolve_hints(platform.database, platform.source, HINTS_SECONDS)
    continue_discovery(platform.database, platform.source, settings.source, LISTING_SECONDS)
    keys = _pending(platform)
    add_documents(instance, keys)
    documents = instance.get_dynamic_partitions("documents")
    held = keys_in_flight(unfinished_runs(instance), "ingest", documents=documents)
    held |= keys_in_backfills(unfinished_backfills(instance), "ingest")
    failures = failures_by_key(failed_runs(instance), "ingest")
    new = [key for key in keys if key not in held]
    size, now = settings.source.max_documents_per_run, time.time()
    lanes = by_lane(platform.database, "pending", new)
    return [due for lane, part in lanes for due in due_again("ingest", part, size, failures, now, lane=lane)]


def deletions_due(platform: Platform) -> list[str]:
    """Return documents to delete: all that are gone once nothing waits to be embedded, else those past the grace."""
    models = declare_models(platform.database, platform.settings.models)
    if _pending(platform) or any(uncovered_documents(platform.database, model.version) for model in models):
        return overdue_deletions(platform.database, platform.settings.source)
    return deletable_documents(platform.database)


def due_deletions(instance: dg.DagsterInstance, platform: Platform) -> list[DueRun]:
    """Return deletion runs for what is not in flight."""
    in_flight = keys_in_flight(unfinished_runs(instance), "delete")
    keys = [key for key in deletions_due(platform) if key not in in_flight]
    failures = failures_by_key(failed_runs(instance), "delete")
    return due_again("delete", keys, platform.settings.source.max_documents_per_run, failures, time.time())


def due_embeddings(instance: dg.DagsterInstance, platform: Platform) -> list[DueRun]:
    """Return embedding runs per declared version; a newly declared one needs no reload."""
    report_dead_runs(instance, platform.database)
    models = declare_models(platform.database, load_settings().models)
    synchronise_versions(instance, models)
    runs, failed, backfills = unfinished_runs(instance), failed_runs(instance), unfinished_backfills(instance)
    documents = instance.get_dynamic_partitions("documents")
    size = platform.settings.source.max_documents_per_run
    due: list[DueRun] = []
    for model in models:
        held = keys_in_flight(runs, "embed", model.version, documents)
        held |= keys_in_backfills(backfills, "embed", model.version)
        keys = [key for key in uncovered_documents(platform.database, model.version) if key not in held]
        add_documents(instance, keys)
        failures = failures_by_key(failed, "embed", model.version)
        lane = lane_of(model.version, models)
        for name, part in by_lane(platform.database, "uncovered", keys, lane):
            due += due_again("embed", part, size, failures, time.time(), version=model.version, lane=name)
    return due


def _pending(platform: Platform) -> list[str]:
    # Runs read the settings anew; whoever judged by older ones would request the same documents for ever.
    settings = load_settings()
    return pending_documents(platform.database, extractor_version(settings.extract), chunker_version(settings.chunker))


def _result(due: list[DueRun], nothing: str) -> dg.SensorResult:
    if not due:
        return dg.SensorResult(skip_reason=nothing)
    return dg.SensorResult(run_requests=[_request(item) for item in due[:RUNS_PER_TICK]])


def _request(due: DueRun) -> dg.RunRequest:
    if due.kind == "delete":
        return dg.RunRequest(run_config=due.run_config, tags=due.tags)
    return dg.RunRequest(asset_selection=due.assets, run_config=due.run_config, tags=due.tags)
