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
from ingest_assets.embed.engine import Engine, Unfinished
from ingest_assets.embed.retrying import Counters
from ingest_assets.errors import EmbeddingFatal, Reason, UnitRejected
from ingest_assets.models import ModelVersion
from ingest_assets.records import Unit

SAMPLE_SIZE = 16
SAMPLE_TOLERANCE = 1e-3  # cosine distance; far above float noise between releases, far below another model


async def recognise(database: Database, model: ModelVersion, engine: Engine, counters: Counters) -> None:
    """Record the client a version is embedded with; one that differs from the recorded must prove itself first.

    The sample is sent as any texts are, within all limits. A text of it that is refused now proves nothing.

    Raises:
        EmbeddingFatal: stored texts get other vectors than they have (`fingerprint_changed`), or no answer for good.
        EmbeddingTransient: the sample got no answer now.
    """
    fingerprint = engine.provider.fingerprint()
    if dict(model.fingerprint) == fingerprint:
        return
    if model.fingerprint:
        with database.connection() as connection:
            sample = rows(connection, "sample_vectors", version=model.version, sample_size=SAMPLE_SIZE)
        if sample:
            _refuse_different(model, sample, await _embed_again(engine, sample, counters))
    with database.connection() as connection:
        run(connection, "record_fingerprint", version=model.version, fingerprint=Jsonb(fingerprint))


async def _embed_again(
    engine: Engine, sample: Sequence[Mapping[str, Any]], counters: Counters
) -> dict[bytes, NDArray[np.float32]]:
    again: dict[bytes, NDArray[np.float32]] = {}

    async def keep(
        units: Sequence[Unit], vectors: NDArray[np.float32], rejections: Mapping[bytes, UnitRejected]
    ) -> None:
        del rejections  # a text that is refused now proves nothing
        again.update((unit.text_sha256, vector) for unit, vector in zip(units, vectors, strict=True))

    units = [Unit(bytes(item["text_sha256"]), item["text"], item["token_count"]) for item in sample]
    try:
        await engine.embed(units, keep, counters=counters)
    except Unfinished as unfinished:
        # Only for runs over the queue is this about single texts.
        raise next(iter(unfinished.units.values())) from unfinished
    return again


def fix_sample(database: Database, model: ModelVersion) -> None:
    """Choose the version's sample, once; nothing happens where it has one, or nothing is embedded yet."""
    with database.connection() as connection:
        run(connection, "record_canary", version=model.version, sample_size=SAMPLE_SIZE)


def _refuse_different(
    model: ModelVersion, sample: Sequence[Mapping[str, Any]], again: Mapping[bytes, NDArray[np.float32]]
) -> None:
    pairs = [
        (item["embedding"].to_numpy(), again[digest])
        for item in sample
        if (digest := bytes(item["text_sha256"])) in again
    ]
    distance = max((_cosine_distance(stored, new) for stored, new in pairs), default=float("nan"))
    if not distance <= SAMPLE_TOLERANCE:
        found = f"cosine distance {distance:.4f} on stored texts" if pairs else "none at all for stored texts"
        raise EmbeddingFatal(
            Reason.FINGERPRINT_CHANGED,
            f"{model.version} gives other vectors than it did ({found}); bring the old client back, or declare the new "
            "one under a new version.",
        )


def _cosine_distance(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    return 1 - float(np.dot(one, other) / (np.linalg.norm(one) * np.linalg.norm(other)))
