"""Scenario files, and the embedding engine under them: what it stores, refuses and waits for.

Not here: the servers (`embedding_server.py`, `bedrock_server.py`). Waits are written down instead of slept.
"""

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ingest_assets.embed import open_provider
from ingest_assets.embed.batches import Shape
from ingest_assets.embed.engine import Engine
from ingest_assets.embed.pacing import Pacing
from ingest_assets.errors import Reason, UnitRejected
from ingest_assets.records import Unit
from ingest_assets.settings import ModelSettings
from ingest_assets_tests.embedding_server import Fault, scripted

SCENARIOS = Path(__file__).parent / "cases" / "scenarios"


def scenario(name: str) -> dict[str, Any]:
    """Return one scenario."""
    found: dict[str, Any] = json.loads((SCENARIOS / f"{name}.json").read_text())
    return found


def fault(step: Mapping[str, Any]) -> Fault:
    """Return the answer that one step of a script describes."""
    return scripted(step["status"], step["body"], step.get("headers"))


def unit(text: str, token_count: int = 1) -> Unit:
    """Return a text as the queue hands it over."""
    return Unit(hashlib.sha256(text.encode()).digest(), text, token_count)


class Stored:
    """What a run left behind: a vector or a reason for each text, each handed over once."""

    def __init__(self) -> None:
        self.vectors: dict[bytes, NDArray[np.float32]] = {}
        self.reasons: dict[bytes, Reason] = {}
        self.waits: list[float] = []

    async def keep(
        self, units: Sequence[Unit], vectors: NDArray[np.float32], rejections: Mapping[bytes, UnitRejected]
    ) -> None:
        """Take one batch, as a table with a primary key would."""
        for item, vector in zip(units, vectors, strict=True):
            assert item.text_sha256 not in self.vectors
            self.vectors[item.text_sha256] = vector
        self.reasons |= {digest: rejection.reason for digest, rejection in rejections.items()}

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    def embed(self, units: Sequence[Unit], **settings: Any) -> None:
        """Send texts to the provider of these settings, through its real client."""
        model = ModelSettings.model_validate({"version": "v1", **settings})

        async def run() -> None:
            provider = open_provider(model)
            try:
                pacing = Pacing(sleep=self._sleep, chance=lambda: 0.5)
                engine = Engine(provider, Shape.of(model, provider), model.max_concurrency, pacing=pacing)
                await engine.embed(units, self.keep)
            finally:
                await provider.close()

        asyncio.run(run())
