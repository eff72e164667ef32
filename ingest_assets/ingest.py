"""The first body: fetch, extract, chunk and record some documents, each in a transaction of its own.

What does not belong here: Dagster, vectors, and deciding which documents are due (`discovery.py`).
A decision is fenced by compare and set on the row that the read began with: whoever read earlier never overwrites
whoever decided meanwhile.
"""

import hashlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

import psycopg
from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from ingest_assets.chunk import chunk, chunker_version
from ingest_assets.database import Connection, Database, copy, row, rows, run
from ingest_assets.errors import DocumentRejected, DocumentUnreadable, IngestError, Reason
from ingest_assets.extract import EXTRACTOR_VERSION, extract
from ingest_assets.identity import chunk_ids, key_of
from ingest_assets.records import Chunk, Extracted, SourceContent
from ingest_assets.settings import ExtractSettings, Settings
from ingest_assets.source import Source

logger = logging.getLogger(__name__)

Result = Literal["accepted", "unchanged", "rejected", "postponed", "missing", "superseded", "unknown"]
Stage = Literal["fetch", "extract", "chunk"]

# What an operator can mend without a new object; looked at again every `source.recheck_hours`.
HEALING = frozenset({Reason.ACCESS_DENIED, Reason.ARCHIVED})
STAGES: tuple[Stage, ...] = ("fetch", "extract", "chunk")
FETCH_ATTEMPTS = 3
FIRST_DELAY_SECONDS = 60.0  # doubles with each attempt
PREVIEW_CHARACTERS = 200
CHUNK_TYPES = ("uuid", "int4", "text", "bytea", "int4", "int4", "int4", "int4", "int4", "text[]")


@dataclass(frozen=True, slots=True)
class DocumentOutcome:
    """What became of one document in this run."""

    partition_key: str
    result: Result
    source_key: str = ""
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


def extractor_version(settings: ExtractSettings) -> str:
    """Name the extractor together with the settings that can change its answer."""
    return f"{EXTRACTOR_VERSION}/min{settings.min_characters}{'/ocr' if settings.ocr else ''}"


def ingest_documents(
    database: Database, source: Source, settings: Settings, partition_keys: Sequence[str], run_id: str
) -> Iterator[DocumentOutcome]:
    """Bring documents up to date with their objects, one after the other; yields as each is decided.

    A document that cannot be indexed costs itself: it becomes a dead letter. Running twice is safe.

    Raises:
        SourceUnavailable, DatabaseUnavailable: nothing can be decided; what was yielded stands.
    """
    worker = _Worker(database, source, settings, run_id)
    with database.connection() as connection:
        found = {
            item["partition_key"]: item
            for item in rows(connection, "select_documents", partition_keys=list(partition_keys))
        }
    for key in partition_keys:
        document = found.get(key)
        if document is None or document["status"] == "deleted":
            yield DocumentOutcome(key, "unknown", detail="no such document; it was deleted, or never listed")
        else:
            yield worker.decide_safely(document)


@dataclass(frozen=True, slots=True)
class _Worker:
    database: Database
    source: Source
    settings: Settings
    run_id: str

    def decide_safely(self, document: DictRow) -> DocumentOutcome:
        """Decide on a document; an error that nobody foresaw costs this document, not those behind it."""
        try:
            return self.decide(document)
        except (IngestError, psycopg.OperationalError):
            raise
        except Exception as error:
            logger.exception("Document %s", document["document_id"])
            detail = f"It could not be recorded ({type(error).__name__}); the run's log has the traceback."
            return self._unreadable(document, DocumentUnreadable(Reason.CORRUPT, detail))

    def decide(self, document: DictRow) -> DocumentOutcome:
        try:
            content = self._fetch(document)
        except DocumentUnreadable as error:
            return self._unreadable(document, error)
        except DocumentRejected as error:
            return self._reject(document, None, "fetch", error)
        digest = hashlib.sha256(content.data).digest()
        if self._is_known(document, digest):
            return self._confirm(document, content)
        try:
            extracted = extract(content.data, document["source_key"], self.settings.extract)
        except DocumentRejected as error:
            return self._reject(document, content, "extract", error)
        chunks = _identified(document["document_id"], extracted, self.settings)
        if not chunks:
            empty = DocumentRejected(Reason.EMPTY_DOCUMENT, "The text has no visible character.")
            return self._reject(document, content, "chunk", empty)
        return self._accept(document, content, extracted, chunks)

    def _fetch(self, document: DictRow) -> SourceContent:
        key = key_of(self.source.url, document["source_uri"])
        if key is None:
            raise DocumentUnreadable(Reason.NOT_FOUND, "It belongs to a source that is no longer configured.")
        limits = self.settings.extract
        return self.source.read(key, max(limits.max_bytes, limits.max_text_bytes))

    def _is_known(self, document: DictRow, digest: bytes) -> bool:
        return bool(
            document["status"] == "accepted"
            and document["is_intact"]
            and document["content_sha256"] == digest
            and document["extractor_version"] == extractor_version(self.settings.extract)
            and document["chunker_version"] == chunker_version(self.settings.chunker)
        )

    def _accept(
        self, document: DictRow, content: SourceContent, extracted: Extracted, chunks: list[Chunk]
    ) -> DocumentOutcome:
        with self.database.connection() as connection:
            current = rows(connection, "current_chunk_ids", document_id=document["document_id"])
        # Only another sequence of chunks is a new generation: headings may move cuts while the text stays the same.
        is_same = [item["chunk_id"] for item in current] == [item.chunk_id for item in chunks]
        generation = document["generation"] + (0 if is_same else 1)

        def record(connection: Connection) -> bool:
            if not _is_unchanged(connection, document):
                return False
            _write_chunks(connection, document, generation, chunks)
            columns = _extracted_columns(content, extracted)
            shown = {name: columns[name] for name in ("metadata", "pages", "headings")}
            run(connection, "uncover_changed_document", document_id=document["document_id"], **shown)
            run(
                connection,
                "accept_document",
                document_id=document["document_id"],
                new_generation=generation,
                text_sha256=hashlib.sha256(extracted.text.encode()).digest(),
                content_sha256=hashlib.sha256(content.data).digest(),
                extractor_version=extractor_version(self.settings.extract),
                chunker_version=chunker_version(self.settings.chunker),
                **_identity(content),
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
            return _outcome(document, "superseded", detail="another run decided on this document meanwhile")
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

    def _confirm(self, document: DictRow, content: SourceContent) -> DocumentOutcome:
        def record(connection: Connection) -> bool:
            if not _is_unchanged(connection, document):
                return False
            run(connection, "confirm_document", document_id=document["document_id"], **_identity(content))
            run(connection, "align_seen", document_id=document["document_id"], read_at=document["read_at"])
            run(connection, "close_document_letters", document_id=document["document_id"], stages=list(STAGES))
            return True

        if not self.database.transact(record, is_derived=True):
            return _outcome(document, "superseded", detail="another run decided on this document meanwhile")
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

    def _unreadable(self, document: DictRow, error: DocumentUnreadable) -> DocumentOutcome:
        if error.reason is Reason.NOT_FOUND:
            with self.database.connection() as connection:
                run(connection, "note_missing", document_id=document["document_id"])
            return _outcome(document, "missing", reason=error.reason, detail=error.detail)
        if error.reason in HEALING or document["attempts"] + 1 >= FETCH_ATTEMPTS:
            return self._reject(document, None, "fetch", error)
        delay = FIRST_DELAY_SECONDS * 2 ** document["attempts"]
        with self.database.connection() as connection:
            run(connection, "postpone_document", document_id=document["document_id"], delay_seconds=delay)
        return _outcome(document, "postponed", stage="fetch", reason=error.reason, detail=error.detail)

    def _reject(
        self,
        document: DictRow,
        content: SourceContent | None,
        stage: Stage,
        error: DocumentRejected | DocumentUnreadable,
    ) -> DocumentOutcome:
        is_healing = isinstance(error, DocumentUnreadable)

        def record(connection: Connection) -> bool:
            if not _is_unchanged(connection, document):
                return False
            run(
                connection,
                "reject_document",
                document_id=document["document_id"],
                content_sha256=hashlib.sha256(content.data).digest() if content else None,
                extractor_version=extractor_version(self.settings.extract),
                recheck_seconds=self.settings.source.recheck_hours * 3600 if is_healing else None,
                **_identity(content),
            )
            if content is not None:
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
                run_id=self.run_id,
            )
            return True

        if not self.database.transact(record, is_derived=True):
            return _outcome(document, "superseded", detail="another run decided on this document meanwhile")
        return _outcome(document, "rejected", stage=stage, reason=error.reason, detail=error.detail)


def _identified(document_id: UUID, extracted: Extracted, settings: Settings) -> list[Chunk]:
    spans = chunk(extracted, settings.chunker)
    ids = chunk_ids(document_id, [span.text for span in spans])
    return [Chunk(chunk_id, digest, span) for (chunk_id, digest), span in zip(ids, spans, strict=True)]


def _is_unchanged(connection: Connection, document: DictRow) -> bool:
    """Lock the document; False where somebody decided on it since this read began."""
    fence = {name: document[name] for name in ("document_id", "generation", "updated_at")}
    return row(connection, "lock_document", **fence) is not None


def _write_chunks(connection: Connection, document: DictRow, generation: int, chunks: list[Chunk]) -> None:
    run(connection, "create_chunk_staging")
    copy(connection, "copy_chunks", CHUNK_TYPES, map(_chunk_record, chunks))
    run(
        connection,
        "upsert_chunks",
        document_id=document["document_id"],
        generation=document["generation"],
        new_generation=generation,
    )


def _chunk_record(item: Chunk) -> tuple[Any, ...]:
    span = item.span
    return (
        item.chunk_id, span.index, span.text, item.text_sha256, span.token_count, span.char_start, span.char_end,
        span.page_start, span.page_end, list(span.heading),
    )  # fmt: skip


def _identity(content: SourceContent | None) -> dict[str, Any]:
    if content is None:
        return {"etag": None, "size_bytes": None, "last_modified": None, "source_version": None}
    seen = content.object
    return {
        "etag": seen.etag,
        "size_bytes": seen.size_bytes,
        "last_modified": seen.last_modified,
        "source_version": content.version,
    }


def _extracted_columns(content: SourceContent, extracted: Extracted) -> dict[str, Any]:
    return {
        "media_type": extracted.media_type,
        "text": extracted.text,
        "pages": Jsonb([[page.number, page.char_start, page.char_end] for page in extracted.pages]),
        "headings": Jsonb([[item.level, item.title, item.char_start] for item in extracted.headings]),
        "warnings": Jsonb([{"code": w.code, "detail": w.detail, "pages": list(w.pages)} for w in extracted.warnings]),
        "metadata": Jsonb({**extracted.properties, **content.metadata}),
    }


def _outcome(document: DictRow, result: Result, **details: Any) -> DocumentOutcome:
    return DocumentOutcome(document["partition_key"], result, source_key=document["source_key"], **details)
