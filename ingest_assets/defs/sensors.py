"""The two sensors that keep the index true: level-triggered, they look at the state and request what is missing.

What does not belong here: the state itself (`discovery.py`, `embedding.py`) and run requests (`requests.py`).
No run keys: Dagster would never repeat a run that failed. What is in flight is not requested again.
"""

import time

import dagster as dg

from ingest_assets.chunk import chunker_version
from ingest_assets.defs.partitions import add_documents, synchronise_versions
from ingest_assets.defs.requests import ASSETS, DueRun, due_runs, keys_in_flight, resting_keys
from ingest_assets.defs.resources import PlatformResource
from ingest_assets.defs.runs import failed_runs, report_dead_runs, unfinished_runs
from ingest_assets.discovery import deletable_documents, discover, overdue_deletions, pending_documents
from ingest_assets.embedding import Lane, uncovered_documents
from ingest_assets.ingest import extractor_version
from ingest_assets.models import ModelVersion, declare_models, served_model
from ingest_assets.platform import Platform
from ingest_assets.settings import load_settings

INTERVAL_SECONDS = 10
DELETE_JOB = "delete_documents"


@dg.sensor(
    name="source_sensor",
    description="Lists the source, adds partitions for new documents, and requests ingest and deletion runs.",
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
    return _result(
        list(due_embeddings(context.instance, platform.get())), "Every document is covered at every version."
    )


def due_from_source(instance: dg.DagsterInstance, platform: Platform) -> list[DueRun]:
    """List the source, add partitions, and return ingest runs for what is not in flight."""
    report_dead_runs(instance, platform.database)
    settings = platform.settings
    discover(platform.database, platform.source, settings.source)
    keys = pending_documents(platform.database, extractor_version(settings.extract), chunker_version(settings.chunker))
    add_documents(instance, keys)
    in_flight = keys_in_flight(unfinished_runs(instance), "ingest")
    new = [key for key in keys if key not in in_flight]
    return list(due_runs("ingest", new, settings.source.max_documents_per_run))


def due_deletions(instance: dg.DagsterInstance, platform: Platform) -> list[DueRun]:
    """Return deletion runs: at once when nothing waits to be embedded, else for what waited longer than the grace."""
    settings = platform.settings
    runs = unfinished_runs(instance)
    is_work_pending = bool(
        pending_documents(platform.database, extractor_version(settings.extract), chunker_version(settings.chunker))
        or any(
            uncovered_documents(platform.database, model.version)
            for model in declare_models(platform.database, settings.models)
        )
    )
    keys = (
        overdue_deletions(platform.database, settings.source)
        if is_work_pending
        else deletable_documents(platform.database)
    )
    in_flight = keys_in_flight(runs, "delete")
    return list(
        due_runs("delete", [key for key in keys if key not in in_flight], settings.source.max_documents_per_run)
    )


def due_embeddings(instance: dg.DagsterInstance, platform: Platform) -> list[DueRun]:
    """Return embedding runs per version that is not retired; a newly declared version needs no reload."""
    report_dead_runs(instance, platform.database)
    declared = load_settings().models
    models = declare_models(platform.database, declared)
    synchronise_versions(instance, models)
    runs, failed = unfinished_runs(instance), failed_runs(instance)
    due: list[DueRun] = []
    for model in models:
        if all(item.version != model.version for item in declared):
            continue
        held = keys_in_flight(runs, "embed", model.version) | resting_keys(failed, "embed", model.version, time.time())
        keys = [key for key in uncovered_documents(platform.database, model.version) if key not in held]
        add_documents(instance, keys)
        size = platform.settings.source.max_documents_per_run
        due += due_runs("embed", keys, size, version=model.version, lane=lane_of(model, models))
    return due


def lane_of(model: ModelVersion, models: list[ModelVersion]) -> Lane:
    """Return the lane of a version's work: readers wait for the served one, nobody for one that is being built."""
    served = served_model(models)
    return "incremental" if served is not None and served.version == model.version else "backfill"


def _result(due: list[DueRun], nothing: str) -> dg.SensorResult:
    if not due:
        return dg.SensorResult(skip_reason=nothing)
    return dg.SensorResult(run_requests=[_request(item) for item in due])


def _request(due: DueRun) -> dg.RunRequest:
    if due.kind == "delete":
        return dg.RunRequest(run_config=due.run_config, tags=due.tags)
    return dg.RunRequest(asset_selection=due.assets, run_config=due.run_config, tags=due.tags)
