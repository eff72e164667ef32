"""Troubles that Dagster shows: failed checks and runs, sensors that stand still, a daemon or a location that is gone.

What does not belong here: telling anybody (`alerts/`). Everything is read from the instance, so a process outside of
the code location sees the same as a sensor inside.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import dagster as dg
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.scheduler.instigation import InstigatorState, InstigatorStatus, TickStatus
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from ingest_assets.alerts import Trouble
from ingest_assets.alerts.platform_troubles import stalled_work, withheld_deletions
from ingest_assets.checks import CHECKS
from ingest_assets.defs.keys import VERSION_TAG
from ingest_assets.defs.report import CAUSE
from ingest_assets.defs.runs import failed_runs, unfinished_runs
from ingest_assets.models import live_models
from ingest_assets.platform import Platform
from ingest_assets.verdicts import Check

COMPLETED = {AssetCheckExecutionRecordStatus.SUCCEEDED, AssetCheckExecutionRecordStatus.FAILED}
FAILING_SECONDS = 45.0  # of a sensor, before people hear of it: two looks, for a store may fail once
STILL_SECONDS = 300.0  # sensors tick every five seconds, the daemon shows every thirty that it lives
SHOWN_CHARACTERS = 300  # of a failure
RUNS_LOOKED_AT = 50  # ended runs of a kind, the newest first


def all_troubles(instance: dg.DagsterInstance, platform: Platform) -> list[Trouble]:
    """Return everything that is wrong now."""
    return [
        *failed_checks(instance),
        *failing_runs(instance),
        *withheld_deletions(platform.database),
        *standing_still(instance, platform),
        *sensors_in_trouble(instance),
    ]


def unjudged(instance: dg.DagsterInstance) -> list[str]:
    """Return beginnings of keys that a look cannot judge now.

    While a run is under way nobody knows what will be left waiting; while the daemon is gone no sensor ticks.
    """
    return [
        *(["stalled/"] if unfinished_runs(instance) else []),
        *(["sensor/", "location"] if not _daemon_lives(instance) else []),
    ]


def _daemon_lives(instance: dg.DagsterInstance) -> bool:
    heartbeat = instance.get_daemon_heartbeats().get("SENSOR")
    return heartbeat is not None and heartbeat.timestamp >= time.time() - STILL_SECONDS


def failed_checks(instance: dg.DagsterInstance) -> Iterator[Trouble]:
    """Yield a trouble for each check whose newest result is a failure."""
    for check in CHECKS:
        key = dg.AssetCheckKey(dg.AssetKey(check.asset), check.name)
        # Runs under way have results that are still to come, however many there are.
        history = instance.event_log_storage.get_asset_check_execution_history(key, limit=1, status=COMPLETED)
        newest = next(iter(history), None)
        if newest is None or newest.event is None or newest.status != AssetCheckExecutionRecordStatus.FAILED:
            continue
        evaluation = newest.event.get_dagster_event().asset_check_evaluation_data
        offenders = evaluation.metadata.get("offenders")
        yield _of_check(check, evaluation.description or check.meaning, int(offenders.value) if offenders else 1)  # type: ignore[arg-type]


def _of_check(check: Check, what: str, count: int) -> Trouble:
    return Trouble(
        key=f"check/{check.name}",
        severity=check.severity,
        what=f"The check {check.name} fails: {what}",
        where=f"asset {check.asset}",
        count=count,
        since=None,
        path=f"/assets/{check.asset}?view=checks&checkDetail={check.name}",
        command=check.command,
    )


def failing_runs(instance: dg.DagsterInstance) -> Iterator[Trouble]:
    """Yield a trouble for each kind of run whose newest run failed for another reason than documents it rejected.

    Rejected documents are told by the check of dead letters; here is what stops a run as a whole.
    """
    by_kind: dict[str, list[dg.RunRecord]] = defaultdict(list)
    for record in failed_runs(instance):
        by_kind[_kind(record.dagster_run)].append(record)
    for kind, records in by_kind.items():
        newest = max(records, key=_ended)
        if _succeeded_since(instance, newest.dagster_run, _ended(newest)):
            continue
        said = [(record, reason) for record in records if (reason := _reason(instance, record.dagster_run)) is not None]
        if said:
            record, reason = max(said, key=lambda item: _ended(item[0]))
            yield Trouble(
                key=f"runs/{kind}",
                severity="ERROR",
                what=f"Runs of {kind} fail: {reason}",
                where=f"last run {record.dagster_run.run_id[:8]}",
                count=len(said),
                since=datetime.fromtimestamp(min(_ended(item) for item, _ in said), tz=UTC),
                path=f"/runs/{record.dagster_run.run_id}",
                command="ingest-assets run, once the cause is gone",
            )


def _kind(run: dg.DagsterRun) -> str:
    """Return what a run does, as people name it: its first asset or its job, and the version it embeds at."""
    names = sorted(key.to_user_string() for key in run.asset_selection or ())
    subject = run.job_name if not names else "chunk_vectors" if set(names) - {"documents", "chunks"} else "documents"
    version = run.tags.get(VERSION_TAG) or run.tags.get(f"dagster/partition/{VERSION_TAG}")
    return f"{subject} at {version}" if version else subject


def _ended(record: dg.RunRecord) -> float:
    return record.end_time or record.update_timestamp.timestamp()


def _succeeded_since(instance: dg.DagsterInstance, failed: dg.DagsterRun, since: float) -> bool:
    filters = dg.RunsFilter(statuses=[dg.DagsterRunStatus.SUCCESS], updated_after=datetime.fromtimestamp(since, tz=UTC))
    later = instance.get_run_records(filters=filters, limit=RUNS_LOOKED_AT)
    return any(_kind(record.dagster_run) == _kind(failed) for record in later)


def _reason(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str | None:
    """Return why a run failed in one sentence; None where it only rejected documents."""
    events = instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE, limit=5).records
    for record in events:
        data = record.event_log_entry.get_dagster_event().step_failure_data
        failure = data.user_failure_data
        if failure is not None:
            return _short(failure.description or "") if CAUSE in failure.metadata else None
        return _short(data.error.message if data.error else "")
    if run.tags.get("dagster/failure_reason") == "STEP_FAILURE":
        return None
    return "The process of the run is gone; its documents are requested again."


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARACTERS else line[:SHOWN_CHARACTERS] + " …"


def standing_still(instance: dg.DagsterInstance, platform: Platform) -> Iterator[Trouble]:
    """Yield troubles for work that waits while no run is under way."""
    if unfinished_runs(instance):
        return
    declared = {model.version for model in platform.settings.models}
    versions = [model.version for model in live_models(platform.database) if model.version in declared]
    yield from stalled_work(platform.database, platform.settings.alerts.stalled_minutes, versions)


def sensors_in_trouble(instance: dg.DagsterInstance) -> Iterator[Trouble]:
    """Yield troubles for a daemon that is gone, and for sensors that fail, were switched off, or stand still."""
    states = [state for state in instance.all_instigator_state() if state.instigator_type == InstigatorType.SENSOR]
    heartbeat = instance.get_daemon_heartbeats().get("SENSOR")
    if states and not _daemon_lives(instance):
        yield Trouble(
            key="daemon",
            severity="ERROR",
            what="The Dagster daemon shows no sign of life: nothing new is noticed and no run is started.",
            where="dagster-daemon",
            count=1,
            since=None if heartbeat is None else datetime.fromtimestamp(heartbeat.timestamp, tz=UTC),
            path="/deployment/daemons",
            command="start it again: dagster-daemon run -w workspace.yaml, or ingest-assets dev",
        )
        return
    if heartbeat is not None and not states:
        yield Trouble(
            key="location",
            severity="ERROR",
            what="The code location has not loaded: the daemon runs, and no sensor has ever ticked.",
            where="ingest_assets",
            count=1,
            since=None,
            path="/deployment/locations",
            command="dagster definitions validate -w workspace.yaml",
            patience_seconds=STILL_SECONDS,
        )
    yield from _still_sensors(instance, states)


def _still_sensors(instance: dg.DagsterInstance, states: Sequence[InstigatorState]) -> Iterator[Trouble]:
    still = []
    for state in states:
        if state.status == InstigatorStatus.STOPPED:
            yield _of_sensor(state, "is switched off", "switch it on under Automation, or use ingest-assets run")
            continue
        ticks = instance.get_ticks(state.instigator_origin_id, state.selector_id, limit=1)
        if ticks and ticks[0].status == TickStatus.FAILURE:
            error = ticks[0].tick_data.error
            said = _short(error.message) if error else "no reason given"
            yield _of_sensor(state, f"fails: {said}", "mend the cause; it goes on by itself", FAILING_SECONDS)
        elif ticks and ticks[0].timestamp < time.time() - STILL_SECONDS:
            still.append((state, ticks[0].timestamp))
    if still:
        yield Trouble(
            key="location",
            severity="ERROR",
            what=f"{len(still)} sensors stand still: the code location does not load, or its server does not answer.",
            where=", ".join(sorted(state.instigator_name for state, _ in still)),
            count=len(still),
            since=datetime.fromtimestamp(min(at for _, at in still), tz=UTC),
            path="/deployment/locations",
            command="dagster definitions validate -w workspace.yaml",
        )


def _of_sensor(state: InstigatorState, what: str, command: str, patience_seconds: float = 0.0) -> Trouble:
    name = state.instigator_name
    said = f"The sensor {name} {what.rstrip('.')}."
    return Trouble(f"sensor/{name}", "ERROR", said, name, 1, None, "/automation", command, patience_seconds)
