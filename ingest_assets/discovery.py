"""Discovery: one listing of the source, compared with `documents` in SQL.

What does not belong here: reading objects (`source/`), and deciding on them (`ingest.py`). A listing only hints:
deletions are confirmed by a HEAD (`deletion.py`), changes by a read.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from ingest_assets.database import Connection, Database, copy, one, row, rows, run
from ingest_assets.identity import document_id, partition_key, readable_key
from ingest_assets.records import SourceObject
from ingest_assets.settings import SourceSettings
from ingest_assets.source import Source

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
    started_at: datetime
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
    with database.connection() as connection:
        run(connection, "drop_listing_staging")
        run(connection, "create_listing_staging")
        try:
            started_at = one(connection, "current_time")["time"]
            objects = sum(_stage(connection, page) for page in source.list())
            yield StagedListing(connection, started_at, objects)
        finally:
            run(connection, "drop_listing_staging")


def _stage(connection: Connection, page: Sequence[SourceObject]) -> int:
    records = (
        (document_id(o.uri), o.uri, readable_key(o.key), partition_key(o.key), o.etag, o.size_bytes, o.last_modified)
        for o in page
    )
    return copy(connection, "copy_listing", None, records)


def discover(
    database: Database, source: Source, settings: SourceSettings, *, are_deletions_approved: bool = False
) -> Discovery:
    """List the source and note what is new, changed and missing; nothing is read or deleted.

    Raises:
        SourceUnavailable: the source cannot be listed.
    """
    with staged_listing(database, source) as listing, listing.connection.transaction():
        connection, started_at = listing.connection, listing.started_at
        last = row(connection, "last_listing")
        before = one(connection, "count_standing")
        merged = one(connection, "merge_listing", started_at=started_at)
        rows(connection, "mark_missing", started_at=started_at)
        standing = one(connection, "count_standing")
        is_other_source = last is not None and last["source_url"] != source.url
        is_suspicious = is_shrink_suspicious(
            documents=before["documents"],
            vanished=standing["unjudged"],
            # What another source brings says nothing about what is gone from this one.
            added=0 if is_other_source else merged["added"],
            fraction=settings.deletion_guard_fraction,
        )
        run(connection, "judge_deletions", deletion="withheld" if is_suspicious else "allowed")
        if are_deletions_approved:
            run(connection, "approve_deletions", partition_keys=None)
        withheld = one(connection, "count_withheld")["documents"]
        found = Discovery(
            listing.objects, merged["added"], merged["changed"], standing["missing"], deletions_withheld=withheld
        )
        run(
            connection,
            "record_listing",
            source_url=source.url,
            started_at=started_at,
            objects=found.objects,
            added=found.added,
            changed=found.changed,
            missing=found.missing,
        )
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
