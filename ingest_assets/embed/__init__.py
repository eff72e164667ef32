"""What every embedding provider offers, and the one place that opens them.

Here: the protocol and the factory. Not here: a provider itself (`local.py`, `openai.py`, `bedrock.py`), retries
(`retrying.py`), batching and concurrency (`batches.py`, `engine.py`), the plan, claims and tables
(`ingest_assets/embedding.py`). A provider's client library is imported when it is opened: only who uses it waits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ingest_assets.embed.answers import Answer
from ingest_assets.settings import ModelSettings


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What one request of a model may hold, whatever the settings say; None where no limit is known."""

    max_items: int | None = None
    max_request_tokens: int | None = None
    max_input_tokens: int | None = None  # of one text, by the model's own tokenizer
    max_input_characters: int | None = None  # of one text, in code points


UNLIMITED = RequestLimits()
FOREIGN_TOKEN_RATIO = 1.25  # prose in the tokenizers of models outside of OpenAI, against cl100k


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

    @property
    def account(self) -> str | None:
        """Name of what shares one rate limit among all processes, without secrets; None where nothing limits."""

    @property
    def limits(self) -> RequestLimits:
        """What the model takes in one request; settings may lower it and never raise it."""

    def fingerprint(self) -> dict[str, str | int | float | bool]:
        """Return provider, model, dimensions, client library with its version, and request parameters."""

    async def embed(self, texts: Sequence[str]) -> Answer:
        """Embed the texts of one request, as passages to be found.

        A row may still hold NaN or zeros: `answers.check_vectors` decides about rows.

        Raises:
            Unanswered: time may mend it (`RateLimited`, `AnswerRefused` are kinds of it).
            BatchRejected: some text of this request is refused; asking again with fewer texts shows which.
            EmbeddingFatal: nothing can be sent until somebody acts.
        """

    async def embed_query(self, text: str) -> NDArray[np.float32]:
        """Embed one question to these passages; returns [dimensions] and raises as `embed` does.

        Most models make no difference. Those that do find less where a question is embedded like a passage.
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
    from ingest_assets.embed.bedrock import BedrockProvider  # noqa: PLC0415  # botocore is slow to import

    return BedrockProvider(settings)
