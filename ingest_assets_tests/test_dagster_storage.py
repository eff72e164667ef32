"""Dagster's storage as we switch it on: faster than the stock classes, and the same rows, event for event."""

import logging
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import dagster as dg
import psycopg
import pytest
from dagster import DagsterEvent, DagsterEventType, EventLogEntry
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationPlanned
from dagster._core.events import AssetMaterializationPlannedData, EventSpecificData, StepMaterializationData
from dagster_postgres import PostgresEventLogStorage
from dagster_postgres.storage import DagsterPostgresStorage
from psycopg.rows import dict_row

from ingest_assets.defs.instance import open_instance
from ingest_assets.defs.storage import InstanceStorage
from ingest_assets.settings import load_settings
from ingest_assets_tests.fixtures_deployment import Deployment

TABLES = {
    "event_logs": "run_id, event::jsonb, dagster_event_type, timestamp, step_key, asset_key, partition",
    "asset_keys": "asset_key, last_materialization::jsonb - 'storage_id', last_run_id, last_materialization_timestamp",
    "asset_event_tags": "asset_key, key, value, event_timestamp, event_id - (SELECT min(id) FROM event_logs)",
    "asset_check_executions": "asset_key, check_name, partition, run_id, execution_status",
}
RUN_ID = "4a1f2a0e-0c1e-4c7e-8d5e-0d9f0c5f6a11"
Open = Callable[[type[DagsterPostgresStorage]], tuple[DagsterPostgresStorage, str]]


@pytest.fixture
def open_storage(postgres: Callable[[str], str], dagster_template: str) -> Iterator[Open]:
    """Open a storage of a class on an empty database of its own."""
    made: list[tuple[DagsterPostgresStorage, str]] = []
    with psycopg.connect(postgres("postgres"), autocommit=True) as connection:

        def make(kind: type[DagsterPostgresStorage]) -> tuple[DagsterPostgresStorage, str]:
            name = f"storage_{uuid.uuid4().hex[:12]}"
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {dagster_template}".encode())
            made.append((kind(postgres(name), should_autocreate_tables=True), postgres(name)))
            return made[-1]

        yield make
        for storage, url in made:
            storage.event_log_storage.dispose()
            connection.execute(f"DROP DATABASE {url.split('/')[3].partition('?')[0]} WITH (FORCE)".encode())


def entry(kind: DagsterEventType, data: "EventSpecificData", number: int) -> EventLogEntry:
    """Return an event as a run stores it."""
    event = DagsterEvent(kind.value, "a_job", step_key="a_step", event_specific_data=data, message=f"event {number}")
    return EventLogEntry(
        None, logging.DEBUG, f"event {number}", RUN_ID, 1_790_000_000.0 + number, "a_step", "a_job", event
    )


def planned(asset: str, partitions: Sequence[str | None]) -> list[EventLogEntry]:
    """Return planned events of an asset."""
    return [
        entry(
            DagsterEventType.ASSET_MATERIALIZATION_PLANNED,
            AssetMaterializationPlannedData(dg.AssetKey(asset), partition=partition),
            number,
        )
        for number, partition in enumerate(partitions)
    ]


def materialized(asset: str, partitions: Sequence[str]) -> list[EventLogEntry]:
    """Return materializations with metadata and tags, of which Dagster indexes some."""
    return [
        entry(
            DagsterEventType.ASSET_MATERIALIZATION,
            StepMaterializationData(
                dg.AssetMaterialization(
                    asset,
                    partition=partition,
                    metadata={"chunks": number, "preview": 'é \u4e2d "quoted"', "share": 0.5},
                    tags={
                        "dagster/code_version": "1",
                        "dagster/data_version": f"v{number}",
                        "dagster/partition/document": partition,
                    },
                )
            ),
            100 + number,
        )
        for number, partition in enumerate(partitions)
    ]


def check_planned() -> EventLogEntry:
    """Return a check that a run intends to evaluate."""
    data = AssetCheckEvaluationPlanned(asset_key=dg.AssetKey("documents"), check_name="a_check")
    return entry(DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED, data, 50)


KEYS = ["a.md", "b c.md", "übel%7C.md", "d" * 500]
BATCHES = {
    "planned events of one asset": [planned("documents", KEYS)],
    "planned events of two assets and a check": [
        [*planned("chunks", KEYS), *planned("documents", KEYS), check_planned()]
    ],
    "a planned event without partition": [planned("documents", [None])],
    "materializations": [planned("documents", KEYS), materialized("documents", KEYS)],
    "more than one statement holds": [materialized("documents", [f"{number}.md" for number in range(1200)])],
    "nothing": [[]],
}


def contents(url: str) -> dict[str, list[dict[str, Any]]]:
    """Return what the tables of events hold, in the order of their ids."""
    with psycopg.connect(url, row_factory=dict_row) as connection:
        return {
            table: connection.execute(f"SELECT {columns} FROM {table} ORDER BY id".encode()).fetchall()
            for table, columns in TABLES.items()
        }


def test_every_batch_leaves_the_rows_that_the_stock_class_leaves(open_storage: Open) -> None:
    """What the UI reads does not depend on how it was written."""
    ours, theirs = (open_storage(kind) for kind in (InstanceStorage, DagsterPostgresStorage))
    stored = 0
    for name, batches in BATCHES.items():
        for batch in batches:
            for storage, _ in (ours, theirs):
                storage.event_log_storage.store_event_batch(batch)
            stored += len(batch)
        found = contents(ours[1])
        assert found == contents(theirs[1]), name
        assert len(found["event_logs"]) == stored, name


def test_one_setting_brings_the_stock_classes_back(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever suspects our storage compares in a minute, and nothing else changes."""
    for name, value in deployment.environment.items():
        if name.startswith("INGEST_"):
            monkeypatch.setenv(name, value)
    deployment.write("a.md", "# Pumps\n\nThe pump was inspected on the second day, and its seal was replaced.")
    monkeypatch.setenv("INGEST_DATABASE__DAGSTER_STORAGE", "stock")
    with open_instance(load_settings()) as instance:
        assert type(instance.event_log_storage) is PostgresEventLogStorage
    deployment.extra_environment["INGEST_DATABASE__DAGSTER_STORAGE"] = "stock"
    assert deployment.json("run")["ingested"] == 1
    deployment.write("b.md", "# Valves\n\nThe valve was inspected on the third day, and its gasket was replaced.")
    del deployment.extra_environment["INGEST_DATABASE__DAGSTER_STORAGE"]
    monkeypatch.delenv("INGEST_DATABASE__DAGSTER_STORAGE")
    assert deployment.json("run")["ingested"] == 1
    with open_instance(load_settings()) as instance:
        assert isinstance(instance.event_log_storage, PostgresEventLogStorage)
        assert type(instance.event_log_storage) is not PostgresEventLogStorage
        found = instance.get_materialized_partitions(dg.AssetKey("documents"))
    assert found == {"a.md", "b.md"}
