"""How a read is spelled in the columns of `documents` and the rows of `chunks`.

What does not belong here: deciding what is written, and when (`recording.py`).
"""

from dataclasses import dataclass
from typing import Any

from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from ingest_assets.database import Connection, copy, run
from ingest_assets.records import Chunk, Extracted, Heading, Page, SourceContent

CHUNK_TYPES = ("uuid", "int4", "text", "bytea", "int4", "int4", "int4", "int4", "int4", "text[]")


@dataclass(frozen=True, slots=True)
class Fetched:
    """The bytes of a document, and the row that the read began with."""

    document: DictRow
    content: SourceContent
    digest: bytes  # sha256 of the bytes


def write_chunks(connection: Connection, document: DictRow, generation: int, chunks: list[Chunk]) -> None:
    """Make these the chunks of a document's generation; those it keeps are moved, the others are superseded."""
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


def identity_columns(fetched: Fetched | None) -> dict[str, Any]:
    """Return which state of the object was read; all None where none was."""
    if fetched is None:
        return {"etag": None, "size_bytes": None, "last_modified": None, "source_version": None}
    seen = fetched.content.object
    return {
        "etag": seen.etag,
        "size_bytes": seen.size_bytes,
        "last_modified": seen.last_modified,
        "source_version": fetched.content.version,
    }


def extracted_columns(content: SourceContent, extracted: Extracted) -> dict[str, Any]:
    """Return what was found in the bytes."""
    return {
        "media_type": extracted.media_type,
        "text": extracted.text,
        "pages": Jsonb([[page.number, page.char_start, page.char_end] for page in extracted.pages]),
        "headings": Jsonb([[item.level, item.title, item.char_start] for item in extracted.headings]),
        "warnings": Jsonb([{"code": w.code, "detail": w.detail, "pages": list(w.pages)} for w in extracted.warnings]),
        "metadata": Jsonb({**extracted.properties, **content.metadata}),
        "object_metadata": Jsonb(dict(content.metadata)),
    }


def stored_text(item: DictRow) -> Extracted:
    """Return what was read in a document earlier, as far as the chunker looks at it."""
    return Extracted(
        text=item["text"],
        media_type=item["media_type"],
        pages=tuple(Page(*page) for page in item["pages"]),
        headings=tuple(Heading(*heading) for heading in item["headings"]),
    )
