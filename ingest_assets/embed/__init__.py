"""What every embedding provider offers, and the one place that opens them.

Here: the protocol and the factory. Not here: a provider itself (`local.py`, `openai.py`), retries (`retrying.py`),
batching and concurrency (`batches.py`, `engine.py`), the plan, claims and tables (`ingest_assets/embedding.py`).
A provider's client library is imported when it is opened: only who uses it waits for the import.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ingest_assets.errors import SettingsError
from ingest_assets.settings import ModelSettings


class Provider(Protocol):
    """One embedding model version behind its client: sends one request, judges nothing, retries nothing."""

    @property
    def version(self) -> str:
        """The label of the settings, for example `openai-small-512-v1`."""

    @property
    def dimensions(self) -> int:
        """Numbers in one vector."""

    @property
    def token_ratio(self) -> float:
        """Most tokens of this model for one cl100k token of ordinary text; 1.0 where cl100k is its tokenizer."""

    def fingerprint(self) -> dict[str, str | int | float | bool]:
        """Return provider, model, dimensions, client library with its version, and request parameters."""

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed the texts of one request; returns [len(texts), dimensions], row i for text i.

        A row may still hold NaN or zeros: `answers.check_vectors` decides about rows.

        Raises:
            Unanswered: time may mend it (`RateLimited`, `AnswerRefused` are kinds of it).
            BatchRejected: some text of this request is refused; asking again with fewer texts shows which.
            EmbeddingFatal: nothing can be sent until somebody acts.
        """

    async def close(self) -> None:
        """Let go of connections and threads; calling twice is safe."""


def open_provider(settings: ModelSettings) -> Provider:
    """Open the provider of one declared model; close it when done. Sends nothing.

    Raises:
        ModelUnavailable: the model's files or credentials are not there; the message says what to do.
        SettingsError: the settings ask for what this provider does not have.
    """
    if settings.provider == "local":
        from ingest_assets.embed.local import LocalProvider  # noqa: PLC0415  # only who uses it pays for it

        return LocalProvider(settings)
    if settings.provider == "openai":
        from ingest_assets.embed.openai import OpenAIProvider  # noqa: PLC0415  # a second of imports

        return OpenAIProvider(settings)
    raise SettingsError(f"models.provider {settings.provider} is not available yet; use local or openai.")
