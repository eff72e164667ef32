"""Dagster runs from the outside: those that died, those in flight, and those executed in this process.

What does not belong here: choosing documents (`requests.py`) and what bodies do.
"""

import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import dagster as dg

from ingest_assets.database import Database
from ingest_assets.defs.requests import DueRun
from ingest_assets.leases import dead_runs, forget_run, lease, leased_runs

UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


DELETE_JOB = "delete_documents"
LEASELESS_SECONDS = 180.0  # from the start of a run to its lease it opens the platform, which takes seconds
FAILED_RUNS = 200  # the newest; more failures than these within a day rest for the longest time anyway


def unfinished_runs(instance: dg.DagsterInstance) -> list[dg.DagsterRun]:
    """Return runs that have not ended."""
    return list(instance.get_runs(filters=dg.RunsFilter(statuses=UNFINISHED)))


def failed_runs(instance: dg.DagsterInstance) -> Sequence[dg.RunRecord]:
    """Return records of runs that failed within the last day."""
    since = datetime.now(tz=UTC) - timedelta(days=1)
    filters = dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE], updated_after=since)
    return instance.get_run_records(filters=filters, limit=FAILED_RUNS)


def report_dead_runs(instance: dg.DagsterInstance, database: Database) -> list[str]:
    """Report runs whose process is gone as failed, free what they held, and return their ids.

    The default launcher has no health check: a killed run would stay STARTED and keep its documents for ever.
    """
    dead = [*dead_runs(database), *_runs_without_lease(instance, database)]
    for run_id in dead:
        run = instance.get_run_by_id(run_id)
        if run is not None and run.status in UNFINISHED:
            instance.report_run_failed(run, "Its process is gone or its lease lapsed; its documents are free again.")
        forget_run(database, run_id)
    return dead


def _runs_without_lease(instance: dg.DagsterInstance, database: Database) -> list[str]:
    """Return runs of ours that started a while ago and hold no lease: they died before they took one."""
    held = leased_runs(database)
    started = instance.get_run_records(filters=dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
    latest = time.time() - LEASELESS_SECONDS
    return [
        record.dagster_run.run_id
        for record in started
        if record.dagster_run.run_id not in held
        and (record.dagster_run.asset_selection or record.dagster_run.job_name == DELETE_JOB)
        and record.start_time is not None
        and record.start_time < latest
    ]


def execute(
    definitions: dg.Definitions, instance: dg.DagsterInstance, database: Database, due: DueRun
) -> dg.ExecuteInProcessResult:
    """Execute a run in this process: an ordinary run of the instance, visible in the UI.

    The lease is taken before the run exists, so that a death at any moment is noticed.
    """
    run_id = str(uuid.uuid4())
    job = (
        definitions.resolve_job_def(DELETE_JOB)
        if due.kind == "delete"
        else definitions.resolve_implicit_global_asset_job_def()
    )
    with lease(database, run_id):
        return job.execute_in_process(
            instance=instance,
            run_id=run_id,
            run_config={**due.run_config, "loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            # The caller tries again itself; a daemon that starts later must not.
            tags={**due.tags, "dagster/max_retries": "0"},
            asset_selection=due.assets or None,
            raise_on_error=False,
        )
