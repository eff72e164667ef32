"""Retirement: a version goes for good, and no reader or writer of another one waits for it.

What does not belong here: its partition in Dagster, which housekeeping removes.
"""

from collections.abc import Callable
from dataclasses import dataclass

import psycopg
from tenacity import RetryError, Retrying, retry_if_exception_type, stop_after_delay, wait_random

from ingest_assets.database import Connection, Database, row, rows, run
from ingest_assets.errors import Refused
from ingest_assets.leases import dead_runs
from ingest_assets.models import ModelVersion, all_models

PATIENCE_SECONDS = 30.0  # for readers that hold a table which is to be dropped


@dataclass(frozen=True, slots=True)
class Retirement:
    """What went with a version."""

    version: str
    publications: int
    dead_letters: int  # that were open
    superseded_chunks: int  # that only this version served


def retire(database: Database, version: str) -> Retirement:
    """Retire a version and drop its tables; what an earlier call left undone is finished.

    Raises:
        Refused: the version serves readers, is unknown, is being embedded, or somebody holds its tables for long.
    """
    model = _retirable(database, version)
    publications, letters = database.transact(lambda connection: _close(connection, model))
    with database.connection() as connection:
        run(connection, "bound_session_locks")
        try:
            _patiently(lambda: _drop(connection, model), version)
        finally:
            run(connection, "unbound_session_locks")
        swept = run(connection, "sweep_all_chunks")
    return Retirement(version, publications, letters, swept)


def _retirable(database: Database, version: str) -> ModelVersion:
    models = {model.version: model for model in all_models(database)}
    if version not in models:
        raise Refused(f"The version {version} is unknown; there are: {', '.join(models)}.")
    if models[version].status == "active":
        raise Refused(
            f"{version} serves readers; switch them first: `ingest-assets models activate` another version, or "
            "`ingest-assets models rollback`."
        )
    dead = set(dead_runs(database))
    with database.connection() as connection:
        found = [item["run_id"] for item in rows(connection, "select_embedding_runs", version=version)]
    if living := [run_id for run_id in found if run_id not in dead]:
        raise Refused(
            f"The run {living[0]} is embedding at {version}; take the version out of the settings, let the run end or "
            "cancel it in the UI, then retire it again."
        )
    return models[version]


def _close(connection: Connection, model: ModelVersion) -> tuple[int, int]:
    run(connection, "bound_lock_wait")
    rows(connection, "lock_model_versions")
    if row(connection, "retire_model", version=model.version) is None:
        raise Refused(f"{model.version} was activated a moment ago, and serves readers.")
    letters = run(connection, "close_retired_letters", version=model.version)
    for name in ("forget_claims", "forget_attempts_of_version", "forget_coverage_of_version"):
        run(connection, name, version=model.version)
    return run(connection, "forget_publications_of_version", version=model.version), letters


def _drop(connection: Connection, model: ModelVersion) -> None:
    names = {"vectors": model.vectors, "serving": model.serving}
    state = row(connection, "partition_state", vectors=model.vectors_name)
    if state is not None:
        run(connection, "finish_detaching" if state["is_pending"] else "detach_vectors", names)
    run(connection, "drop_vectors", names)
    run(connection, "drop_serving_table", names)
    run(connection, "drop_serving_table", {"serving": model.rebuilt})  # of a rebuild that was broken off


def _patiently(work: Callable[[], None], version: str) -> None:
    attempts = Retrying(
        retry=retry_if_exception_type((psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)),
        stop=stop_after_delay(PATIENCE_SECONDS),
        wait=wait_random(0.1, 1),
    )
    try:
        attempts(work)
    except RetryError as error:
        raise Refused(
            f"{version} is retired and serves nobody, but a long transaction holds its tables; when it has ended, "
            f"`ingest-assets models retire {version}` drops them. Nobody waits meanwhile."
        ) from error
