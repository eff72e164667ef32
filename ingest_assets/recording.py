"""What is decided on a document, written in one transaction each: accepted, confirmed, postponed or rejected.

What does not belong here: reading, extracting and chunking (`ingest.py`), and how a read is spelled in columns
(`document_rows.py`).
A decision is fenced by compare and set on the row that the read began with: whoever read earlier never overwrites
whoever decided meanwhile.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Any, Literal

from psycopg.rows import DictRow

from ingest_assets.chunk import chunker_version
from ingest_assets.database import Connection, Database, row, rows, run
from ingest_assets.document_rows import Fetched, extracted_columns, identity_columns, write_chunks
from ingest_assets.errors import DocumentRejected, DocumentUnreadable, Reason
from ingest_assets.extract import extractor_version
from ingest_assets.records import Chunk, Extracted
from ingest_assets.settings import Settings

Result = Literal["accepted", "unchanged", "rejected", "postponed", "missing", "superseded", "unknown"]
Stage = Literal["fetch", "extract", "chunk"]

STAGES: tuple[Stage, ...] = ("fetch", "extract", "chunk")
FETCH_ATTEMPTS = 3
FIRST_DELAY_SECONDS = 60.0  # doubles with each attempt
LONGEST_DELAY_SECONDS = 3600.0
PREVIEW_CHARACTERS = 200
SUPERSEDED = "another run decided on this document meanwhile"


@dataclass(frozen=True, slots=True)
class DocumentOutcome:
    """What became of one document in this run."""

    partition_key: str
    result: Result
    source_key: str = ""
    source_uri: str = ""
    generation: int = 0
    chunks: int = 0
    tokens: int = 0
    characters: int = 0
    media_type: str = ""
    preview: str = ""
    stage: Stage | None = None  # of a rejection
    reason: Reason | None = None
    detail: str = ""
    warnings: tuple[str, ...] = field(default=())

    @property
    def is_good(self) -> bool:
        """Whether the document's partition may be called materialized."""
        return self.result in ("accepted", "unchanged", "superseded")


@dataclass(frozen=True, slots=True)
class Recorder:
    """Writes the decisions of one run."""

    database: Database
    settings: Settings
    run_id: str

    def accept(self, fetched: Fetched, extracted: Extracted, chunks: list[Chunk]) -> DocumentOutcome:
        """Record a document's text and chunks; another sequence of chunks is a new generation."""
        document = fetched.document
        with self.database.connection() as connection:
            current = rows(connection, "current_chunk_ids", document_id=document["document_id"])
        # Only another sequence of chunks is a new generation: headings may move cuts while the text stays the same.
        is_same = [item["chunk_id"] for item in current] == [item.chunk_id for item in chunks]
        generation = document["generation"] + (0 if is_same else 1)

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
            return _outcome(document, "superseded", detail=SUPERSEDED)
        return _outcome(
            document,
            "accepted",
            generation=generation,
            chunks=len(chunks),
            tokens=sum(item.span.token_count for item in chunks),
            characters=len(extracted.text),
            media_type=extracted.media_type,
            preview=" ".join(extracted.text[: PREVIEW_CHARACTERS * 2].split())[:PREVIEW_CHARACTERS],
            warnings=tuple(warning.code for warning in extracted.warnings),
        )

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
            return _outcome(document, "superseded", detail=SUPERSEDED)
        with self.database.connection() as connection:
            chunks = rows(connection, "current_chunks", document_id=document["document_id"])
        return _outcome(
            document,
            "unchanged",
            generation=document["generation"],
            chunks=len(chunks),
            tokens=sum(item["token_count"] for item in chunks),
            characters=max((item["char_end"] for item in chunks), default=0),
            media_type=document["media_type"],
            preview=" ".join(chunks[0]["text"].split())[:PREVIEW_CHARACTERS] if chunks else "",
        )

    def put_off(self, document: DictRow, error: DocumentUnreadable) -> DocumentOutcome:
        """Record that a document cannot be read now: it is read again later, and given up after three attempts."""
        if error.reason is Reason.NOT_FOUND:
            with self.database.connection() as connection:
                run(connection, "note_missing", document_id=document["document_id"])
            return _outcome(document, "missing", reason=error.reason, detail=error.detail)
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
            return _outcome(document, "superseded", detail=SUPERSEDED)
        return _outcome(document, "postponed", stage="fetch", reason=error.reason, detail=error.detail)

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
            return _outcome(document, "superseded", detail=SUPERSEDED)
        return _outcome(document, "rejected", stage=stage, reason=error.reason, detail=error.detail)


def retry_delay_seconds(attempts: int) -> float:
    """Return how long an object rests that could not be read, after so many attempts before this one."""
    return min(FIRST_DELAY_SECONDS * 2.0**attempts, LONGEST_DELAY_SECONDS)


def _is_unchanged(connection: Connection, document: DictRow) -> bool:
    """Lock the document; False where somebody decided on it since this read began."""
    fence = {name: document[name] for name in ("document_id", "generation", "updated_at")}
    return row(connection, "lock_document", **fence) is not None


def _outcome(document: DictRow, result: Result, **details: Any) -> DocumentOutcome:
    names = {name: document[name] for name in ("partition_key", "source_key", "source_uri")}
    return DocumentOutcome(result=result, **names, **details)
