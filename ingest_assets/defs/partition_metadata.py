"""What a partition shows beside its name in the UI: counts, reasons, a preview; never content beyond that.

What does not belong here: which partitions are marked (`report.py`), and what a whole run shows (`run_metadata.py`).
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, unquote

import dagster as dg
from psycopg.rows import DictRow

from ingest_assets.outcomes import DocumentOutcome
from ingest_assets.publish import Publication

SHOWN = 5  # different details


def document_metadata(item: DocumentOutcome, endpoint_url: str | None) -> dict[str, Any]:
    """Return what the partition of a document shows in `documents` and `chunks`."""
    metadata: dict[str, Any] = {
        "source_key": item.source_key,
        "result": item.result,
        "chunks": item.chunks,
        "tokens": item.tokens,
        "characters": item.characters,
        "generation": item.generation,
        "media_type": item.media_type,
        "preview": item.preview,
        "source object": source_link(item.source_uri, endpoint_url),
    }
    if item.warnings:
        metadata["warnings"] = ", ".join(item.warnings)
    return metadata


def rejection_metadata(item: DocumentOutcome, endpoint_url: str | None) -> dict[str, Any]:
    """Return what the partition of a document shows that was given up."""
    return {
        "source_key": item.source_key,
        "result": "rejected",
        "reason": str(item.reason or ""),
        "detail": item.detail,
        "stage": str(item.stage or ""),
        "what to do": "Replace the object, or change the setting; then materialize this partition again.",
        "source object": source_link(item.source_uri, endpoint_url),
    }


def version_metadata(asset: str, publication: Publication | None, letters: Sequence[DictRow]) -> dict[str, Any]:
    """Return what the partition of a document and version shows in one of the three embed assets."""
    if asset == "dead_letters":
        return {"open": len(letters), "reasons": _reasons(letters) or "none", **_run(letters)}
    if publication is None:
        return {"chunks": 0, "vectors": 0, "reason": _reasons(letters) or "no text yet", **_run(letters)}
    if asset == "retrieval_index":
        return {"published": publication.published, "rows": publication.vectors if publication.published else 0}
    return {
        "chunks": publication.chunks,
        "vectors": publication.vectors,
        "dead_letters": publication.dead_letters,
        **({"reason": _reasons(letters)} if letters else {}),
    }


def given_up_metadata(publication: Publication | None, letters: Sequence[DictRow]) -> dict[str, Any]:
    """Return what the red partition of a document and version shows in each of the three embed assets."""
    details = list(dict.fromkeys(item["detail"] for item in letters))
    return {
        "dead_letters": len(letters),
        "reason": _reasons(letters),
        "detail": " ".join(details[:SHOWN]),
        **({} if publication is None else {"chunks": publication.chunks, "vectors": publication.vectors}),
        "what to do": "Remove the cause, then materialize this partition: the texts that were given up are tried "
        "again. `ingest-assets dead-letters resolve` accepts them instead.",
        **_run(letters),
    }


def gone_metadata() -> dict[str, Any]:
    """Return what a partition shows whose document was deleted before its run came to it, or never was there."""
    said = "No such document: it was deleted, or was never in the source; housekeeping removes its partition."
    return {"result": "gone", "reason": said}


def source_link(uri: str, endpoint_url: str | None) -> dg.MetadataValue[Any]:
    """Return the place of a source object as somebody opens it: a path, or a page of the store."""
    if uri.startswith("file://"):
        return dg.MetadataValue.path(unquote(uri.removeprefix("file://")))
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    if endpoint_url:
        return dg.MetadataValue.url(f"{endpoint_url.rstrip('/')}/{bucket}/{quote(key)}")
    return dg.MetadataValue.url(f"https://s3.console.aws.amazon.com/s3/object/{bucket}?prefix={quote(key)}")


def _reasons(letters: Sequence[DictRow]) -> str:
    counts = Counter(item["reason"] for item in letters)
    return ", ".join(f"{reason}: {count}" for reason, count in counts.items())


def _run(letters: Sequence[DictRow]) -> dict[str, Any]:
    """Link the run that gave up last; a link in Markdown would hide behind a button of the UI."""
    if not letters:
        return {}
    newest = max(letters, key=lambda item: item["last_failed_at"])
    return {"given up by": dg.MetadataValue.dagster_run(newest["run_id"])}
