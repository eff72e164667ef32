"""Discovery: one listing of the source, compared with `documents` in SQL.

What does not belong here: reading objects (`source/`), and deciding on them (`ingest.py`). A listing only hints:
deletions are confirmed by a HEAD (`deletion.py`), changes by a read.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from ingest_assets.database import Connection, Database, copy, one, row, rows, run
from ingest_assets.identity import document_id, partition_key, readable_key
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
    deletions_withheld: bool


@dataclass(frozen=True, slots=True)
class StagedListing:
    """A complete listing in this session's staging table."""

    connection: Connection
    started_at: datetime
    objects: int


def is_shrink_suspicious(*, documents: int, missing: int, added: int, fraction: float) -> bool:
    """Tell whether so many documents vanished that somebody should look before they are deleted.

    `documents` were there before, `missing` of them vanished, `added` came meanwhile: a rename is one of each.
    """
    vanished = missing - added
    return vanished > GUARDED_DOCUMENTS and vanished > fraction * documents


@contextmanager
def staged_listing(database: Database, source: Source) -> Iterator[StagedListing]:
    """List the whole source into a staging table, a page at a time, and lend the session that holds it.

    Raises:
        SourceUnavailable: the listing did not come to its end; nothing is concluded from half of one.
    """
    with database.connection() as connection:
        run(connection, "create_listing_staging")
        started = one(connection, "current_time")
        objects = 0
        for page in source.list():
            objects += copy(
                connection,
                "copy_listing",
                None,
                (
                    (
                        document_id(o.uri),
                        o.uri,
                        readable_key(o.key),
                        partition_key(o.key),
                        o.etag,
                        o.size_bytes,
                        o.last_modified,
                    )
                    for o in page
                ),
            )
        try:
            yield StagedListing(connection, started["time"], objects)
        finally:
            run(connection, "drop_listing_staging")


def discover(
    database: Database, source: Source, settings: SourceSettings, *, are_deletions_approved: bool = False
) -> Discovery:
    """List the source and note what is new, changed and missing; nothing is read or deleted.

    Raises:
        SourceUnavailable: the source cannot be listed.
    """
    with staged_listing(database, source) as listing, listing.connection.transaction():
        connection, started_at = listing.connection, listing.started_at
        merged = one(connection, "merge_listing", started_at=started_at)
        rows(connection, "mark_missing", started_at=started_at)
        standing = one(connection, "count_standing")
        is_withheld = not are_deletions_approved and is_shrink_suspicious(
            documents=standing["documents"] - standing["added"],
            missing=standing["missing"],
            added=standing["added"],
            fraction=settings.deletion_guard_fraction,
        )
        found = Discovery(
            listing.objects, merged["added"], merged["changed"], standing["missing"], deletions_withheld=is_withheld
        )
        run(
            connection,
            "record_listing",
            source_url=source.url,
            objects=found.objects,
            added=found.added,
            changed=found.changed,
            missing=found.missing,
            deletions_withheld=found.deletions_withheld,
            started_at=started_at,
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
        last = row(connection, "last_listing")
        if last is None or last["deletions_withheld"]:
            return []
        return [item["partition_key"] for item in rows(connection, "missing_documents", grace_seconds=grace_seconds)]
