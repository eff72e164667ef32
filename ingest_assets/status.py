"""What is indexed, and why not: the facts behind `status` and `show`.

What does not belong here: printing (`cli/`), and judging (`checks.py`).
"""

from typing import Any

from psycopg.rows import DictRow

from ingest_assets.database import Database, one, row, rows
from ingest_assets.errors import Refused
from ingest_assets.letters import open_letters
from ingest_assets.models import all_models, served_model


def find_document(database: Database, name: str) -> DictRow:
    """Return a document by its key, URI or id.

    Raises:
        Refused: there is none of this name.
    """
    with database.connection() as connection:
        found = row(connection, "find_document", document=name)
    if found is None:
        raise Refused(f"There is no document {name}; `ingest-assets status` lists them by key.")
    return found


def totals(database: Database) -> dict[str, Any]:
    """Return the totals of `status --json`."""
    with database.connection() as connection:
        documents = one(connection, "document_counts")
        chunks = one(connection, "count_chunks")
        vectors = rows(connection, "count_vectors")
        letters = rows(connection, "count_letters")
        listing = row(connection, "last_listing")
        withheld = one(connection, "count_withheld")["documents"]
        unreadable = rows(connection, "unreadable_documents")
        hints = one(connection, "count_hints")["hints"]
        set_aside = rows(connection, "count_set_aside_messages")
        alerts = rows(connection, "undelivered_alerts")
        runs = rows(connection, "living_embedding_runs")
    models = [model for model in all_models(database) if model.status != "retired"]
    active = served_model([model for model in models if model.status == "active"])
    return {
        "documents": documents,
        "chunks": chunks["chunks"],
        "vectors": {item["version"]: item["vectors"] for item in vectors},
        "dead_letters": {
            "open": sum(item["letters"] for item in letters),
            "by_reason": {item["reason"]: item["letters"] for item in letters},
        },
        "models": {
            "active": active.version if active else None,
            "versions": {model.version: model.status for model in models},
        },
        "source": {
            "objects": listing["objects"] if listing else None,
            "deletions_withheld": withheld,
            "hints": hints,
            "messages_set_aside": {item["reason"]: item["messages"] for item in set_aside},
            "unreadable": {item["reason"]: item["documents"] for item in unreadable},
            "next_attempt_at": min((item["next_attempt_at"].isoformat() for item in unreadable), default=None),
        },
        "undelivered_alerts": sum(item["waiting"] for item in alerts),
        "embedding_runs": [{**item, "started_at": item["started_at"].isoformat()} for item in runs],
    }


def document_statuses(database: Database) -> list[DictRow]:
    """Return one line per document, in key order."""
    with database.connection() as connection:
        return rows(connection, "document_statuses")


def document_status(database: Database, name: str) -> dict[str, Any]:
    """Return one document's status: chunks, vectors per version, dead letters, what is served."""
    found = find_document(database, name)
    with database.connection() as connection:
        chunks = rows(connection, "current_chunks", document_id=found["document_id"])
        vectors = rows(connection, "document_vectors", document_id=found["document_id"])
    letters = open_letters(database, document_id=found["document_id"])
    return {
        "document": found["source_key"],
        "document_id": str(found["document_id"]),
        "source_uri": found["source_uri"],
        "status": found["status"],
        "reason": _reason(letters) or found["unreadable_reason"],
        "unreadable": _unreadable(found),
        "missing_since": found["missing_since"].isoformat() if found["missing_since"] else None,
        "deletion": found["deletion"],
        "generation": found["generation"],
        "published_generation": found["published_generation"],
        "chunks": len(chunks),
        "vectors": {item["version"]: item["vectors"] for item in vectors},
        "dead_letters": [letter_summary(item) for item in letters],
    }


def show_document(database: Database, name: str) -> dict[str, Any]:
    """Return exactly what was indexed from a document, and why not."""
    found = find_document(database, name)
    with database.connection() as connection:
        chunks = rows(connection, "current_chunks", document_id=found["document_id"])
    letters = open_letters(database, document_id=found["document_id"])
    return {
        "document": found["source_key"],
        "status": found["status"],
        "reason": _reason(letters) or found["unreadable_reason"],
        "detail": letters[0]["detail"] if letters else found["unreadable_detail"],
        "warnings": found["warnings"],
        "media_type": found["media_type"],
        "metadata": found["metadata"],
        "generation": found["generation"],
        "published_generation": found["published_generation"],
        "text": found["text"],
        "chunks": [_chunk(item) for item in chunks],
    }


def letter_summary(item: DictRow) -> dict[str, Any]:
    """Return one dead letter as `--json` shows it."""
    return {
        "id": item["dead_letter_id"],
        "document": item["source_key"],
        "chunk_id": str(item["chunk_id"]) if item["chunk_id"] else None,
        "model": item["embedding_model_version"],
        "stage": item["stage"],
        "reason": item["reason"],
        "detail": item["detail"],
        "attempts": item["attempts"],
        "run_id": item["run_id"],
        "first_failed_at": item["first_failed_at"].isoformat(),
        "last_failed_at": item["last_failed_at"].isoformat(),
    }


def _reason(letters: list[DictRow]) -> str | None:
    return letters[0]["reason"] if letters else None


def _unreadable(found: DictRow) -> dict[str, Any] | None:
    """Return why a document could not be read and when it is tried again; None where nothing waits."""
    if found["unreadable_reason"] is None or found["retry_after"] is None:
        return None
    return {
        "reason": found["unreadable_reason"],
        "detail": found["unreadable_detail"],
        "attempts": found["attempts"],
        "next_attempt_at": found["retry_after"].isoformat(),
    }


def _chunk(item: DictRow) -> dict[str, Any]:
    return {
        "index": item["chunk_index"],
        "chunk_id": str(item["chunk_id"]),
        "text": item["text"],
        "tokens": item["token_count"],
        "char_start": item["char_start"],
        "char_end": item["char_end"],
        "page_start": item["page_start"],
        "page_end": item["page_end"],
        "heading": item["heading"],
        "text_sha256": item["text_sha256"].hex(),
    }
