"""Dagster's storage on the platform's Postgres: pooled connections, planned events written in batches.

What does not belong here: our own tables. The stock classes open a connection per statement and write planned events
one by one. These rest on internals of the pinned dagster-postgres; `database.dagster_storage = "stock"` brings its own
classes back.
"""

import atexit
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from dagster import DagsterEventType, EventLogEntry
from dagster._core.storage.event_log.schema import SqlEventLogStorageTable
from dagster._serdes import ConfigurableClassData
from dagster_postgres import PostgresEventLogStorage, PostgresRunStorage, PostgresScheduleStorage
from dagster_postgres.storage import DagsterPostgresStorage

from ingest_assets.embedded import DatabaseUrls, database_urls
from ingest_assets.settings import load_settings

STATEMENT_TIMEOUT_MILLISECONDS = 60_000
POOL_RECYCLE_SECONDS = 600
MAX_OVERFLOW = 20
WRITTEN_HERE = {DagsterEventType.ASSET_MATERIALIZATION_PLANNED, DagsterEventType.ASSET_MATERIALIZATION}
EVENTS_PER_STATEMENT = 1000


_held = ExitStack()  # an embedded server is held until the process ends
atexit.register(_held.close)


def process_urls() -> DatabaseUrls:
    """Return the database urls of this process; an embedded server is held until the process ends."""
    return _held.enter_context(database_urls(load_settings()))


class BatchingEventLogStorage(PostgresEventLogStorage):
    """Writes batches of planned events and of materializations in few statements, into the rows of the stock class."""

    def store_event_batch(self, events: Sequence[EventLogEntry]) -> None:
        """Store events of any kind that Dagster writes in batches."""
        others = [event for event in events if event.get_dagster_event().event_type not in WRITTEN_HERE]
        ours = [event for event in events if event.get_dagster_event().event_type in WRITTEN_HERE]
        for start in range(0, len(ours), EVENTS_PER_STATEMENT):
            self._store(ours[start : start + EVENTS_PER_STATEMENT])
        if others:
            super().store_event_batch(others)

    def _store(self, events: Sequence[EventLogEntry]) -> None:
        # Rendering one statement of 7,000 values, as the stock class does, takes longer than running it.
        statement = SqlEventLogStorageTable.insert().returning(
            SqlEventLogStorageTable.c.id, sort_by_parameter_order=True
        )
        with self._connect() as connection:
            stored = connection.execute(statement, [self._event_to_row(event) for event in events]).scalars().all()
        newest = {event.get_dagster_event().asset_key: place for place, event in enumerate(events)}
        with self.index_transaction() as connection:
            self._store_asset_event_tags(connection, events, stored)
            for place in newest.values():
                self._store_asset_event(connection, events[place], stored[place])


class InstanceStorage(DagsterPostgresStorage):
    """Storage whose address comes from our settings, so that dagster.yaml holds none."""

    def __init__(
        self,
        postgres_url: str,
        should_autocreate_tables: bool = True,
        inst_data: ConfigurableClassData | None = None,
    ) -> None:
        super().__init__(postgres_url, should_autocreate_tables, inst_data)
        self._event_log_storage = BatchingEventLogStorage(postgres_url)
        self._run_storage = PostgresRunStorage(postgres_url)
        self._schedule_storage = PostgresScheduleStorage(postgres_url)
        for storage in (self._event_log_storage, self._run_storage, self._schedule_storage):
            storage.optimize_for_webserver(STATEMENT_TIMEOUT_MILLISECONDS, POOL_RECYCLE_SECONDS, MAX_OVERFLOW)

    @classmethod
    def config_type(cls) -> Any:
        """No configuration: everything comes from the settings."""
        return {}

    @classmethod
    def from_config_value(  # type: ignore[override]  # the stock class is its base
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> DagsterPostgresStorage:
        """Build the storage of this process: this one, or the stock one where the settings say so."""
        del config_value
        chosen = DagsterPostgresStorage if load_settings().database.dagster_storage == "stock" else cls
        return chosen(process_urls().dagster, should_autocreate_tables=True, inst_data=inst_data)
