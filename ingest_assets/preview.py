"""What would be indexed from one file, without a database: read by a worker with the limits of a run.

What does not belong here: printing it.
"""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ingest_assets.chunk import chunk
from ingest_assets.errors import DocumentRejected, EnvironmentProblem, Reason
from ingest_assets.extract.pool import Workers
from ingest_assets.identity import chunk_ids, document_id
from ingest_assets.records import Extracted
from ingest_assets.settings import ExtractSettings, Settings


def preview_file(path: Path, settings: Settings) -> dict[str, Any]:
    """Return what `show` would show after ingesting this file, with timings in seconds.

    Raises:
        DocumentRejected: it would become a dead letter.
        EnvironmentProblem: the file cannot be read, or no worker starts.
    """
    extracted, seconds = _extract(path, settings.extract)
    began = time.perf_counter()
    spans = chunk(extracted, settings.chunker)
    seconds["chunk"] = time.perf_counter() - began
    if not spans:
        raise DocumentRejected(Reason.EMPTY_DOCUMENT, "The text has no visible character.")
    ids = chunk_ids(document_id(path.absolute().as_uri()), [span.text for span in spans])
    return {
        "document": str(path),
        "status": "accepted",
        "reason": None,
        "warnings": [asdict(warning) for warning in extracted.warnings],
        "media_type": extracted.media_type,
        "metadata": dict(extracted.properties),
        "text": extracted.text,
        "chunks": [
            {
                "index": span.index,
                "chunk_id": str(chunk_id),
                "text": span.text,
                "tokens": span.token_count,
                "char_start": span.char_start,
                "char_end": span.char_end,
                "page_start": span.page_start,
                "page_end": span.page_end,
                "heading": list(span.heading),
                "text_sha256": digest.hex(),
            }
            for span, (chunk_id, digest) in zip(spans, ids, strict=True)
        ],
        "seconds": seconds,
    }


def _extract(path: Path, settings: ExtractSettings) -> tuple[Extracted, dict[str, float]]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise EnvironmentProblem(f"{path} cannot be read: {error.strerror or error}.") from error
    with Workers[None](settings) as workers:
        began = time.perf_counter()
        workers.submit(None, data, path.name)
        given_at = time.perf_counter()
        [(_, finding)] = workers.drain()
        extracted_at = time.perf_counter()
    if isinstance(finding, DocumentRejected):
        raise finding
    return finding, {"start": given_at - began, "extract": extracted_at - given_at}
