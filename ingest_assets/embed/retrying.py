"""One request, sent until it is answered or its policy gives up.

Here: the loop that waits, the check of the answer, and the counters of what was sent. Not here: which texts make a
request and what follows from a refusal (`engine.py`), and how long a wait is (`pacing.py`).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ingest_assets.embed import Provider
from ingest_assets.embed.answers import Checked, check_vectors
from ingest_assets.embed.failures import AnswerRefused, BatchRejected, RateLimited, Unanswered
from ingest_assets.embed.pacing import Pacing
from ingest_assets.errors import Reason
from ingest_assets.records import Unit


@dataclass(slots=True)
class Counters:
    """What a run has done so far. A request that was retried counts each time it was sent."""

    requests: int = 0
    items: int = 0  # texts in those requests
    answered_tokens: int = 0  # of texts in answered requests, by the units' own counts: what is paid for
    embedded: int = 0  # texts handed to the sink with a vector
    rejected: Counter[Reason] = field(default_factory=Counter)  # texts handed to the sink with a refusal
    rate_limited_responses: int = 0
    other_failures: int = 0  # timeouts, resets, 5xx, unusable answers


class Sender:
    """Sends requests to one provider, waits where waiting helps, and counts."""

    def __init__(self, provider: Provider, pacing: Pacing, counters: Counters) -> None:
        self._provider = provider
        self._pacing = pacing
        self._counters = counters

    async def send(self, units: Sequence[Unit]) -> tuple[NDArray[np.float32], Checked]:
        """Return the vectors for these units, [len(units), dimensions], and which of the rows are good.

        Raises:
            Unanswered: no answer after all attempts, or the server asks for a longer wait than a run can take.
            BatchRejected: refused for good, or the answer never fits the request, perhaps because of one text.
            EmbeddingFatal: as the provider says.
        """
        attempts: Counter[bool] = Counter()
        while True:
            try:
                return await self._send_once(units)
            except Unanswered as failure:
                kind = isinstance(failure, RateLimited)
                attempts[kind] += 1
                wait = self._pacing.wait(failure, attempts[kind])
                if wait is None and isinstance(failure, AnswerRefused):
                    raise BatchRejected(Reason.INVALID_VECTOR, str(failure)) from failure
                if wait is None:
                    raise
            await self._pacing.sleep(wait)

    async def _send_once(self, units: Sequence[Unit]) -> tuple[NDArray[np.float32], Checked]:
        self._counters.requests += 1
        self._counters.items += len(units)
        try:
            vectors = await self._provider.embed([unit.text for unit in units])
            self._counters.answered_tokens += sum(unit.token_count for unit in units)
            return vectors, check_vectors(vectors, len(units), self._provider.dimensions)
        except RateLimited:
            self._counters.rate_limited_responses += 1
            raise
        except Unanswered:
            self._counters.other_failures += 1
            raise
