"""Who may send now: what the engine asks before each request, and tells when the server says "too much".

Here: the protocol, and the one for models that nobody limits. Not here: the budget in Postgres that all processes share
(`ingest_assets/budget.py`), and how many requests one run has in flight (`concurrency.py`).
"""

from typing import Protocol


class Admission(Protocol):
    """The gate in front of one account."""

    async def admit(self, tokens: int) -> None:
        """Return when one request of about so many tokens may be sent.

        Raises:
            EmbeddingTransient: this run must not send any more.
        """

    async def hold_back(self, seconds: float) -> None:
        """Keep everybody from sending for so long: the server asked for it."""

    def settle(self, reserved: int, billed: int) -> None:
        """Say what a request counted in the end, where the provider says it, for the next to make up for."""


class Unlimited:
    """Admits everything at once."""

    async def admit(self, tokens: int) -> None:
        """Return at once."""

    async def hold_back(self, seconds: float) -> None:
        """Do nothing: the request itself waits."""

    def settle(self, reserved: int, billed: int) -> None:
        """Do nothing."""
