"""`ingest-assets search`: the retrieval index, to see with one's own eyes that it works.

What does not belong here: finding (`ingest_assets/search.py`).
"""

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from ingest_assets.cli.context import JSON, platform_or_leave
from ingest_assets.cli.output import console, leave, pages_named, print_json
from ingest_assets.errors import Refused
from ingest_assets.records import SearchMode

TEXT_PREVIEW = 300
EXAMPLES = (
    'Examples: `ingest-assets search "how is the pump bled"` · `ingest-assets search "tariff" --mode keyword -k 3` '
    '· `ingest-assets search "bearings" --document manuals/pump.pdf --filter author="Ingrid Dahl" --json`'
)


def search(
    query: Annotated[str, typer.Argument(help="A question or words.")],
    k: Annotated[int, typer.Option("-k", min=1, max=1000, help="Passages to return.")] = 5,
    model: Annotated[str | None, typer.Option(help="Embedding model version; default: the active one.")] = None,
    mode: Annotated[
        SearchMode, typer.Option(help="By meaning, by words (nothing is embedded), or both by reciprocal rank fusion.")
    ] = SearchMode.HYBRID,
    document: Annotated[list[str] | None, typer.Option(help="Key, URI or id; may be repeated.")] = None,
    prefix: Annotated[str | None, typer.Option(help="Beginning of the keys.")] = None,
    media_type: Annotated[list[str] | None, typer.Option(help="Such as application/pdf; may be repeated.")] = None,
    filter_: Annotated[
        list[str] | None, typer.Option("--filter", help="Metadata: NAME=TEXT or a JSON object; may be repeated.")
    ] = None,
    as_json: JSON = False,
) -> None:
    """Find passages in the retrieval index, best first."""
    from ingest_assets.search import search as find
    from ingest_assets.status import find_document

    with platform_or_leave(as_json=as_json) as platform:
        found = [str(find_document(platform.database, name)["document_id"]) for name in document or []]
        metadata = _metadata(filter_ or [], as_json=as_json)
        given = {"document": found, "key_prefix": prefix, "media_type": media_type, "metadata": metadata}
        filters = {name: value for name, value in given.items() if value}
        hits = find(platform.database, platform.settings, query, k=k, version=model, mode=mode, filters=filters)
    if as_json:
        print_json([asdict(hit) for hit in hits])
        return
    if not hits:
        is_narrowed = bool(filters) or mode is SearchMode.KEYWORD
        console.print(
            "Nothing matches." if is_narrowed else "Nothing is published yet; `ingest-assets run` ingests the source."
        )
    for hit in hits:
        heading = f" · {' › '.join(hit.heading)}" if hit.heading else ""
        title = f"{hit.score:.3f}  {hit.document}{pages_named(hit.page_start, hit.page_end)}"
        console.print(title, style="bold", end="", markup=False, highlight=False)
        console.print(heading, markup=False, highlight=False)
        console.print(_shortened(hit.text) + "\n", markup=False, highlight=False)


def _metadata(filters: list[str], *, as_json: bool) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for text in filters:
        name, equals, value = text.partition("=")
        if not text.lstrip().startswith("{") and name and equals:
            metadata[name] = value
            continue
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            leave(
                Refused(f'--filter {text} is neither NAME=TEXT nor a JSON object like {{"year": 2024}}.'),
                as_json=as_json,
            )
        metadata |= found
    return metadata


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= TEXT_PREVIEW else line[:TEXT_PREVIEW] + " …"
