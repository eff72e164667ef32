"""The ways one request can fail, as the engine tells them apart.

Here: kinds of failure and what may be quoted from a provider. Not here: the error tree (`ingest_assets/errors.py`),
telling which failure a status code is (each provider), and waiting (`pacing.py`).
"""

from collections.abc import Iterable
from typing import Any

from ingest_assets.errors import EmbeddingTransient, Reason, UnitRejected

QUOTED_CHARACTERS = 200
_WINDOW = 16  # characters in a row that two texts hardly share by chance


class Unanswered(EmbeddingTransient):
    """A request got no usable answer now, and may later: timeouts, resets, 5xx, answers of another shape."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after  # seconds the server asks to wait; None where it does not say


class RateLimited(Unanswered):
    """The account sent too much in too short a time."""


class AnswerRefused(Unanswered):
    """An answer does not fit its request (count, order, shape); none of it can be trusted."""


class NotEmbeddings(Unanswered):
    """A successful answer of something else than an embeddings endpoint: a page, or JSON without vectors.

    Passing trouble of a gateway, or a base_url that points elsewhere: only what else is answered tells them apart.
    """


class BatchRejected(UnitRejected):
    """A request is refused for good because of some text in it; alone, each text shows whether it is the one."""

    def __init__(self, reason: Reason, detail: str, item: int | None = None) -> None:
        super().__init__(reason, detail)
        self.item = item  # position in the request of the text that the error names; None where it names none

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (self.reason, self.detail, self.item)


def provider_words(message: str, texts: Iterable[str]) -> str:
    """Return a provider's message fit to be stored: cut to 200 characters, empty where it quotes one of the texts."""
    words = " ".join(message.split())[:QUOTED_CHARACTERS]
    windows = [words[start : start + _WINDOW] for start in range(max(0, len(words) - _WINDOW) + 1)]
    for text in texts:
        flat = " ".join(text.split())
        if (flat and flat in words) or any(window in flat for window in windows if window):
            return ""
    return words
