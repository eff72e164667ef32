"""The frozen values that travel between steps, with the unit and base of every field.

What does not belong here: behaviour, and anything that knows a library or a table.
All character positions count Unicode code points of `Extracted.text`, zero-based; `char_end` is exclusive.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal
from uuid import UUID

Lane = Literal["incremental", "backfill"]  # who waits for the work: readers, or nobody
Origin = Literal["new", "changed", "re_embed"]  # why a text is sent: a new document, a changed one, a new version


class SearchMode(StrEnum):
    """How passages are found: by meaning, by words, or by both with reciprocal rank fusion."""

    VECTOR = "vector"
    KEYWORD = "keyword"
    HYBRID = "hybrid"


@dataclass(frozen=True, slots=True)
class SourceObject:
    """One object of the source as a listing shows it."""

    key: str  # relative to the source's url, exactly as the source spells it
    uri: str  # absolute: what identifies the document for ever
    etag: str  # changes whenever the bytes may have changed; never a content hash
    size_bytes: int
    last_modified: datetime  # timezone-aware


@dataclass(frozen=True, slots=True)
class SourceContent:
    """The bytes of one object, with the identity they were read under."""

    object: SourceObject  # as of this read, not as of the listing
    data: bytes
    version: str | None = None  # S3 VersionId, where the bucket is versioned
    metadata: Mapping[str, str] = field(default_factory=dict)  # the object's own user metadata


@dataclass(frozen=True, slots=True)
class Page:
    """Where one page of the source lies in the text."""

    number: int  # 1-based, as a reader counts pages
    char_start: int
    char_end: int


@dataclass(frozen=True, slots=True)
class Heading:
    """One heading, and where its line starts in the text."""

    level: int  # 1 is the outermost
    title: str
    char_start: int


@dataclass(frozen=True, slots=True)
class ExtractWarning:
    """Something a reader of the index should know, although the document was accepted."""

    code: str  # machine-readable, snake_case
    detail: str  # one sentence of ours, no content
    pages: tuple[int, ...] = ()  # 1-based page numbers, where it concerns pages


@dataclass(frozen=True, slots=True)
class Extracted:
    """What a reader would read in a document, normalised once."""

    text: str  # NFC, "\n" line ends, no NUL, no lone surrogates, no blank at either end
    media_type: str  # decided by content, for example application/pdf
    pages: tuple[Page, ...] = ()  # empty where the format has no pages
    headings: tuple[Heading, ...] = ()  # in text order
    properties: Mapping[str, str] = field(default_factory=dict)  # title, author, front matter …
    warnings: tuple[ExtractWarning, ...] = ()


@dataclass(frozen=True, slots=True)
class Span:
    """One chunk as the chunker cuts it: a span of the text, without identity."""

    index: int  # 0-based, dense, in text order
    text: str  # exactly text[char_start:char_end] (with its overlap prefix, where that is set)
    token_count: int  # of `text`, in the chunker's own measure
    char_start: int
    char_end: int
    page_start: int | None = None  # 1-based; None where the format has no pages
    page_end: int | None = None
    heading: tuple[str, ...] = ()  # path of headings in force at the start, outermost first


@dataclass(frozen=True, slots=True)
class Chunk:
    """A span that belongs to a document."""

    chunk_id: UUID
    text_sha256: bytes  # 32 bytes, of the UTF-8 text
    span: Span


@dataclass(frozen=True, slots=True)
class Unit:
    """One distinct text to be embedded at one version: what is paid for."""

    text_sha256: bytes  # 32 bytes
    text: str
    token_count: int  # in the chunker's measure, cl100k
    failed_runs: int = 0  # runs in which it got no answer while others did
    origin: Origin = "new"
