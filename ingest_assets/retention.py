"""Bounds what Dagster's event log keeps without losing the state of a partition; says what a document costs there.

What does not belong here: partitions themselves (`defs/housekeeping.py`), and ticks, which Dagster purges itself.
"""

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import psycopg
from psycopg.rows import DictRow, dict_row

from ingest_assets.database import Connection, one, rows, run

EVENTS_PER_STATEMENT = 5000
T = TypeVar("T")
DELETABLE = ("ended_log_events", "superseded_asset_events", "superseded_check_events")


def bound_event_log(url: str, retention_days: float) -> dict[str, float]:
    """Delete events that nobody needs any more, in small statements; returns what went and what is left.

    The newest materialized and planned event of every partition, the newest result of every check, and why a run failed
    are kept for ever. Bytes are with indexes, but those of a document, which are of its events' text.
    """
    before = datetime.now(tz=UTC).replace(tzinfo=None) - timedelta(days=retention_days)
    with psycopg.connect(url, row_factory=dict_row, autocommit=True) as connection:
        deleted = sum(_delete(connection, rows(connection, kind, before=before)) for kind in DELETABLE)
        run(connection, "delete_check_executions", before=before)
        size, assets = one(connection, "event_log_size"), one(connection, "partition_events")
    documents = max(assets["documents"], 1)
    return {
        "deleted events": deleted,
        "events": size["events"],
        "event log bytes": size["event_bytes"],
        "ticks": size["ticks"],
        "tick bytes": size["tick_bytes"],
        "event rows per document": round(assets["events"] / documents, 1),
        "event bytes per document": round(float(assets["bytes"]) / documents),
    }


def forget_partitions(url: str, assets: Collection[str], partitions: Sequence[str]) -> None:
    """Delete every event of some partitions; `assets` are asset keys as Dagster stores them."""
    with psycopg.connect(url, row_factory=dict_row, autocommit=True) as connection:
        for batch in _batches(partitions):
            _delete(connection, rows(connection, "events_of_partitions", assets=list(assets), partitions=batch))


def _delete(connection: Connection, events: Sequence[DictRow]) -> int:
    return sum(run(connection, "delete_events", event_ids=batch) for batch in _batches([item["id"] for item in events]))


def _batches(items: Sequence[T]) -> Iterator[list[T]]:
    for start in range(0, len(items), EVENTS_PER_STATEMENT):
        yield list(items[start : start + EVENTS_PER_STATEMENT])
