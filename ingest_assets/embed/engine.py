"""Sends a stream of texts to a provider and hands every finished batch to a sink at once.

Here: concurrency, halving, trust and delivery. Not here: what a batch is (`batches.py`), sending one request
(`retrying.py`), which failure an answer is (the provider), what is queued and where vectors go
(`ingest_assets/embedding.py`).
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ingest_assets.embed import Provider
from ingest_assets.embed.batches import Batch, Packer
from ingest_assets.embed.failures import BatchRejected, Unanswered
from ingest_assets.embed.pacing import Pacing
from ingest_assets.embed.retrying import Counters, Sender
from ingest_assets.errors import EmbeddingFatal, Reason, UnitRejected
from ingest_assets.records import Unit
from ingest_assets.settings import ModelSettings

PROBE = Unit(b"", "The weather is fine today.", 6)  # no provider has a reason to refuse this one

Units = AsyncIterable[Unit] | Iterable[Unit]
Progress = Callable[[Counters], None]


class Sink(Protocol):
    """Where finished work goes. Called for one batch at a time; what it raises stops the run."""

    async def __call__(
        self, units: Sequence[Unit], vectors: NDArray[np.float32], rejections: Mapping[bytes, UnitRejected]
    ) -> None:
        """Keep vectors[i] for units[i], and a refusal for each text_sha256 in `rejections`; either may be empty."""


async def embed_units(
    units: Units,
    provider: Provider,
    settings: ModelSettings,
    sink: Sink,
    *,
    pacing: Pacing | None = None,
    progress: Progress | None = None,
    counters: Counters | None = None,
) -> Counters:
    """Embed every unit once; returns the counters (those passed in, which stay readable when this raises).

    At most `max_concurrency` requests are in flight, and two batches more are held. `progress` is called after each
    delivery. However a run ends, an answer that has arrived reaches the sink, unless the sink itself failed.

    Raises:
        EmbeddingFatal: nothing can be sent until somebody acts; requests in flight are dropped.
        EmbeddingTransient: some texts got no answer. Where others did meanwhile, the run went on and this comes at
            its end; otherwise it stopped at once.
    """
    counters = counters if counters is not None else Counters()
    run = _Run(provider, settings.max_concurrency, sink, pacing or Pacing(), progress, counters)
    await run.execute(_packed(units, settings, provider.token_ratio))
    return counters


async def _packed(units: Units, settings: ModelSettings, token_ratio: float) -> AsyncIterator[Batch]:
    packer = Packer(settings.max_batch_items, settings.max_batch_tokens, settings.max_input_tokens, token_ratio)
    async for unit in _stream(units):
        if (full := packer.add(unit)) is not None:
            yield full
    if (rest := packer.flush()) is not None:
        yield rest


async def _stream(units: Units) -> AsyncIterator[Unit]:
    if isinstance(units, AsyncIterable):
        async for unit in units:
            yield unit
    else:
        for unit in units:
            yield unit


class _Run:
    def __init__(
        self,
        provider: Provider,
        max_concurrency: int,
        sink: Sink,
        pacing: Pacing,
        progress: Progress | None,
        counters: Counters,
    ) -> None:
        self.sender = Sender(provider, pacing, counters)
        self.no_vectors = np.empty((0, provider.dimensions), dtype=np.float32)
        self.sink, self.progress, self.counters = sink, progress, counters
        self.slots = asyncio.Semaphore(max_concurrency)
        self.delivering = asyncio.Lock()
        self.probing = asyncio.Lock()
        self.is_trusted = False  # the provider has embedded something: its refusals are about the texts
        self.is_broken = False  # the sink failed: nothing more is handed to it
        self.unanswered: list[Unanswered] = []

    async def execute(self, batches: AsyncIterator[Batch]) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                async for batch in batches:
                    await self.slots.acquire()
                    group.create_task(self._work(batch))
        except BaseExceptionGroup as failures:
            first = failures.exceptions[0]
            raise first from first.__cause__
        if self.unanswered:
            raise self.unanswered[0]

    async def _work(self, batch: Batch) -> None:
        embedded_before = self.counters.embedded
        try:
            if batch.rejections:
                await self._deliver((), self.no_vectors, batch.rejections)
            if batch.units:
                await self._embed(batch.units)
        except Unanswered as failure:
            if self.counters.embedded == embedded_before:
                raise
            self.unanswered.append(failure)
        finally:
            self.slots.release()

    async def _embed(self, units: Sequence[Unit]) -> None:
        """Embed and deliver these units; a refused batch is halved until each refusal stands alone."""
        try:
            vectors, checked = await self.sender.send(units)
        except BatchRejected as refusal:
            await self._require_trust(refusal)
            await self._split(units, refusal)
            return
        if checked.accepted.size:
            self.is_trusted = True
        else:
            await self._require_trust(_unusable(checked.rejected[0]))
        rejections = {units[row].text_sha256: _unusable(reason) for row, reason in checked.rejected.items()}
        await self._deliver([units[row] for row in checked.accepted], vectors[checked.accepted], rejections)

    async def _split(self, units: Sequence[Unit], refusal: BatchRejected) -> None:
        if len(units) == 1:
            rejection = UnitRejected(refusal.reason, refusal.detail)
            await self._deliver((), self.no_vectors, {units[0].text_sha256: rejection})
            return
        middle = len(units) // 2
        await self._embed(units[:middle])
        await self._embed(units[middle:])

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

    async def _deliver(
        self, units: Sequence[Unit], vectors: NDArray[np.float32], rejections: Mapping[bytes, UnitRejected]
    ) -> None:
        delivery = asyncio.create_task(self._hand_over(units, vectors, rejections))
        try:
            await asyncio.shield(delivery)
        except asyncio.CancelledError:
            # This answer is paid for: a run may stop, but not between an answer and its commit.
            await delivery
            raise

    async def _hand_over(
        self, units: Sequence[Unit], vectors: NDArray[np.float32], rejections: Mapping[bytes, UnitRejected]
    ) -> None:
        async with self.delivering:
            if self.is_broken:
                return
            try:
                await self.sink(units, vectors, rejections)
            except BaseException:
                self.is_broken = True
                raise
            self.counters.embedded += len(units)
            self.counters.rejected.update(rejection.reason for rejection in rejections.values())
            if self.progress is not None:
                self.progress(self.counters)


def _unusable(reason: Reason) -> UnitRejected:
    return UnitRejected(reason, "The model's vector for this text has norm zero, or numbers that are not finite.")


def _fatal(refusal: UnitRejected) -> EmbeddingFatal:
    reason = Reason.INVALID_REQUEST if refusal.reason is Reason.CONTENT_REJECTED else refusal.reason
    return EmbeddingFatal(
        reason, f"The provider refuses even a harmless sentence, so check this model's settings. {refusal.detail}"
    )
