"""What the result of a check shows in the UI: counts, what was looked at, what to do, and offenders with links.

What does not belong here: judging (`checks.py`), and storing the result (`bookkeeping.py`).
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import dagster as dg

from ingest_assets.defs.partitions import document_version
from ingest_assets.identity import partition_key
from ingest_assets.verdicts import Verdict

MARKDOWN = str.maketrans({character: f"\\{character}" for character in "\\`*_[]<>|#&~"} | {"\n": " ", "\r": " "})


def check_metadata(verdict: Verdict) -> dict[str, Any]:
    """Return the metadata of a verdict."""
    metadata: dict[str, Any] = {**verdict.counts, "looked at": verdict.scope}
    if not verdict.passed:
        # As plain text: the UI shows Markdown behind a button only, and this is what people look for first.
        metadata["what to do"] = verdict.remedy.replace("`", "")
        metadata["first offenders"] = dg.MetadataValue.md(offenders_table(verdict))
    return metadata


def offenders_table(verdict: Verdict) -> str:
    """Return the offenders as a table in Markdown; each document is a link to its partition."""
    said = [name for item in verdict.offenders for name, value in item.items() if value not in ("", None)]
    columns = list(dict.fromkeys(said))
    lines = [[_cell(name, item, verdict.asset) for name in columns] for item in verdict.offenders]
    return "\n".join(f"| {' | '.join(line)} |" for line in (columns, ["---"] * len(columns), *lines))


def partition_link(asset: str, document: str, version: str | None) -> str:
    """Return the place of a document's partition in the UI; of an asset by document and version, at that version."""
    key = partition_key(document)
    partition = key if version is None else str(document_version(key, version))
    return f"/assets/{asset}?view=partitions&partition={quote(partition, safe='')}"


def _cell(column: str, item: Mapping[str, Any], asset: str) -> str:
    value = item.get(column)
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    text = "" if value is None else str(value).translate(MARKDOWN)
    if column != "document" or not value:
        return text
    version = item.get("version") if asset not in ("documents", "chunks") else None
    linked = asset if version else "documents"
    return f"[{text}]({partition_link(linked, str(value), version)})"
