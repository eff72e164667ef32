"""Leases: every run shows that it lives; a run that no longer does is noticed by whoever looks next.

A run that was stopped for longer than its lease notices that itself: others may be paying for its texts by then.

What does not belong here: telling Dagster about a dead run (`defs/runs.py`), and which texts a run paid for.
"""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
from psycopg.rows import DictRow

from ingest_assets.database import Database, rows, run
from ingest_assets.errors import DatabaseUnavailable, EmbeddingTransient

LEASE_SECONDS = 60.0
RENEWALS_PER_LEASE = 4
CREATE_TIME_TOLERANCE_SECONDS = 2.0  # start times of one process, read twice, differ by rounding


class Lease:
    """A run's lease, as the run itself sees it."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self._renewed_at = time.monotonic()  # goes on while the process is stopped
        self._is_lapsed = False

    def require(self) -> None:
        """Return while the lease was never without effect since the run began.

        Raises:
            EmbeddingTransient: it lapsed once, so the run's claims may have gone to others.
        """
        self._notice_lapse()
        if self._is_lapsed:
            raise EmbeddingTransient(
                f"This run was stopped for more than {LEASE_SECONDS:.0f} seconds, or could not reach the database for "
                "so long; its texts are left to other runs. Run again."
            )

    def renewed(self, begun_at: float) -> None:
        """Note that the lease was renewed by a call that began at this monotonic time."""
        self._notice_lapse()
        self._renewed_at = begun_at

    def _notice_lapse(self) -> None:
        if time.monotonic() - self._renewed_at > LEASE_SECONDS:
            self._is_lapsed = True


@contextmanager
def lease(database: Database, run_id: str) -> Iterator[Lease]:
    """Hold a lease on a run's life while the block runs; its claims are renewed with it and released at the end."""
    held = Lease(run_id)
    _take(database, run_id)
    stop = threading.Event()
    keeper = threading.Thread(target=_renew, args=(database, held, stop), daemon=True, name=f"lease-{run_id[:8]}")
    keeper.start()
    try:
        yield held
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
        run(connection, "abandon_run", run_id=run_id)
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


def _renew(database: Database, held: Lease, stop: threading.Event) -> None:
    while not stop.wait(LEASE_SECONDS / RENEWALS_PER_LEASE):
        begun_at = time.monotonic()
        try:
            _take(database, held.run_id)
        except DatabaseUnavailable:
            continue  # the run itself meets the same trouble; the lease lapses if it lasts
        held.renewed(begun_at)


def _is_dead(item: DictRow) -> bool:
    if item["host"] != socket.gethostname():
        return bool(item["is_lapsed"])
    try:
        started_at = psutil.Process(item["pid"]).create_time()
    except psutil.NoSuchProcess:
        return True
    return bool(item["is_lapsed"]) or abs(started_at - item["process_started_at"]) > CREATE_TIME_TOLERANCE_SECONDS
