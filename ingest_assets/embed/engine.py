"""Sends a stream of texts to a provider and hands every finished batch to a sink at once.

Here: concurrency, halving, trust and delivery. Not here: what a batch is (`batches.py`), sending one request
(`retrying.py`), which failure an answer is (the provider), what is queued and where vectors go
(`ingest_assets/embedding.py`).
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ingest_assets.embed import Provider
from ingest_assets.embed.admission import Admission, Unlimited
from ingest_assets.embed.batches import Batch, Packer, Shape
from ingest_assets.embed.concurrency import Concurrency
from ingest_assets.embed.failures import BatchRejected, NotEmbeddings, RateLimited, Unanswered
from ingest_assets.embed.pacing import ONCE, Pacing
from ingest_assets.embed.retrying import Counters, Sender
from ingest_assets.errors import EmbeddingFatal, EmbeddingTransient, Reason, UnitRejected
from ingest_assets.records import Unit

PROBE = Unit(b"", "The weather is fine today.", 6)  # no provider has a reason to refuse this one
ISOLATION_BITS = 4  # a text that failed a run before shares a request with a sixteenth of the usual number

Units = AsyncIterable[Unit] | Iterable[Unit]
Progress = Callable[[Counters], None]
Finished = tuple[Sequence[Unit], NDArray[np.float32], Mapping[bytes, UnitRejected]]


class Sink(Protocol):
    """Where finished work goes. Called once at a time, for one batch or several; what it raises stops the run."""

    async def __call__(
        self, units: Sequence[Unit], vectors: NDArray[np.float32], rejections: Mapping[bytes, UnitRejected]
    ) -> None:
        """Keep vectors[i] for units[i], and a refusal for each text_sha256 in `rejections`; either may be empty."""


class Unfinished(EmbeddingTransient):
    """The run came to its end, and some texts got no answer after all attempts, while others did."""

    def __init__(self, units: Mapping[bytes, Unanswered]) -> None:
        super().__init__(f"{len(units)} texts got no answer while others did. {next(iter(units.values()))}")
        self.units = units  # text_sha256 -> the last failure


@dataclass(frozen=True, slots=True)
class Engine:
    """One provider with everything that decides when and how it is asked."""

    provider: Provider
    shape: Shape
    max_concurrency: int
    admission: Admission = field(default_factory=Unlimited)
    pacing: Pacing = field(default_factory=Pacing)

    async def embed(
        self, units: Units, sink: Sink, *, counters: Counters | None = None, progress: Progress | None = None
    ) -> Counters:
        """Embed every unit once; returns the counters (those passed in, which stay readable when this raises).

        At most `max_concurrency` requests are in flight, and two batches more are held. `progress` is called after
        each delivery. However a run ends, an answer that has arrived reaches the sink, unless the sink itself failed.

        Raises:
            EmbeddingFatal: nothing can be sent until somebody acts; requests in flight are dropped.
            Unfinished: the run came to its end without some texts, which failed while others did not.
            EmbeddingTransient: nothing gets an answer any more, or this run must not send; it stopped at once.
        """
        counters = counters if counters is not None else Counters()
        await _Run(self, sink, counters, progress).execute(units)
        return counters


class _Run:
    def __init__(self, engine: Engine, sink: Sink, counters: Counters, progress: Progress | None) -> None:
        self.concurrency = Concurrency(engine.max_concurrency)
        self.sender = Sender(engine.provider, engine.pacing, engine.admission, self.concurrency, counters)
        self.once = replace(engine.pacing, rate_limited=ONCE, unanswered=ONCE)
        self.no_vectors = np.empty((0, engine.provider.dimensions), dtype=np.float32)
        self.shape, self.sink, self.progress, self.counters = engine.shape, sink, progress, counters
        self.max_items = engine.shape.max_items  # lowered when the server turns out to take fewer
        self.finished: list[Finished] = []  # answers that wait for the sink
        self.delivering = asyncio.Lock()
        self.probing = asyncio.Lock()
        self.is_trusted = False  # the provider has embedded something: its refusals are about the texts
        self.is_broken = False  # the sink failed: nothing more is handed to it
        self.unanswered: dict[bytes, Unanswered] = {}

    async def execute(self, units: Units) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                async for batch in self._packed(units):
                    await self.concurrency.acquire()
                    group.create_task(self._work(batch))
        except BaseExceptionGroup as failures:
            first = failures.exceptions[0]
            raise first from first.__cause__
        if self.unanswered:
            raise Unfinished(self.unanswered)

    async def _packed(self, units: Units) -> AsyncIterator[Batch]:
        """Pack units as they come; those that failed runs before travel with fewer others, in the end alone."""
        packers: dict[int, Packer] = {}
        async for unit in _stream(units):
            if (packer := packers.get(unit.failed_runs)) is None:
                packer = packers[unit.failed_runs] = Packer(self.shape)
            packer.max_items = max(1, self.max_items >> (ISOLATION_BITS * unit.failed_runs))
            if (full := packer.add(unit)) is not None:
                yield full
        for packer in packers.values():
            if (rest := packer.flush()) is not None:
                yield rest

    async def _work(self, batch: Batch) -> None:
        try:
            if batch.rejections:
                await self._deliver((), self.no_vectors, batch.rejections)
            if batch.units:
                await self._embed(batch.units)
        finally:
            await self.concurrency.release()

    async def _embed(self, units: Sequence[Unit]) -> bool:
        """Embed and deliver these units; True where every one of them got its vector."""
        embedded_before = self.counters.embedded
        try:
            vectors, checked = await self.sender.send(units)
        except BatchRejected as refusal:
            await self._require_trust(refusal)
            await self._search(units, refusal)
            return False
        except Unanswered as failure:
            await self._require_others(failure, embedded_before)
            self.unanswered.update((unit.text_sha256, failure) for unit in units)
            return False
        if checked.accepted.size:
            self.is_trusted = True
        else:
            await self._require_trust(_unusable(checked.rejected[0]))
        rejections = {units[row].text_sha256: _unusable(reason) for row, reason in checked.rejected.items()}
        await self._deliver([units[row] for row in checked.accepted], vectors[checked.accepted], rejections)
        return not rejections

    async def _search(self, units: Sequence[Unit], refusal: BatchRejected) -> None:
        """Find what a refusal is about: the text it names, else by halving, until each refusal stands alone."""
        if len(units) == 1:
            rejection = UnitRejected(refusal.reason, refusal.detail)
            await self._deliver((), self.no_vectors, {units[0].text_sha256: rejection})
            return
        if refusal.item is not None:
            # A name is believed when it proves true: servers were seen that always name the first.
            is_wrong = await self._embed([units[refusal.item]])
            rest = [unit for place, unit in enumerate(units) if place != refusal.item]
            if not is_wrong:
                await self._embed(rest)
                return
            units = rest
        middle = (len(units) + 1) // 2
        are_good = [await self._embed(half) for half in (units[:middle], units[middle:]) if half]
        if all(are_good) and refusal.item is None:
            self.max_items = min(self.max_items, middle)  # it was not about a text, but about their number

    async def _require_trust(self, refusal: UnitRejected) -> None:
        """Believe a refusal only of a provider that accepts something; stop the run otherwise.

        A wrong setting (a parameter the server does not know, other dimensions) is answered like a bad text, and
        would make a dead letter of every text there is. Costs one short request, and only while the run has seen
        nothing but refusals.
        """
        async with self.probing:
            if self.is_trusted:
                return
            try:
                _, checked = await self.sender.send([PROBE])
            except BatchRejected as same:
                raise _fatal(same) from refusal
            if checked.rejected:
                raise _fatal(refusal)
            self.is_trusted = True

    async def _require_others(self, failure: Unanswered, embedded_before: int) -> None:
        """Return where a failure is about its texts, because others are answered; stop the run otherwise."""
        if self.counters.embedded > embedded_before:
            return
        if isinstance(failure, NotEmbeddings) and not self.is_trusted:
            raise EmbeddingFatal(
                Reason.INVALID_REQUEST, f"{failure} Check the model's base_url: this is no embeddings endpoint."
            ) from failure
        if isinstance(failure, RateLimited):
            raise failure
        async with self.probing:
            try:
                await self.sender.send([PROBE], self.once)
            except (Unanswered, BatchRejected):
                raise failure from None

    async def _deliver(
        self, units: Sequence[Unit], vectors: NDArray[np.float32], rejections: Mapping[bytes, UnitRejected]
    ) -> None:
        self.finished.append((units, vectors, rejections))
        delivery = asyncio.create_task(self._hand_over())
        try:
            await asyncio.shield(delivery)
        except asyncio.CancelledError:
            # This answer is paid for: a run may stop, but not between an answer and its commit.
            await delivery
            raise

    async def _hand_over(self) -> None:
        """Hand everything that is finished to the sink at once: what came while it was busy shares a commit."""
        async with self.delivering:
            finished, self.finished = self.finished, []
            if self.is_broken or not finished:
                return
            units = [unit for some, _, _ in finished for unit in some]
            vectors = np.concatenate([some for _, some, _ in finished])
            rejections = {digest: error for _, _, some in finished for digest, error in some.items()}
            try:
                await self.sink(units, vectors, rejections)
            except BaseException:
                self.is_broken = True
                raise
            self.counters.embedded += len(units)
            self.counters.rejected.update(rejection.reason for rejection in rejections.values())
            if self.progress is not None:
                self.progress(self.counters)


async def _stream(units: Units) -> AsyncIterator[Unit]:
    if isinstance(units, AsyncIterable):
        async for unit in units:
            yield unit
    else:
        for unit in units:
            yield unit


def _unusable(reason: Reason) -> UnitRejected:
    return UnitRejected(reason, "The model's vector for this text has norm zero, or numbers that are not finite.")


def _fatal(refusal: UnitRejected) -> EmbeddingFatal:
    reason = Reason.INVALID_REQUEST if refusal.reason is Reason.CONTENT_REJECTED else refusal.reason
    return EmbeddingFatal(
        reason, f"The provider refuses even a harmless sentence, so check this model's settings. {refusal.detail}"
    )
