"""Search of the retrieval index, to see with one's own eyes that it works.

What does not belong here: serving applications, which call `serving.search(...)` in SQL.
"""

import asyncio
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ingest_assets.database import Database, rows
from ingest_assets.embed import open_provider
from ingest_assets.errors import Refused
from ingest_assets.models import declare_models, served_model
from ingest_assets.settings import ModelSettings, Settings


@dataclass(frozen=True, slots=True)
class Hit:
    """One passage that was found."""

    document: str
    chunk_id: str
    score: float  # cosine similarity, 1 is best
    text: str
    page_start: int | None
    page_end: int | None
    heading: list[str]


def search(database: Database, settings: Settings, query: str, *, k: int = 10, version: str | None = None) -> list[Hit]:
    """Embed the question and return the nearest passages, best first.

    Raises:
        Refused: nothing is served yet, or the version is unknown, retired or not declared.
    """
    models = [model for model in declare_models(database, settings.models) if version in (None, model.version)]
    model = served_model(models)
    declared = next((item for item in settings.models if model and item.version == model.version), None)
    if model is None or declared is None:
        name = version or (model.version if model else "any version")
        raise Refused(
            f"There is no model {name} to ask; `ingest-assets models list` shows them, ingest.toml declares them."
        )
    vector = asyncio.run(_embed(declared, query))
    with database.connection() as connection:
        found = rows(connection, "search_vectors", embedding=vector, k=k, version=model.version)
    return [Hit(**{**item, "chunk_id": str(item["chunk_id"])}) for item in found]


async def _embed(declared: ModelSettings, query: str) -> NDArray[np.float32]:
    provider = open_provider(declared)
    try:
        return await provider.embed_query(query)
    finally:
        await provider.close()
