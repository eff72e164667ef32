"""What is decided on a document, written in one transaction each: accepted, confirmed, postponed or rejected.

What does not belong here: reading, extracting and chunking (`ingest.py`), how a read is spelled in columns
(`document_rows.py`), and what a run says of a document (`outcomes.py`).
A decision is fenced by compare and set on the row that the read began with: whoever read earlier never overwrites
whoever decided meanwhile.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

from psycopg.rows import DictRow

from ingest_assets.chunk import chunker_version
from ingest_assets.database import Connection, Database, row, rows, run
from ingest_assets.document_rows import Fetched, extracted_columns, identity_columns, stored_text, write_chunks
from ingest_assets.errors import DocumentRejected, DocumentUnreadable, Reason
from ingest_assets.extract import extractor_version
from ingest_assets.outcomes import (
    STAGES,
    DocumentOutcome,
    Stage,
    accepted_outcome,
    outcome_of,
    superseded,
    unchanged_outcome,
)
from ingest_assets.records import Chunk, Extracted
from ingest_assets.settings import Settings

FETCH_ATTEMPTS = 3
FIRST_DELAY_SECONDS = 60.0  # doubles with each attempt
LONGEST_DELAY_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Recorder:
    """Writes the decisions of one run."""

    database: Database
    settings: Settings
    run_id: str

    def accept(self, fetched: Fetched, extracted: Extracted, chunks: list[Chunk]) -> DocumentOutcome:
        """Record a document's text and chunks; another sequence of chunks is a new generation."""
        document = fetched.document
        generation = self._generation(document, chunks)

        def record(connection: Connection) -> bool:
            if not _is_unchanged(connection, document):
                return False
            write_chunks(connection, document, generation, chunks)
            columns = extracted_columns(fetched.content, extracted)
            shown = {name: columns[name] for name in ("metadata", "pages", "headings")}
            run(connection, "uncover_changed_document", document_id=document["document_id"], **shown)
            run(
                connection,
                "accept_document",
                document_id=document["document_id"],
                new_generation=generation,
                text_sha256=hashlib.sha256(extracted.text.encode()).digest(),
                content_sha256=fetched.digest,
                extractor_version=extractor_version(self.settings.extract),
                chunker_version=chunker_version(self.settings.chunker),
                **identity_columns(fetched),
                **columns,
            )
            run(connection, "align_seen", document_id=document["document_id"], read_at=document["read_at"])
            run(connection, "close_document_letters", document_id=document["document_id"], stages=list(STAGES))
            run(
                connection,
                "close_superseded_letters",
                document_id=document["document_id"],
                new_generation=generation,
            )
            return True

        if not self.database.transact(record, is_derived=True):
            return superseded(document)
        return accepted_outcome(document, generation, extracted, chunks)

    def stored_text(self, document: DictRow) -> Extracted | None:
        """Return what was read in a document earlier; None where somebody decided on it meanwhile."""
        with self.database.connection() as connection:
            found = row(connection, "select_stored_text", **_fence(document))
        return None if found is None else stored_text(found)

    def rechunk(self, document: DictRow, text: Extracted, chunks: list[Chunk]) -> DocumentOutcome:
        """Record other chunks of the text that is stored; what was decided about its object stays."""
        generation = self._generation(document, chunks)

        def record(connection: Connection) -> bool:
            if not _is_unchanged(connection, document):
                return False
            write_chunks(connection, document, generation, chunks)
            changed = {"document_id": document["document_id"], "new_generation": generation}
            version = chunker_version(self.settings.chunker)
            run(connection, "rechunk_document", chunker_version=version, **changed)
            run(connection, "close_superseded_letters", **changed)
            return True

        if not self.database.transact(record, is_derived=True):
            return superseded(document)
        return accepted_outcome(document, generation, text, chunks)

    def _generation(self, document: DictRow, chunks: list[Chunk]) -> int:
        """Return the generation of these chunks: only another sequence is a new one."""
        with self.database.connection() as connection:
            current = rows(connection, "current_chunk_ids", document_id=document["document_id"])
        # Headings may move cuts while the text stays the same.
        is_same = [item["chunk_id"] for item in current] == [item.chunk_id for item in chunks]
        return int(document["generation"]) + (0 if is_same else 1)

    def confirm(self, fetched: Fetched) -> DocumentOutcome:
        """Record that a document's bytes are those that are known."""
        document = fetched.document

        def record(connection: Connection) -> bool:
            if not _is_unchanged(connection, document):
                return False
            run(connection, "confirm_document", document_id=document["document_id"], **identity_columns(fetched))
            run(connection, "align_seen", document_id=document["document_id"], read_at=document["read_at"])
            run(connection, "close_document_letters", document_id=document["document_id"], stages=list(STAGES))
            return True

        if not self.database.transact(record, is_derived=True):
            return superseded(document)
        with self.database.connection() as connection:
            chunks = rows(connection, "current_chunks", document_id=document["document_id"])
        return unchanged_outcome(document, chunks)

    def put_off(self, document: DictRow, error: DocumentUnreadable) -> DocumentOutcome:
        """Record that a document cannot be read now: it is read again later, and given up after three attempts."""
        if error.reason is Reason.NOT_FOUND:
            with self.database.connection() as connection:
                run(connection, "note_missing", document_id=document["document_id"])
            return outcome_of(document, "missing", reason=error.reason, detail=error.detail)
        if document["attempts"] + 1 >= FETCH_ATTEMPTS:
            return self.reject(document, None, "fetch", error)

        def record(connection: Connection) -> bool:
            if not _is_unchanged(connection, document):
                return False
            run(
                connection,
                "postpone_document",
                document_id=document["document_id"],
                delay_seconds=retry_delay_seconds(document["attempts"]),
                reason=error.reason,
                detail=error.detail,
            )
            return True

        if not self.database.transact(record, is_derived=True):
            return superseded(document)
        return outcome_of(document, "postponed", stage="fetch", reason=error.reason, detail=error.detail)

    def reject(
        self,
        document: DictRow,
        fetched: Fetched | None,
        stage: Stage,
        error: DocumentRejected | DocumentUnreadable,
    ) -> DocumentOutcome:
        """Record a dead letter for a document; what was accepted before stays served."""
        is_healing = isinstance(error, DocumentUnreadable)

        def record(connection: Connection) -> bool:
            if not _is_unchanged(connection, document):
                return False
            run(
                connection,
                "reject_document",
                document_id=document["document_id"],
                content_sha256=fetched.digest if fetched else None,
                extractor_version=extractor_version(self.settings.extract),
                recheck_seconds=self.settings.source.recheck_hours * 3600 if is_healing else None,
                **identity_columns(fetched),
            )
            if fetched is not None:
                run(connection, "align_seen", document_id=document["document_id"], read_at=document["read_at"])
            passed = list(STAGES[: STAGES.index(stage)])
            run(connection, "close_document_letters", document_id=document["document_id"], stages=passed)
            run(
                connection,
                "insert_document_letter",
                document_id=document["document_id"],
                stage=stage,
                reason=error.reason,
                detail=error.detail,
                attempts=document["attempts"] + 1 if is_healing else 1,
                run_id=self.run_id,
            )
            return True

        if not self.database.transact(record, is_derived=True):
            return superseded(document)
        return outcome_of(document, "rejected", stage=stage, reason=error.reason, detail=error.detail)


def retry_delay_seconds(attempts: int) -> float:
    """Return how long an object rests that could not be read, after so many attempts before this one."""
    return min(FIRST_DELAY_SECONDS * 2.0**attempts, LONGEST_DELAY_SECONDS)


def _is_unchanged(connection: Connection, document: DictRow) -> bool:
    """Lock the document; False where somebody decided on it since this read began."""
    return row(connection, "lock_document", **_fence(document)) is not None


def _fence(document: DictRow) -> dict[str, Any]:
    return {name: document[name] for name in ("document_id", "generation", "updated_at")}
