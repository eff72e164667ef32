"""Change events as hints: kept in the database first, then answered by the object's current state.

What does not belong here: the shapes of messages (`source/events.py`), and judging what is gone (`discovery.py`): a
mass deletion must look as suspicious when every object is told of by an event of its own.
"""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from psycopg.rows import DictRow

from ingest_assets.database import Connection, Database, one, rows, run
from ingest_assets.discovery import stage, staging
from ingest_assets.errors import DocumentUnreadable, Refused
from ingest_assets.identity import document_id, key_of, object_uri
from ingest_assets.records import SourceObject
from ingest_assets.source import Source
from ingest_assets.source.events import MessageContent, read_message
from ingest_assets.source.queue import EventQueue, QueueMessage

State = SourceObject | Literal["gone", "unknown"]
HEADS_AT_ONCE = 16
HINTS_AT_ONCE = 200
KEPT_CHARACTERS = 20_000  # of a message that is set aside


@dataclass(slots=True)
class Received:
    """What came out of a queue."""

    messages: int = 0
    hints: int = 0  # of keys of this source
    elsewhere: int = 0  # events of other buckets and folders
    set_aside: list[str] = field(default_factory=list)  # ids of messages that could not be read, in whole or in part


def receive_hints(
    database: Database, source: Source, queue: EventQueue, *, wait_seconds: int, seconds: float
) -> Received:
    """Take messages out of the queue until it is empty, for about so many seconds, and keep what they hint at.

    A message is deleted once what it says is committed: killed in between, it comes again and says the same.
    The first request waits up to `wait_seconds` for a message.

    Raises:
        SourceUnavailable: the queue cannot be read; what came before stands.
    """
    received, deadline = Received(), time.monotonic() + seconds
    messages = queue.receive(wait_seconds)
    while messages:
        _keep(database, source.url, messages, received)
        queue.delete(messages)
        if time.monotonic() > deadline:
            break
        messages = queue.receive(0)
    return received


def resolve_hints(database: Database, source: Source, seconds: float) -> int:
    """Ask for the current state of hinted keys, for about so many seconds; returns how many were answered.

    What is there is noted as a listing would; what is not waits for a listing that judges it. An object whose state is
    not ours to see is left to the listing, which needs no permission for it.

    Raises:
        SourceUnavailable: nothing can be asked; hints stay.
    """
    answered, deadline = 0, time.monotonic() + seconds
    while time.monotonic() < deadline:
        with database.connection() as connection:
            hints = rows(connection, "select_hints", most=HINTS_AT_ONCE)
            seen_at = one(connection, "current_time")["time"]
        if not hints:
            break
        states = _look(source, hints)
        with database.connection() as connection, staging(connection), connection.transaction():
            _answer(connection, hints, states, seen_at)
        answered += len(hints)
    return answered


def set_aside_messages(database: Database) -> list[DictRow]:
    """Return the messages that could not be read, the newest first."""
    with database.connection() as connection:
        return rows(connection, "set_aside_messages")


def drop_set_aside_messages(database: Database, message_ids: Sequence[str] | None) -> list[str]:
    """Delete messages that somebody has looked at, None for all; returns their ids.

    Raises:
        Refused: there is none of these.
    """
    with database.connection() as connection:
        dropped = rows(
            connection, "drop_set_aside_messages", message_ids=None if message_ids is None else [*message_ids]
        )
    if not dropped:
        raise Refused("No such message is set aside; `ingest-assets messages list` shows those that are.")
    return [item["message_id"] for item in dropped]


def _keep(database: Database, source_url: str, messages: Sequence[QueueMessage], received: Received) -> None:
    """Commit what a batch says: hints of this source's keys, and messages that could not be read."""
    contents = [read_message(message.body) for message in messages]
    events = {event for content in contents for event in content.events}
    uris = {object_uri(f"s3://{event.bucket}/", event.key) for event in events}
    ours = sorted(uri for uri in uris if uri.startswith(source_url) and uri != source_url)
    faulty = [(message, content) for message, content in zip(messages, contents, strict=True) if content.fault]

    def keep(connection: Connection) -> None:
        run(connection, "insert_hints", document_ids=[document_id(uri) for uri in ours], source_uris=ours)
        for message, content in faulty:
            _set_aside(connection, message, content)

    database.transact(keep)
    received.messages += len(messages)
    received.hints += len(ours)
    received.elsewhere += len(uris) - len(ours)
    received.set_aside += [message.message_id for message, _ in faulty]


def _set_aside(connection: Connection, message: QueueMessage, content: MessageContent) -> None:
    run(
        connection,
        "set_message_aside",
        message_id=message.message_id,
        reason=content.fault,
        detail=_storable(content.detail),
        body=_storable(message.body[:KEPT_CHARACTERS]),
    )


def _storable(text: str) -> str:
    """Return a text as Postgres can hold it: what JSON can spell and no text has is written as an escape."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _look(source: Source, hints: Sequence[DictRow]) -> list[State]:
    def look(hint: DictRow) -> State:
        key = key_of(source.url, hint["source_uri"])
        if key is None:  # the settings named another source when it was kept
            return "unknown"
        try:
            return source.head(key) or "gone"
        except DocumentUnreadable:
            return "unknown"

    with ThreadPoolExecutor(HEADS_AT_ONCE) as heads:
        return list(heads.map(look, hints))


def _answer(
    connection: Connection,
    hints: Sequence[DictRow],
    states: Sequence[State],
    seen_at: datetime,
) -> None:
    ids = [hint["document_id"] for hint in hints]
    stage(connection, (state for state in states if isinstance(state, SourceObject)))
    merged = one(connection, "merge_listing", seen_at=seen_at)
    run(connection, "count_hinted_additions", added=merged["added"])
    gone = [hint for hint, state in zip(ids, states, strict=True) if state == "gone"]
    run(connection, "note_gone", document_ids=gone, seen_at=seen_at)
    run(connection, "hasten_documents", document_ids=ids)
    run(connection, "delete_hints", document_ids=ids, hinted_at=[hint["hinted_at"] for hint in hints])
