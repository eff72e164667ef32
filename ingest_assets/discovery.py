"""Discovery: a listing of the source, compared with `documents` in SQL a page at a time.

What does not belong here: reading objects (`source/`), deciding on them (`ingest.py`), and change events (`hints.py`).
A listing only hints: deletions are confirmed by a HEAD (`deletion.py`), changes by a read. How far a listing came is
kept in the database with each page, so it may stop anywhere; one process lists at a time.
"""

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import DictRow

from ingest_assets.database import Connection, Database, copy, one, row, rows, run
from ingest_assets.identity import document_id, partition_key, readable_key
from ingest_assets.records import SourceObject
from ingest_assets.settings import SourceSettings
from ingest_assets.source import ListingPage, Source

GUARDED_DOCUMENTS = 10  # fewer vanished documents than this are never suspicious


@dataclass(frozen=True, slots=True)
class Discovery:
    """What one complete listing found, in objects and documents."""

    objects: int
    added: int
    changed: int
    missing: int  # documents whose deletion has not been carried out, from this listing and earlier ones
    deletions_withheld: int  # of them, those that wait for somebody's approval


@dataclass(frozen=True, slots=True)
class StagedListing:
    """A complete listing in this session's staging table."""

    connection: Connection
    objects: int


def is_shrink_suspicious(*, documents: int, vanished: int, added: int, fraction: float) -> bool:
    """Tell whether so many documents vanished at once that somebody should look before they are deleted.

    `documents` were there before; one listing shows `vanished` of them gone and `added` new: a rename is one of each.
    """
    net = vanished - added
    return net > GUARDED_DOCUMENTS and net > fraction * documents


@contextmanager
def staged_listing(database: Database, source: Source) -> Iterator[StagedListing]:
    """List the whole source into a staging table, a page at a time, and lend the session that holds it.

    Raises:
        SourceUnavailable: the listing did not come to its end; nothing is concluded from half of one.
    """
    with database.connection() as connection, staging(connection):
        objects = sum(stage(connection, page) for page in source.list())
        yield StagedListing(connection, objects)


@contextmanager
def staging(connection: Connection) -> Iterator[None]:
    """Make this session's empty staging table, and drop it at the end."""
    run(connection, "drop_listing_staging")
    run(connection, "create_listing_staging")
    try:
        yield
    finally:
        run(connection, "drop_listing_staging")


def stage(connection: Connection, objects: Iterable[SourceObject]) -> int:
    """Put objects into the staging table; returns how many."""
    records = (
        (document_id(o.uri), o.uri, readable_key(o.key), partition_key(o.key), o.etag, o.size_bytes, o.last_modified)
        for o in objects
    )
    return copy(connection, "copy_listing", None, records)


def discover(
    database: Database, source: Source, settings: SourceSettings, *, are_deletions_approved: bool = False
) -> Discovery:
    """List the source from its beginning to its end, and note what is new, changed and missing.

    Nothing is read or deleted. Waits while another process lists; what an unfinished listing saw is seen again.

    Raises:
        SourceUnavailable: the source cannot be listed.
    """
    with database.connection() as connection:
        one(connection, "take_listing_lock")
        with _listing(connection):
            run(connection, "forget_progress")
            _list_pages(connection, source, math.inf)
            return _conclude(connection, source, settings, are_deletions_approved=are_deletions_approved)


def continue_discovery(
    database: Database, source: Source, settings: SourceSettings, seconds: float
) -> Discovery | None:
    """List for about so many seconds, from where the last call stopped; None while the end is not reached.

    A page is compared when it arrives; what is missing is known at the end only. None also while another process
    lists, and while the next listing is not due. Killed anywhere, the next call goes on behind the last page that was
    kept whole.

    Raises:
        SourceUnavailable: the source cannot be listed; the pages before stay kept.
    """
    with database.connection() as connection:
        interval = settings.listing_interval_seconds
        if not one(connection, "is_listing_due", source_url=source.url, interval_seconds=interval)["is_due"]:
            return None
        if not one(connection, "try_listing_lock")["is_held"]:
            return None
        with _listing(connection):
            if not _list_pages(connection, source, time.monotonic() + seconds):
                return None
            return _conclude(connection, source, settings, are_deletions_approved=False)


@contextmanager
def _listing(connection: Connection) -> Iterator[None]:
    """Hold what a listing needs of its session; the lock was taken before."""
    try:
        with staging(connection):
            yield
    finally:
        if not connection.closed:
            one(connection, "release_listing_lock")


def _list_pages(connection: Connection, source: Source, deadline: float) -> bool:
    """Compare and keep page after page; returns whether the listing came to its end before the deadline."""
    progress = row(connection, "listing_progress", source_url=source.url) or _begin(connection, source.url)
    last_key = progress["last_key"]
    pages = source.list(last_key.decode("utf-8", "surrogateescape") if last_key is not None else None)
    while True:
        seen_at = one(connection, "current_time")["time"]
        page = next(pages, None)
        if page is None:
            return True
        _keep(connection, page, seen_at)
        if time.monotonic() > deadline:
            return False


def _begin(connection: Connection, source_url: str) -> DictRow:
    with connection.transaction():
        run(connection, "forget_progress")
        run(connection, "forget_listed")
        return one(connection, "begin_listing", source_url=source_url)


def _keep(connection: Connection, page: ListingPage, seen_at: datetime) -> None:
    """Compare one page with the documents and remember it, in one transaction."""
    with connection.transaction():
        run(connection, "empty_listing_staging")
        objects = stage(connection, page)
        merged = one(connection, "merge_listing", seen_at=seen_at)
        run(connection, "note_listed")
        run(
            connection,
            "note_progress",
            last_key=page.last_key.encode("utf-8", "surrogateescape"),
            objects=objects,
            added=merged["added"],
            changed=merged["changed"],
        )


def _conclude(
    connection: Connection, source: Source, settings: SourceSettings, *, are_deletions_approved: bool
) -> Discovery:
    """Say of a listing that came to its end what is missing, and whether it may be deleted."""
    with connection.transaction():
        progress = one(connection, "listing_progress", source_url=source.url)
        last = row(connection, "last_listing")
        run(connection, "mark_missing", started_at=progress["started_at"])
        standing = one(connection, "count_standing")
        # What another source brings says nothing about what is gone from this one.
        is_other_source = last is not None and last["source_url"] != source.url
        by_hints = last["added_by_hints"] if last is not None else 0
        is_suspicious = is_shrink_suspicious(
            documents=progress["documents_before"],
            vanished=standing["unjudged"],
            added=0 if is_other_source else progress["added"] + by_hints,
            fraction=settings.deletion_guard_fraction,
        )
        run(connection, "judge_deletions", deletion="withheld" if is_suspicious else "allowed")
        if are_deletions_approved:
            run(connection, "approve_deletions", partition_keys=None)
        withheld = one(connection, "count_withheld")["documents"]
        counts = {name: progress[name] for name in ("objects", "added", "changed")}
        found = Discovery(**counts, missing=standing["missing"], deletions_withheld=withheld)
        run(
            connection,
            "record_listing",
            source_url=source.url,
            started_at=progress["started_at"],
            missing=found.missing,
            **counts,
        )
        run(connection, "answer_hints", started_at=progress["started_at"])
        run(connection, "forget_progress")
        run(connection, "forget_listed")
    return found


def pending_documents(database: Database, extractor_version: str, chunker_version: str) -> list[str]:
    """Return partition keys that must be ingested, oldest first."""
    with database.connection() as connection:
        found = rows(
            connection, "pending_documents", extractor_version=extractor_version, chunker_version=chunker_version
        )
    return [item["partition_key"] for item in found]


def overdue_deletions(database: Database, settings: SourceSettings) -> list[str]:
    """Return partition keys whose deletion waited for additions longer than the grace; none while withheld."""
    return _missing(database, settings.deletion_grace_seconds)


def deletable_documents(database: Database) -> list[str]:
    """Return partition keys whose deletion should be confirmed and carried out; none while deletions are withheld."""
    return _missing(database, 0)


def _missing(database: Database, grace_seconds: float) -> list[str]:
    with database.connection() as connection:
        return [item["partition_key"] for item in rows(connection, "missing_documents", grace_seconds=grace_seconds)]
