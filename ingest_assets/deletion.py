"""Deletion: a document that is gone from the source goes at every model version, with a receipt.

What does not belong here: noticing that something is missing (`discovery.py`), and proving later that it is gone
(`receipts.py`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from ingest_assets.database import Connection, Database, row, rows, run
from ingest_assets.errors import DocumentUnreadable, Refused
from ingest_assets.identity import key_of
from ingest_assets.models import indexed_models
from ingest_assets.recording import retry_delay_seconds
from ingest_assets.source import Source

CAUSE = "gone from the source"


@dataclass(frozen=True, slots=True)
class DeletionOutcome:
    """What became of one document that was to be deleted."""

    partition_key: str
    result: Literal["deleted", "present", "unknown", "unreadable"]
    removed_rows: int = 0


def delete_documents(
    database: Database, source: Source, partition_keys: Sequence[str], run_id: str
) -> Iterator[DeletionOutcome]:
    """Confirm by a HEAD that each object is gone, then delete the document's rows in one transaction.

    An object that is there after all is left for the next ingest, and one whose state the source does not tell is
    asked for again later. Running twice is safe.

    Raises:
        SourceUnavailable: nothing can be confirmed; what was yielded stands.
    """
    with database.connection() as connection:
        found = rows(connection, "select_documents", partition_keys=list(partition_keys))
    for document in found:
        yield _delete(database, source, document, run_id)


def approve_deletions(database: Database, partition_keys: Sequence[str] = ()) -> list[str]:
    """Allow the deletion of what is missing now, or of some of it; returns the partition keys that may be deleted.

    Raises:
        Refused: there is nothing to approve among them.
    """
    with database.connection() as connection:
        approved = rows(connection, "approve_deletions", partition_keys=list(partition_keys) or None)
    if not approved:
        raise Refused(
            "No document is missing from the source, so there is no deletion to approve. `ingest-assets verify` "
            "compares the source with the documents anew."
        )
    return [item["partition_key"] for item in approved]


def _delete(database: Database, source: Source, document: DictRow, run_id: str) -> DeletionOutcome:
    # A document of a source that is no longer configured cannot be asked for: it is gone.
    key = key_of(source.url, document["source_uri"])
    try:
        seen = source.head(key) if key is not None else None
    except DocumentUnreadable as error:
        with database.connection() as connection:
            run(
                connection,
                "postpone_document",
                document_id=document["document_id"],
                delay_seconds=retry_delay_seconds(document["attempts"]),
                reason=error.reason,
                detail=error.detail,
            )
        return DeletionOutcome(document["partition_key"], "unreadable")
    if seen is not None:
        with database.connection() as connection:
            run(
                connection,
                "note_present",
                document_id=document["document_id"],
                etag=seen.etag,
                size_bytes=seen.size_bytes,
                last_modified=seen.last_modified,
            )
        return DeletionOutcome(document["partition_key"], "present")
    removed = database.transact(lambda connection: _bury(connection, document, run_id))
    if removed is None:
        return DeletionOutcome(document["partition_key"], "unknown")
    return DeletionOutcome(document["partition_key"], "deleted", removed_rows=removed)


def _bury(connection: Connection, document: DictRow, run_id: str) -> int | None:
    """Delete everything read from one document; returns the rows removed, None where nothing was to be done."""
    document_id: UUID = document["document_id"]
    locked = row(connection, "lock_missing_document", document_id=document_id)
    if locked is None:
        return None
    removed = {
        "/".join(filter(None, (item["kind"], item["version"]))): item["found"]
        for item in rows(connection, "count_document_rows", document_id=document_id)
    }
    # Read under the lock: a version that was declared meanwhile cannot publish this document before we are done.
    for model in indexed_models(connection):
        served = run(connection, "delete_serving_rows", {"serving": model.serving}, document_ids=[document_id])
        removed[f"retrieval_index/{model.version}"] = served
    for name in (
        "delete_chunks", "delete_publications", "delete_coverage", "close_deleted_letters", "forget_letter_details",
        "bury_document",
    ):  # fmt: skip
        run(connection, name, document_id=document_id)
    run(
        connection,
        "insert_receipt",
        document_id=document_id,
        source_uri=locked["source_uri"],
        generation=locked["generation"],
        cause=CAUSE,
        run_id=run_id,
        removed=Jsonb(removed),
    )
    return int(sum(removed.values()))
