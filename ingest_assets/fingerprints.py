"""A version's fingerprint: what client it is embedded with, and the sample that proves that a new one is the same.

What does not belong here: declaring versions (`models.py`). The sample (the canary) is fixed by the first run of a
version, out of what it embedded anyway, so a first load sends nothing extra. It is kept by reference: the table holds
hashes, the words and vectors stay with their chunks and leave with them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from psycopg.types.json import Jsonb

from ingest_assets.database import Database, rows, run
from ingest_assets.embed import Provider
from ingest_assets.errors import EmbeddingFatal, Reason
from ingest_assets.models import ModelVersion

SAMPLE_SIZE = 16
SAMPLE_TOLERANCE = 1e-3  # cosine distance; far above float noise between releases, far below another model


async def recognise(database: Database, model: ModelVersion, provider: Provider) -> None:
    """Record the client a version is embedded with; one that differs from the recorded must prove itself first.

    Raises:
        EmbeddingFatal: stored texts get other vectors than they have (`fingerprint_changed`), or no answer for good.
        Unanswered: the sample got no answer now.
    """
    fingerprint = provider.fingerprint()
    if dict(model.fingerprint) == fingerprint:
        return
    if model.fingerprint:
        with database.connection() as connection:
            sample = rows(connection, "sample_vectors", version=model.version, sample_size=SAMPLE_SIZE)
        for texts in _requests(sample, provider.limits.max_items):
            answer = await provider.embed([item["text"] for item in texts])
            _refuse_different(model, texts, answer.vectors)
    with database.connection() as connection:
        run(connection, "record_fingerprint", version=model.version, fingerprint=Jsonb(fingerprint))


def fix_sample(database: Database, model: ModelVersion) -> None:
    """Choose the version's sample, once; nothing happens where it has one, or nothing is embedded yet."""
    with database.connection() as connection:
        run(connection, "record_canary", version=model.version, sample_size=SAMPLE_SIZE)


def _requests(sample: Sequence[Mapping[str, Any]], max_items: int | None) -> list[Sequence[Mapping[str, Any]]]:
    size = min(max_items or SAMPLE_SIZE, SAMPLE_SIZE)
    return [sample[start : start + size] for start in range(0, len(sample), size)]


def _refuse_different(model: ModelVersion, sample: Sequence[Mapping[str, Any]], again: NDArray[np.float32]) -> None:
    stored = np.stack([item["embedding"].to_numpy() for item in sample])
    distance = float("nan")
    if again.shape == stored.shape:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            scale = np.linalg.norm(stored, axis=1) * np.linalg.norm(again, axis=1)
            distance = float(np.max(1 - np.sum(stored * again, axis=1) / scale))
    if not distance <= SAMPLE_TOLERANCE:
        raise EmbeddingFatal(
            Reason.FINGERPRINT_CHANGED,
            f"{model.version} gives other vectors than it did (cosine distance {distance:.4f} on stored texts); "
            "bring the old client back, or declare the new one under a new version.",
        )
