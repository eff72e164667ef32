"""Dead letters by hand: list, retry, resolve.

What does not belong here: writing letters, which the step that gives up does in its own transaction.
"""

from collections.abc import Sequence
from uuid import UUID

from psycopg.rows import DictRow

from ingest_assets.database import Connection, Database, rows, run


def open_letters(database: Database, *, document_id: UUID | None = None, reason: str | None = None) -> list[DictRow]:
    """Return open dead letters, oldest first."""
    with database.connection() as connection:
        return rows(connection, "select_letters", document_id=document_id, reason=reason)


def retry_letters(database: Database, letter_ids: Sequence[int]) -> int:
    """Reopen the units behind some letters, so that the next run tries them again; returns how many."""

    def reopen(connection: Connection) -> int:
        closed = rows(connection, "resolve_letters", letter_ids=list(letter_ids), resolution="retried")
        for item in closed:
            if item["stage"] == "embed":
                version = item["embedding_model_version"]
                run(connection, "drop_coverage", document_id=item["document_id"], version=version)
            else:
                run(connection, "reopen_document", document_id=item["document_id"])
        return len(closed)

    return database.transact(reopen)


def resolve_letters(database: Database, letter_ids: Sequence[int]) -> int:
    """Accept some letters: units stay out of the queue, the next run publishes without them; returns how many."""

    def close(connection: Connection) -> int:
        closed = rows(connection, "resolve_letters", letter_ids=list(letter_ids), resolution="accepted")
        for item in closed:
            if item["stage"] == "embed":
                version = item["embedding_model_version"]
                run(connection, "drop_coverage", document_id=item["document_id"], version=version)
            else:
                run(connection, "forget_recheck", document_id=item["document_id"])
        return len(closed)

    return database.transact(close)


def retry_documents(database: Database, document_ids: Sequence[UUID], version: str) -> int:
    """Reopen the units of some documents that were given up at a version; returns how many."""
    with database.connection() as connection:
        found = rows(connection, "document_letters", document_ids=list(document_ids), version=version)
    return retry_letters(database, [item["dead_letter_id"] for item in found if item["stage"] == "embed"])


def document_letters(database: Database, document_ids: Sequence[UUID], version: str) -> dict[UUID, list[DictRow]]:
    """Return the open letters of some documents, at a version and before embedding."""
    letters: dict[UUID, list[DictRow]] = {}
    with database.connection() as connection:
        for item in rows(connection, "document_letters", document_ids=list(document_ids), version=version):
            letters.setdefault(item["document_id"], []).append(item)
    return letters
