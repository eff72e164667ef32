"""Leases: every run shows that it lives; a run that no longer does is noticed by whoever looks next.

What does not belong here: telling Dagster about a dead run (`defs/runs.py`), and which texts a run paid for.
"""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
from psycopg.rows import DictRow

from ingest_assets.database import Database, rows, run
from ingest_assets.errors import DatabaseUnavailable

LEASE_SECONDS = 60.0
RENEWALS_PER_LEASE = 4
CREATE_TIME_TOLERANCE_SECONDS = 2.0  # start times of one process, read twice, differ by rounding


@contextmanager
def lease(database: Database, run_id: str) -> Iterator[None]:
    """Hold a lease on a run's life while the block runs; its claims are renewed with it and released at the end."""
    _take(database, run_id)
    stop = threading.Event()
    keeper = threading.Thread(target=_renew, args=(database, run_id, stop), daemon=True, name=f"lease-{run_id[:8]}")
    keeper.start()
    try:
        yield
    finally:
        stop.set()
        keeper.join()
        with database.connection() as connection:
            run(connection, "release_run_claims", run_id=run_id)
            run(connection, "drop_lease", run_id=run_id)


def dead_runs(database: Database) -> list[str]:
    """Return ids of runs whose lease lapsed, or whose process on this host is gone."""
    with database.connection() as connection:
        return [item["run_id"] for item in rows(connection, "select_leases") if _is_dead(item)]


def leased_runs(database: Database) -> set[str]:
    """Return ids of runs that hold a lease, lapsed or not."""
    with database.connection() as connection:
        return {item["run_id"] for item in rows(connection, "select_leases")}


def forget_run(database: Database, run_id: str) -> None:
    """Free what a dead run held."""
    with database.connection() as connection, connection.transaction():
        run(connection, "release_run_claims", run_id=run_id)
        run(connection, "drop_lease", run_id=run_id)


def _take(database: Database, run_id: str) -> None:
    with database.connection() as connection:
        run(
            connection,
            "take_lease",
            run_id=run_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            process_started_at=psutil.Process().create_time(),
            lease_seconds=LEASE_SECONDS,
        )
        run(connection, "renew_claims", run_id=run_id, lease_seconds=LEASE_SECONDS)


def _renew(database: Database, run_id: str, stop: threading.Event) -> None:
    while not stop.wait(LEASE_SECONDS / RENEWALS_PER_LEASE):
        try:
            _take(database, run_id)
        except DatabaseUnavailable:
            continue  # the run itself meets the same trouble; the lease lapses if it lasts


def _is_dead(item: DictRow) -> bool:
    if item["host"] != socket.gethostname():
        return bool(item["is_lapsed"])
    try:
        started_at = psutil.Process(item["pid"]).create_time()
    except psutil.NoSuchProcess:
        return True
    return bool(item["is_lapsed"]) or abs(started_at - item["process_started_at"]) > CREATE_TIME_TOLERANCE_SECONDS
