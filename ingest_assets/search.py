"""Search of the retrieval index, to see with one's own eyes that it works.

What does not belong here: how passages are found and ranked: `serving.search(...)` in SQL, which applications call too.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray
from pgvector import Vector
from psycopg.types.json import Jsonb

from ingest_assets.database import Database, rows
from ingest_assets.embed import open_provider
from ingest_assets.errors import Refused
from ingest_assets.models import declare_models, served_model
from ingest_assets.records import SearchMode
from ingest_assets.settings import ModelSettings, Settings


@dataclass(frozen=True, slots=True)
class Hit:
    """One passage that was found."""

    document: str
    chunk_id: str
    score: float  # cosine similarity, relevance of the words, or the sum of reciprocal ranks; more is better
    text: str
    page_start: int | None
    page_end: int | None
    heading: list[str]


def search(
    database: Database,
    settings: Settings,
    query: str,
    *,
    k: int = 10,
    version: str | None = None,
    mode: SearchMode = SearchMode.HYBRID,
    filters: Mapping[str, Any] | None = None,
) -> list[Hit]:
    """Return the passages that answer a question, best first; it is embedded unless the mode is `keyword`.

    Raises:
        Refused: nothing is served yet, the version is unknown, retired or not declared, or a filter makes no sense.
    """
    models = [model for model in declare_models(database, settings.models) if version in (None, model.version)]
    model = served_model(models)
    declared = next((item for item in settings.models if model and item.version == model.version), None)
    if model is None or declared is None:
        name = version or (model.version if model else "any version")
        raise Refused(
            f"There is no model {name} to ask; `ingest-assets models list` shows them, ingest.toml declares them."
        )
    query = query.encode(errors="replace").decode().replace("\0", " ")  # of a terminal, which may send anything
    question: dict[str, Any] = {
        "query_vector": None if mode is SearchMode.KEYWORD else Vector(asyncio.run(_embed(declared, query))),
        "query_text": None if mode is SearchMode.VECTOR else query,
        "k": k,
        "filters": Jsonb(dict(filters or {})),
        "mode": mode,
        "version": model.version,
    }
    try:
        with database.connection() as connection:
            found = rows(connection, "search_passages", **question)
    except psycopg.errors.InvalidParameterValue as error:
        raise Refused(f"The search is refused: {error.diag.message_primary}.") from error
    return [Hit(**{**item, "chunk_id": str(item["chunk_id"])}) for item in found]


async def _embed(declared: ModelSettings, query: str) -> NDArray[np.float32]:
    provider = open_provider(declared)
    try:
        return await provider.embed_query(query)
    finally:
        await provider.close()
