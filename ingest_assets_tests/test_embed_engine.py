"""What the engine sends, waits for, gives up on and hands over; the real client against a real server."""

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ingest_assets.embed import open_provider
from ingest_assets.embed.batches import Shape
from ingest_assets.embed.engine import PROBE, Engine, Units
from ingest_assets.embed.pacing import Pacing
from ingest_assets.embed.retrying import Counters
from ingest_assets.errors import EmbeddingFatal, EmbeddingTransient, Reason, UnitRejected
from ingest_assets.records import Unit
from ingest_assets.settings import ModelSettings
from ingest_assets_tests import embedding_server as faults
from ingest_assets_tests.embedding_server import EmbeddingServer, vector_of


def units(count: int, prefix: str = "text number") -> list[Unit]:
    """Return distinct units of three words."""
    return [unit(f"{prefix} {index}") for index in range(count)]


def unit(text: str, token_count: int = 3) -> Unit:
    """Return a unit whose hash is its text's."""
    return Unit(hashlib.sha256(text.encode()).digest(), text, token_count)


class Kept:
    """A sink that remembers, and notices when it is called twice at once."""

    def __init__(self, *, fails_at: int | None = None, seconds: float = 0.0) -> None:
        self.vectors: dict[bytes, NDArray[np.float32]] = {}
        self.rejections: dict[bytes, UnitRejected] = {}
        self.calls = 0
        self.has_begun = threading.Event()
        self._fails_at, self._seconds, self._is_busy = fails_at, seconds, False

    async def __call__(
        self, units: Sequence[Unit], vectors: NDArray[np.float32], rejections: Mapping[bytes, UnitRejected]
    ) -> None:
        """Keep what is handed over, as a table would."""
        assert not self._is_busy
        self._is_busy = True
        self.has_begun.set()
        await asyncio.sleep(self._seconds)
        self._is_busy = False
        self.calls += 1
        if self.calls == self._fails_at:
            raise OSError("the disk is full")
        assert vectors.shape == (len(units), 8) and vectors.dtype == np.float32
        for item, vector in zip(units, vectors, strict=True):
            assert item.text_sha256 not in self.vectors
            self.vectors[item.text_sha256] = vector
        self.rejections.update(rejections)

    def reasons(self) -> dict[bytes, Reason]:
        """Return why each refused text was refused."""
        return {digest: rejection.reason for digest, rejection in self.rejections.items()}

    def holds_exactly(self, expected: Iterable[Unit]) -> bool:
        """Tell whether these texts, and no others, have the right vectors."""
        wanted = {item.text_sha256: vector_of(item.text, 8) for item in expected}
        return wanted.keys() == self.vectors.keys() and all(
            np.array_equal(self.vectors[digest], vector) for digest, vector in wanted.items()
        )


class Waits(list[float]):
    """A clock that only writes down how long it was asked to wait."""

    def pacing(self) -> Pacing:
        """Return the default policies with full waits that take no time."""
        return Pacing(sleep=self._sleep, chance=lambda: 1.0)

    async def _sleep(self, seconds: float) -> None:
        self.append(seconds)


def embed(
    server: EmbeddingServer,
    source: Units,
    kept: Kept,
    *,
    pacing: Pacing | None = None,
    counters: Counters | None = None,
    progress: Any = None,
    **changes: Any,
) -> Counters:
    """Run the engine with the OpenAI client against the server."""
    given = {"version": "v1", "provider": "openai", "model": "m", "dimensions": 8, "base_url": server.url}
    model = ModelSettings(**{**given, "max_batch_items": 8, "max_concurrency": 4, **changes})

    async def run() -> Counters:
        provider = open_provider(model)
        try:
            shape = Shape.of(model, provider)
            engine = Engine(provider, shape, model.max_concurrency, pacing=pacing or Waits().pacing())
            return await engine.embed(source, kept, counters=counters, progress=progress)
        finally:
            await provider.close()

    return asyncio.run(run())


# The ordinary run


def test_every_text_gets_its_own_vector_and_is_sent_once(embedding_server: EmbeddingServer) -> None:
    """The plain case, with the counters an operator sees."""
    source, kept, seen = units(100), Kept(), []
    counters = embed(embedding_server, source, kept, progress=lambda now: seen.append(now.embedded))
    assert kept.holds_exactly(source)
    assert sorted(embedding_server.texts) == sorted(item.text for item in source)
    assert counters == Counters(requests=13, items=100, billed_tokens=300, embedded=100)
    assert seen == sorted(seen) and seen[-1] == 100


def test_no_units_send_nothing(embedding_server: EmbeddingServer) -> None:
    """An identical re-run costs nothing."""
    assert embed(embedding_server, [], Kept()) == Counters()
    assert not embedding_server.requests


def test_units_may_arrive_asynchronously(embedding_server: EmbeddingServer) -> None:
    """The queue is read page by page while requests are in flight."""

    async def pages() -> AsyncIterator[Unit]:
        for item in units(30):
            await asyncio.sleep(0)
            yield item

    kept = Kept()
    embed(embedding_server, pages(), kept)
    assert kept.holds_exactly(units(30))


def test_requests_are_concurrent_and_bounded(embedding_server: EmbeddingServer) -> None:
    """`max_concurrency` is reached and never passed."""
    together = threading.Barrier(4, timeout=5)

    def waits_for_the_others(server: EmbeddingServer, request: faults.Received) -> faults.Reply:
        together.wait()
        return server.answer(server.items(request))

    embedding_server.next(*[waits_for_the_others] * 4)
    embed(embedding_server, units(200), Kept(), max_concurrency=4)
    assert embedding_server.most_at_once == 4


def test_no_more_is_read_than_is_in_flight(embedding_server: EmbeddingServer) -> None:
    """A slow sink holds the source back: memory does not grow with the corpus."""
    kept, read, most = Kept(seconds=0.001), 0, 0

    def source() -> Iterator[Unit]:
        nonlocal read, most
        for item in units(400):
            read += 1
            most = max(most, read - len(kept.vectors))
            yield item

    embed(embedding_server, source(), kept, max_concurrency=3)
    # Three batches in flight, one waiting for a slot, one being packed and the unit that closes it.
    assert most <= 5 * 8 + 1


def test_each_batch_is_handed_over_as_soon_as_it_is_finished(embedding_server: EmbeddingServer) -> None:
    """A killed process loses at most what was in flight."""
    kept, embedded_when_read = Kept(), []

    def source() -> Iterator[Unit]:
        for item in units(80):
            embedded_when_read.append(len(kept.vectors))
            yield item

    embed(embedding_server, source(), kept, max_concurrency=1)
    assert embedded_when_read[-1] >= 48


# Refusals


def test_a_poison_text_is_found_and_its_neighbours_are_embedded(embedding_server: EmbeddingServer) -> None:
    """The batch is halved down to the item; the item gets a reason that does not quote it."""
    source, kept = units(64), Kept()
    bad = {source[5].text, source[40].text}
    embedding_server.poison = bad
    counters = embed(embedding_server, source, kept, max_batch_items=32)
    assert kept.holds_exactly(item for item in source if item.text not in bad)
    assert kept.reasons() == {unit(text).text_sha256: Reason.CONTENT_REJECTED for text in bad}
    assert not any(text in rejection.detail for text in bad for rejection in kept.rejections.values())
    assert counters.rejected == {Reason.CONTENT_REJECTED: 2}
    assert counters.requests <= 2 * (1 + 2 * 5) + 1


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bad=st.sets(st.integers(0, 30)), size=st.integers(1, 31))
def test_any_poison_texts_anywhere_reject_exactly_themselves(
    embedding_server: EmbeddingServer, bad: set[int], size: int
) -> None:
    """Also when every text of a batch, or of the run, is one."""
    source, kept = units(31), Kept()
    embedding_server.poison = {source[index].text for index in bad}
    embed(embedding_server, source, kept, max_batch_items=size)
    assert kept.holds_exactly(item for index, item in enumerate(source) if index not in bad)
    assert kept.reasons().keys() == {source[index].text_sha256 for index in bad}


def test_a_lone_poison_text_is_rejected_after_a_harmless_one_passes(embedding_server: EmbeddingServer) -> None:
    """A run of one bad text must not pass for a provider that refuses everything."""
    source, kept = units(1), Kept()
    embedding_server.poison = {source[0].text}
    embed(embedding_server, source, kept)
    assert kept.reasons() == {source[0].text_sha256: Reason.CONTENT_REJECTED}
    assert embedding_server.texts == [source[0].text, PROBE.text]


@pytest.mark.parametrize(
    ("rule", "value", "reason"),
    [
        ("refused_parameters", {"encoding_format"}, Reason.INVALID_REQUEST),
        ("dimensions", 4, Reason.DIMENSION_MISMATCH),
        ("zero", {PROBE.text, *(item.text for item in units(64))}, Reason.INVALID_VECTOR),
    ],
)
def test_a_wrong_setting_stops_the_run_and_rejects_nothing(
    embedding_server: EmbeddingServer, rule: str, value: Any, reason: Reason
) -> None:
    """What even a harmless sentence gets is not the texts' fault: no corpus of dead letters."""
    setattr(embedding_server, rule, value)
    kept = Kept()
    with pytest.raises(EmbeddingFatal) as caught:
        embed(embedding_server, units(64), kept)
    assert caught.value.reason is reason
    assert not kept.vectors and not kept.rejections
    assert len(embedding_server.requests) <= 6


def test_a_smaller_limit_than_declared_costs_requests_and_no_texts(embedding_server: EmbeddingServer) -> None:
    """Scenario C03: halving finds a size the server takes, by items or by tokens."""
    for rule, value in (("max_items", 3), ("max_tokens", 10)):
        setattr(embedding_server, rule, value)
        kept = Kept()
        embed(embedding_server, units(40), kept)
        assert kept.holds_exactly(units(40))


def test_a_text_the_server_finds_too_long_is_over_length(embedding_server: EmbeddingServer) -> None:
    """The model's tokenizer has the last word."""
    embedding_server.max_input_tokens = 50
    long, kept = unit("word " * 60, 45), Kept()
    embed(embedding_server, [*units(9), long], kept)
    assert kept.reasons() == {long.text_sha256: Reason.OVER_LENGTH}
    assert kept.holds_exactly(units(9))


def test_what_is_never_sent_reaches_the_sink_with_its_reason(embedding_server: EmbeddingServer) -> None:
    """Scenarios C03 and C05: over-long and blank texts."""
    long, blank, kept = unit("x" * 999, 600), unit(" \n\u200b", 1), Kept()
    counters = embed(embedding_server, [long, *units(3), blank], kept, max_input_tokens=512)
    assert embedding_server.texts == [item.text for item in units(3)]
    assert kept.reasons() == {long.text_sha256: Reason.OVER_LENGTH, blank.text_sha256: Reason.CONTENT_REJECTED}
    assert counters.rejected == {Reason.OVER_LENGTH: 1, Reason.CONTENT_REJECTED: 1}


def test_vectors_of_nothing_or_not_finite_are_rejected_one_by_one(embedding_server: EmbeddingServer) -> None:
    """No filler vector, and no neighbour lost."""
    source, kept = units(20), Kept()
    embedding_server.zero, embedding_server.nan = {source[3].text}, {source[11].text}
    embed(embedding_server, source, kept)
    assert kept.reasons() == dict.fromkeys((source[3].text_sha256, source[11].text_sha256), Reason.INVALID_VECTOR)
    assert kept.holds_exactly(item for index, item in enumerate(source) if index not in (3, 11))


# Retries


def test_a_rate_limit_is_waited_for_as_the_server_says(embedding_server: EmbeddingServer) -> None:
    """Scenario C02: with Retry-After that number, without it the policy's own."""
    embedding_server.next(faults.rate_limited("7"), faults.rate_limited(), faults.rate_limited("soon"))
    waits, kept = Waits(), Kept()
    counters = embed(embedding_server, units(8), kept, pacing=waits.pacing())
    assert waits == [8.0, 8.0, 16.0]
    assert counters.rate_limited_responses == 3 and counters.other_failures == 0
    assert kept.holds_exactly(units(8))


def test_the_sixth_rate_limit_ends_the_run(embedding_server: EmbeddingServer) -> None:
    """Six requests, then it comes back another time."""
    embedding_server.always = faults.rate_limited()
    waits = Waits()
    with pytest.raises(EmbeddingTransient):
        embed(embedding_server, units(8), Kept(), pacing=waits.pacing())
    assert len(embedding_server.requests) == 6
    assert waits == [4.0, 8.0, 16.0, 32.0, 64.0]


def test_a_day_long_retry_after_ends_the_run_at_once(embedding_server: EmbeddingServer) -> None:
    """Scenario C02: nobody sleeps a day inside a run."""
    embedding_server.always = faults.rate_limited(86_400)
    waits = Waits()
    with pytest.raises(EmbeddingTransient):
        embed(embedding_server, units(8), Kept(), pacing=waits.pacing())
    assert len(embedding_server.requests) == 1 and not waits


@pytest.mark.parametrize(
    "fault", [faults.error(500), faults.reset, faults.HTML, faults.scripted(200, {"error": {"code": 502}})]
)
def test_trouble_that_passes_costs_a_retry_and_no_text(embedding_server: EmbeddingServer, fault: faults.Fault) -> None:
    """Three failures are survived; the fourth would end it."""
    embedding_server.next(fault, fault, fault)
    waits, kept = Waits(), Kept()
    counters = embed(embedding_server, units(8), kept, pacing=waits.pacing())
    assert waits == [2.0, 4.0, 8.0]
    assert kept.holds_exactly(units(8))
    assert counters.other_failures == 3 and counters.items == 32


def test_a_server_that_is_down_ends_the_run_as_transient(embedding_server: EmbeddingServer) -> None:
    """Nothing is dead-lettered, and not every batch of the corpus is tried."""
    embedding_server.always = faults.error(503)
    kept = Kept()
    with pytest.raises(EmbeddingTransient):
        embed(embedding_server, units(800), kept, max_concurrency=2)
    assert not kept.vectors and not kept.rejections
    assert len(embedding_server.requests) <= 2 * 4 + 1  # and one harmless sentence: is it the texts, or the server?


def test_texts_without_an_answer_do_not_hold_up_the_others(embedding_server: EmbeddingServer) -> None:
    """While others succeed the run goes on, and says at its end that some are left."""
    stuck = {item.text for item in units(8)}

    def fails_for_some(server: EmbeddingServer, request: faults.Received) -> faults.Reply:
        if stuck & set(request.texts):
            return faults.error(500)(server, request)
        return server.answer(server.items(request))

    embedding_server.always = fails_for_some
    kept, counters = Kept(), Counters()
    with pytest.raises(EmbeddingTransient, match="500"):
        embed(embedding_server, units(200), kept, counters=counters, max_concurrency=2)
    assert kept.holds_exactly(units(200)[8:])
    assert not kept.rejections and counters.embedded == 192


def test_an_answer_that_fits_the_second_time_is_taken(embedding_server: EmbeddingServer) -> None:
    """Scenario C06: short, doubled and reordered answers."""
    embedding_server.next(faults.SHORT, faults.DUPLICATED, faults.REORDERED)
    kept = Kept()
    counters = embed(embedding_server, units(8), kept)
    assert kept.holds_exactly(units(8))
    assert counters.other_failures == 2


def test_answers_that_never_fit_store_nothing(embedding_server: EmbeddingServer) -> None:
    """Scenario C06: refused, asked again, then the run fails; no text is blamed."""
    embedding_server.always = faults.SHORT
    kept = Kept()
    with pytest.raises(EmbeddingFatal) as caught:
        embed(embedding_server, units(8), kept)
    assert caught.value.reason is Reason.INVALID_VECTOR
    assert not kept.vectors and not kept.rejections


def test_a_text_that_is_always_left_out_of_answers_is_found(embedding_server: EmbeddingServer) -> None:
    """Its neighbours do not wait for it for ever."""
    source, kept = units(8), Kept()

    def leaves_out(server: EmbeddingServer, request: faults.Received) -> faults.Reply:
        return server.answer(
            [i for i, text in zip(server.items(request), request.texts, strict=True) if text != source[2].text]
        )

    embedding_server.always = leaves_out
    embed(embedding_server, source, kept)
    assert kept.reasons() == {source[2].text_sha256: Reason.INVALID_VECTOR}
    assert kept.holds_exactly(item for index, item in enumerate(source) if index != 2)


# Stopping


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (faults.INSUFFICIENT_QUOTA, Reason.QUOTA_EXHAUSTED),
        (faults.error(401), Reason.UNAUTHENTICATED),
        (faults.error(404, code="model_not_found"), Reason.INVALID_REQUEST),
    ],
)
def test_a_fatal_answer_stops_everything_and_keeps_what_was_done(
    embedding_server: EmbeddingServer, fault: faults.Fault, reason: Reason
) -> None:
    """Scenario C01: one request, nothing dead-lettered, the work is resumable."""
    kept = Kept()

    def ends_in_the_middle(server: EmbeddingServer, request: faults.Received) -> faults.Reply:
        has_started = len(server.requests) > 5
        return fault(server, request) if has_started else server.answer(server.items(request))

    embedding_server.always = ends_in_the_middle
    with pytest.raises(EmbeddingFatal) as caught:
        embed(embedding_server, units(800), kept, max_concurrency=2)
    assert caught.value.reason is reason
    assert not kept.rejections
    assert len(kept.vectors) in (4 * 8, 5 * 8)  # the other request may have been dropped in flight
    assert len(embedding_server.requests) <= 5 + 2


def test_an_answer_that_has_arrived_is_kept_when_the_run_stops(embedding_server: EmbeddingServer) -> None:
    """It is paid for: the sink finishes before the error is raised."""
    kept = Kept(seconds=0.05)

    def fails_meanwhile(server: EmbeddingServer, request: faults.Received) -> faults.Reply:
        if "text number 8" not in request.texts:
            return server.answer(server.items(request))
        assert kept.has_begun.wait(5)
        return faults.error(401)(server, request)

    embedding_server.always = fails_meanwhile
    with pytest.raises(EmbeddingFatal):
        embed(embedding_server, units(16), kept)
    assert kept.holds_exactly(units(8))


def test_a_failing_sink_stops_the_run_with_its_own_error(embedding_server: EmbeddingServer) -> None:
    """It is not asked again, and its error is not wrapped."""
    kept, counters = Kept(fails_at=3), Counters()
    with pytest.raises(OSError, match="disk is full"):
        embed(embedding_server, units(800), kept, counters=counters)
    assert kept.calls == 3
    assert 16 <= counters.embedded == len(kept.vectors) < 800


def test_a_failing_source_stops_the_run_with_its_own_error(embedding_server: EmbeddingServer) -> None:
    """The database going away while the queue is read looks like what it is."""

    def source() -> Iterator[Unit]:
        yield from units(20)
        raise ConnectionError("the server closed the connection")

    with pytest.raises(ConnectionError):
        embed(embedding_server, source(), Kept())


def test_a_cancelled_run_ends_after_the_delivery_in_progress(embedding_server: EmbeddingServer) -> None:
    """Ctrl-C does not tear a commit in two."""
    kept = Kept(seconds=0.05)
    model = ModelSettings(version="v1", provider="openai", model="m", dimensions=8, base_url=embedding_server.url)

    async def run() -> None:
        provider = open_provider(model)
        engine = Engine(provider, Shape.of(model, provider), model.max_concurrency)
        running = asyncio.create_task(engine.embed(units(8), kept))
        assert await asyncio.to_thread(kept.has_begun.wait, 5)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await provider.close()

    asyncio.run(run())
    assert kept.holds_exactly(units(8))
