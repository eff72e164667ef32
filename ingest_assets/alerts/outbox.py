"""States and messages in Postgres: a change and its messages are one transaction, delivery comes after it.

What does not belong here: sending (`delivery.py`). Whoever dies after the transaction leaves the message to the next
look; whoever dies between sending and noting it leaves a message that is sent twice, never one that is lost.
"""

import hashlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from ingest_assets.alerts.transitions import Notice, State, step
from ingest_assets.alerts.troubles import Trouble
from ingest_assets.alerts.wording import message
from ingest_assets.database import Connection, Database, one, row, rows, run

FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 30.0, 3600.0

Send = Callable[[str, str, str], str | None]  # address, title, body -> what went wrong


def address_sha256(address: str) -> bytes:
    """Return what stands for an address in the database: it may hold a password."""
    return hashlib.sha256(address.encode()).digest()


@contextmanager
def looking(database: Database) -> Iterator[bool]:
    """Tell whether nobody else looks now: what an older look found must not overwrite what a newer one did."""
    with database.connection() as connection:
        is_alone = bool(one(connection, "try_looking_lock")["is_held"])
        try:
            yield is_alone
        finally:
            if is_alone and not connection.closed:
                one(connection, "release_looking_lock")


def record_troubles(
    database: Database,
    troubles: Iterable[Trouble],
    addresses: Sequence[str],
    ui_url: str,
    repeat_hours: float,
    *,
    unjudged: Sequence[str] = (),
) -> tuple[Notice, ...]:
    """Keep what is wrong now, and queue one message per address about what changed; returns the changes.

    `unjudged` are beginnings of keys of which this look cannot tell whether they are wrong.
    """
    found = list(troubles)

    def work(connection: Connection) -> tuple[Notice, ...]:
        run(connection, "lock_alerts")
        now = datetime.now(tz=UTC)
        known = {item["key"]: _state(item) for item in rows(connection, "alert_states")}
        following = step(known, found, now, timedelta(hours=repeat_hours), unjudged)
        for key, state in following.states.items():
            run(
                connection,
                "upsert_alert_state",
                key=key,
                trouble=Jsonb(state.trouble.to_json()),
                opened_at=state.opened_at,
                told_at=state.told_at,
            )
        run(connection, "delete_alert_states", keys=list(known.keys() - following.states.keys()))
        digests = [address_sha256(address) for address in addresses]
        run(connection, "forget_alert_messages")
        if following.notices:
            title, body = message(following.notices, now, ui_url)
            for digest in digests:
                run(connection, "insert_alert_message", address_sha256=digest, title=title, body=body)
        return following.notices

    return database.transact(work)


def open_states(database: Database) -> list[State]:
    """Return what was wrong at the last look, the longest first."""
    with database.connection() as connection:
        return [_state(item) for item in rows(connection, "alert_states")]


def undelivered(database: Database) -> list[DictRow]:
    """Return the addresses that have messages waiting, as hashes, with how many and why."""
    with database.connection() as connection:
        return rows(connection, "undelivered_alerts")


def deliver_messages(database: Database, addresses: Sequence[str], send: Send, *, seconds: float = math.inf) -> int:
    """Send what is due, the oldest first, for about so long; returns how many were taken.

    A refusal is tried again, later each time.
    """
    by_digest = {address_sha256(address): address for address in addresses}
    delivered, deadline = 0, time.monotonic() + seconds
    while time.monotonic() < deadline and (item := _take(database, list(by_digest))) is not None:
        error = send(by_digest[item["address_sha256"]], item["title"], item["body"])
        with database.connection() as connection:
            if error is None:
                run(connection, "mark_alert_delivered", message_id=item["message_id"])
                delivered += 1
            else:
                delay = min(FIRST_DELAY_SECONDS * 2.0 ** (item["attempts"] - 1), LONGEST_DELAY_SECONDS)
                run(connection, "put_off_alert", message_id=item["message_id"], error=error, seconds=delay)
    return delivered


def _take(database: Database, digests: list[bytes]) -> DictRow | None:
    with database.connection() as connection:
        return row(connection, "take_alert_message", addresses=digests)


def _state(item: DictRow) -> State:
    return State(Trouble.from_json(item["trouble"]), item["opened_at"], item["told_at"])
