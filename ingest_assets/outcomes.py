"""What a run says of a document it worked on.

What does not belong here: deciding it, and writing it down (`recording.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from psycopg.rows import DictRow

from ingest_assets.errors import Reason
from ingest_assets.records import Chunk, Extracted

Result = Literal["accepted", "unchanged", "rejected", "postponed", "missing", "superseded", "unknown"]
Stage = Literal["fetch", "extract", "chunk"]

STAGES: tuple[Stage, ...] = ("fetch", "extract", "chunk")
PREVIEW_CHARACTERS = 200


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


def accepted_outcome(document: DictRow, generation: int, extracted: Extracted, chunks: list[Chunk]) -> DocumentOutcome:
    """Say what was read in a document and what it was cut into."""
    return outcome_of(
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


def outcome_of(document: DictRow, result: Result, **details: Any) -> DocumentOutcome:
    """Say what became of a document, with the names by which people know it."""
    names = {name: document[name] for name in ("partition_key", "source_key", "source_uri")}
    return DocumentOutcome(result=result, **names, **details)


def unchanged_outcome(document: DictRow, chunks: Sequence[DictRow]) -> DocumentOutcome:
    """Say that a document is what it was; `chunks` are its current ones, in order."""
    return outcome_of(
        document,
        "unchanged",
        generation=document["generation"],
        chunks=len(chunks),
        tokens=sum(item["token_count"] for item in chunks),
        characters=max((item["char_end"] for item in chunks), default=0),
        media_type=document["media_type"],
        preview=" ".join(chunks[0]["text"].split())[:PREVIEW_CHARACTERS] if chunks else "",
    )


def superseded(document: DictRow) -> DocumentOutcome:
    """Say that another run was faster, and that nothing was written."""
    return outcome_of(document, "superseded", detail="another run decided on this document meanwhile")
