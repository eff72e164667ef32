"""One request, sent until it is answered or its policy gives up.

Here: the loop that waits, the check of the answer, and the counters of what was sent. Not here: which texts make a
request and what follows from a refusal (`engine.py`), how long a wait is (`pacing.py`), who may send (`admission.py`).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ingest_assets.embed import Provider
from ingest_assets.embed.admission import Admission
from ingest_assets.embed.answers import Answer, Checked, check_vectors
from ingest_assets.embed.concurrency import Concurrency
from ingest_assets.embed.failures import AnswerRefused, BatchRejected, RateLimited, Unanswered
from ingest_assets.embed.pacing import Pacing
from ingest_assets.errors import Reason
from ingest_assets.records import Unit


@dataclass(slots=True)
class Counters:
    """What a run has done so far. A request that was retried counts each time it was sent."""

    requests: int = 0
    items: int = 0  # texts in those requests
    billed_tokens: int = 0  # of answered requests: as the provider counts where it says so, else the units' own counts
    embedded: int = 0  # texts handed to the sink with a vector
    rejected: Counter[Reason] = field(default_factory=Counter)  # texts handed to the sink with a refusal
    rate_limited_responses: int = 0
    other_failures: int = 0  # timeouts, resets, 5xx, unusable answers


class Sender:
    """Sends requests to one provider, waits where waiting helps, and counts."""

    def __init__(
        self,
        provider: Provider,
        pacing: Pacing,
        admission: Admission,
        concurrency: Concurrency,
        counters: Counters,
    ) -> None:
        self._provider, self._pacing, self._admission = provider, pacing, admission
        self._concurrency, self._counters = concurrency, counters

    async def send(self, units: Sequence[Unit], pacing: Pacing | None = None) -> tuple[NDArray[np.float32], Checked]:
        """Return the vectors for these units, [len(units), dimensions], and which of the rows are good.

        Raises:
            Unanswered: no answer after all attempts, or the server asks for a longer wait than a run can take.
            BatchRejected: refused for good, or the answer never fits the request, perhaps because of one text.
            EmbeddingFatal: as the provider says.
            EmbeddingTransient: this run must not send any more.
        """
        pacing = pacing or self._pacing
        attempts: Counter[bool] = Counter()
        while True:
            cuts = self._concurrency.cuts
            try:
                return await self._send_once(units)
            except Unanswered as failure:
                kind = isinstance(failure, RateLimited)
                attempts[kind] += 1
                wait = pacing.wait(failure, attempts[kind])
                if kind:
                    self._concurrency.rate_limited(cuts)
                    await self._admission.hold_back(pacing.pause(failure, wait))
                if wait is None and isinstance(failure, AnswerRefused):
                    raise BatchRejected(Reason.INVALID_VECTOR, str(failure)) from failure
                if wait is None:
                    raise
            await pacing.sleep(wait)

    async def _send_once(self, units: Sequence[Unit]) -> tuple[NDArray[np.float32], Checked]:
        tokens = sum(unit.token_count for unit in units)
        await self._admission.admit(tokens)
        self._counters.requests += 1
        self._counters.items += len(units)
        try:
            answer = await self._provider.embed([unit.text for unit in units])
            self._settle(tokens, answer)
            checked = check_vectors(answer.vectors, len(units), self._provider.dimensions)
        except RateLimited:
            self._counters.rate_limited_responses += 1
            raise
        except Unanswered:
            self._counters.other_failures += 1
            raise
        await self._concurrency.answered()
        return answer.vectors, checked

    def _settle(self, tokens: int, answer: Answer) -> None:
        """Count what an answer cost, also of an answer that turns out to be unusable: it is paid for."""
        self._counters.billed_tokens += tokens if answer.billed_tokens is None else answer.billed_tokens
        if answer.billed_tokens is not None:
            self._admission.settle(tokens, answer.billed_tokens)
