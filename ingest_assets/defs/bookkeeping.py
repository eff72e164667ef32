"""What Dagster is told about a run's partitions: planned, materialized with metadata, and check results.

What does not belong here: deciding any of it. Events go to the event log in one batch per asset, about 2 ms a document
for all assets; `context.log_event` per document costs 8 to 12 ms.
"""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg
from dagster import DagsterEvent, DagsterEventType, EventLogEntry
from dagster._core.events import (
    AssetMaterializationPlannedData,
    AssetObservationData,
    EventSpecificData,
    StepMaterializationData,
)

from ingest_assets.defs.check_metadata import check_metadata
from ingest_assets.verdicts import Verdict


@dataclass(slots=True)
class Spent:
    """Time this process has spent on telling Dagster about partitions."""

    seconds: float = 0.0


spent = Spent()


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """One partition that was materialized, and what is worth reading about it."""

    partition: str
    metadata: Mapping[str, Any] = field(default_factory=dict)


def record_planned(context: dg.AssetExecutionContext, assets: Iterable[dg.AssetKey], partitions: Sequence[str]) -> None:
    """Note partitions that this run was asked for in its config: they show as failed unless they are materialized."""
    for asset in assets:
        events = [
            _entry(
                context,
                DagsterEventType.ASSET_MATERIALIZATION_PLANNED,
                AssetMaterializationPlannedData(asset, partition=partition),
                f"{context.job_name} intends to materialize {asset.to_user_string()}.",
            )
            for partition in partitions
        ]
        _store(context, events)


def record_materialized(
    context: dg.AssetExecutionContext, asset: dg.AssetKey, records: Sequence[PartitionRecord], code_version: str
) -> None:
    """Note partitions of one asset that are good."""
    tags = {"dagster/code_version": code_version}
    events = [
        _entry(
            context,
            DagsterEventType.ASSET_MATERIALIZATION,
            StepMaterializationData(
                dg.AssetMaterialization(asset, partition=record.partition, metadata=dict(record.metadata), tags=tags)
            ),
            f"Materialized {record.partition}.",
        )
        for record in records
    ]
    _store(context, events)


def record_given_up(
    context: dg.AssetExecutionContext, assets: Iterable[dg.AssetKey], records: Sequence[PartitionRecord]
) -> None:
    """Note why partitions are not materialized, where people look for it: beside the partition."""
    for asset in assets:
        events = [
            _entry(
                context,
                DagsterEventType.ASSET_OBSERVATION,
                AssetObservationData(
                    dg.AssetObservation(asset, partition=record.partition, metadata=dict(record.metadata))
                ),
                f"Gave up {record.partition}.",
            )
            for record in records
        ]
        _store(context, events)


def record_checks(context: dg.AssetExecutionContext | dg.OpExecutionContext, verdicts: Iterable[Verdict]) -> None:
    """Note the results of checks, whatever becomes of the run."""
    for verdict in verdicts:
        # Dagster takes check evaluations here too; its annotation does not say so yet.
        context.log_event(check_evaluation(verdict))  # type: ignore[arg-type]


def check_evaluation(verdict: Verdict) -> dg.AssetCheckEvaluation:
    """Return a verdict as Dagster stores it."""
    return dg.AssetCheckEvaluation(
        asset_key=dg.AssetKey(verdict.asset),
        check_name=verdict.check,
        passed=verdict.passed,
        severity=dg.AssetCheckSeverity[verdict.severity],
        description=verdict.summary,
        metadata=check_metadata(verdict),
    )


def _entry(
    context: dg.AssetExecutionContext, kind: DagsterEventType, data: "EventSpecificData", message: str
) -> EventLogEntry:
    step_key = context.get_step_execution_context().step.key
    event = DagsterEvent(
        event_type_value=kind.value,
        job_name=context.job_name,
        step_key=step_key,
        event_specific_data=data,
        message=message,
    )
    return EventLogEntry(  # type: ignore[no-untyped-call]  # a NamedTuple of Dagster's
        user_message=message,
        level=logging.DEBUG,
        job_name=context.job_name,
        run_id=context.run.run_id,
        error_info=None,
        timestamp=time.time(),
        step_key=step_key,
        dagster_event=event,
    )


def _store(context: dg.AssetExecutionContext, events: Sequence[EventLogEntry]) -> None:
    began = time.perf_counter()
    if events:
        context.instance.event_log_storage.store_event_batch(events)
    spent.seconds += time.perf_counter() - began
