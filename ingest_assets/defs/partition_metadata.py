"""What a partition shows beside its name in the UI: counts, reasons, a preview; never content beyond that.

What does not belong here: which partitions are marked (`report.py`), and what a whole run shows (`run_metadata.py`).
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import dagster as dg
from psycopg.rows import DictRow

from ingest_assets.publish import Publication
from ingest_assets.recording import DocumentOutcome

RUNS = 5  # that are linked


def document_metadata(item: DocumentOutcome) -> dict[str, Any]:
    """Return what the partition of a document shows in `documents` and `chunks`."""
    metadata: dict[str, Any] = {
        "result": item.result,
        "source_key": item.source_key,
        "generation": item.generation,
        "chunks": item.chunks,
        "tokens": item.tokens,
        "characters": item.characters,
        "media_type": item.media_type,
        "preview": item.preview,
    }
    if item.warnings:
        metadata["warnings"] = ", ".join(item.warnings)
    return metadata


def rejection_metadata(item: DocumentOutcome) -> dict[str, Any]:
    """Return what the partition of a document shows that was given up."""
    return {
        "result": "rejected",
        "source_key": item.source_key,
        "stage": str(item.stage or ""),
        "reason": str(item.reason or ""),
        "detail": item.detail,
        "what to do": "Replace the object, or change the setting; then materialize this partition again.",
    }


def version_metadata(asset: str, publication: Publication | None, letters: Sequence[DictRow]) -> dict[str, Any]:
    """Return what the partition of a document and version shows in one of the three embed assets."""
    counts = Counter(item["reason"] for item in letters)
    reasons = ", ".join(f"{reason}: {count}" for reason, count in counts.items())
    if asset == "dead_letters":
        written = sorted({item["run_id"] for item in letters})[:RUNS]
        links = " · ".join(f"[{run_id[:8]}](/runs/{run_id})" for run_id in written)
        given_up = {"given up by": dg.MetadataValue.md(links)} if links else {}
        return {"open": len(letters), "reasons": reasons or "none", **given_up}
    if publication is None:
        return {"chunks": 0, "vectors": 0, "reason": reasons or "no text yet"}
    if asset == "retrieval_index":
        return {"published": publication.published, "rows": publication.vectors if publication.published else 0}
    return {
        "chunks": publication.chunks,
        "vectors": publication.vectors,
        "dead_letters": publication.dead_letters,
        **({"reason": reasons} if reasons else {}),
    }


def gone_metadata() -> dict[str, Any]:
    """Return what the partition of a document shows that was deleted before its run came to it."""
    return {"result": "gone", "reason": "The document was deleted; housekeeping removes its partition."}
