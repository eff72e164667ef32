"""What the engine learns while it runs: how many requests at once, how many texts in one, which texts are at fault."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from ingest_assets.embed.concurrency import Concurrency
from ingest_assets.embed.engine import PROBE, Unfinished
from ingest_assets.errors import EmbeddingFatal, Reason
from ingest_assets_tests import embedding_server as faults
from ingest_assets_tests.embedding_server import EmbeddingServer
from ingest_assets_tests.test_embed_engine import Kept, embed, unit, units

# Texts at fault


def test_a_text_that_the_error_names_costs_two_requests(embedding_server: EmbeddingServer) -> None:
    """It is asked alone once more, the others together: no halving."""
    source, kept = units(64), Kept()
    embedding_server.poison, embedding_server.names_poison = {source[37].text}, True
    counters = embed(embedding_server, source, kept, max_batch_items=64, max_concurrency=1)
    assert kept.reasons() == {source[37].text_sha256: Reason.CONTENT_REJECTED}
    assert kept.holds_exactly(item for item in source if item != source[37])
    # The batch, a harmless sentence to see that the provider accepts anything, the text, the others.
    assert counters.requests == 4


def test_a_server_that_names_the_wrong_text_costs_no_text(embedding_server: EmbeddingServer) -> None:
    """Some always name the first."""
    source, kept = units(16), Kept()
    bad = {source[9].text}

    def names_the_first(server: EmbeddingServer, request: faults.Received) -> faults.Reply:
        if bad.isdisjoint(request.texts):
            return server.answer(server.items(request))
        return faults.error(400, "The input was rejected", param="input[0]")(server, request)

    embedding_server.always = names_the_first
    embed(embedding_server, source, kept, max_batch_items=16)
    assert kept.reasons().keys() == {source[9].text_sha256}
    assert kept.holds_exactly(item for item in source if item != source[9])


def test_a_text_that_breaks_the_server_leaves_its_neighbours_alone(embedding_server: EmbeddingServer) -> None:
    """The run goes on and says at its end which texts got no answer, while others did."""
    source, kept = units(40), Kept()
    embedding_server.toxic = {source[3].text}
    with pytest.raises(Unfinished) as caught:
        embed(embedding_server, source, kept, max_concurrency=1)
    assert caught.value.units.keys() == {item.text_sha256 for item in source[:8]}
    assert kept.holds_exactly(source[8:]) and not kept.rejections


@pytest.mark.parametrize(("failed_runs", "together"), [(1, 16), (2, 1)])
def test_texts_that_failed_before_travel_with_few_others(
    embedding_server: EmbeddingServer, failed_runs: int, together: int
) -> None:
    """A sixteenth of a batch the second time, alone the third: then the one at fault stands alone."""
    source, kept = units(64), Kept()
    tried = [replace(item, failed_runs=failed_runs) for item in source[:32]]
    embed(embedding_server, [*tried, *source[32:]], kept, max_batch_items=256)
    sizes = Counter(len(request.texts) for request in embedding_server.requests)
    assert sizes == Counter({together: 32 // together}) + Counter({32: 1})
    assert kept.holds_exactly(source)


def test_a_toxic_text_without_company_is_told_from_a_server_that_is_down(embedding_server: EmbeddingServer) -> None:
    """A harmless sentence that is answered shows whose fault it is."""
    source = units(1)
    embedding_server.toxic = {source[0].text}
    with pytest.raises(Unfinished):
        embed(embedding_server, source, Kept())
    assert embedding_server.texts == [source[0].text] * 4 + [PROBE.text]


def test_an_address_that_answers_with_pages_is_a_wrong_setting(embedding_server: EmbeddingServer) -> None:
    """After as many requests as any broken answer gets, with the setting to correct."""
    embedding_server.always = faults.HTML
    kept = Kept()
    with pytest.raises(EmbeddingFatal, match="base_url") as caught:
        embed(embedding_server, units(8), kept)
    assert caught.value.reason is Reason.INVALID_REQUEST
    assert len(embedding_server.requests) == 4 and not kept.rejections


def test_a_size_the_server_does_not_take_is_asked_once(embedding_server: EmbeddingServer) -> None:
    """What halving finds holds for the rest of the run."""
    source, kept = units(400), Kept()
    embedding_server.max_items = 8
    counters = embed(embedding_server, source, kept, max_batch_items=32, max_concurrency=1)
    assert kept.holds_exactly(source)
    refused = [request for request in embedding_server.requests if len(request.texts) > 8]
    # 32, two of 16, and what was packed before the answer came.
    assert len(refused) <= 9
    assert counters.requests <= 400 // 8 + 12


# Requests at once


def test_a_rate_limit_halves_the_requests_at_once_and_success_brings_them_back() -> None:
    """One storm of refusals counts once; one more after as many answers as there are slots."""

    async def work() -> list[int]:
        concurrency = Concurrency(16)
        seen = []
        before = concurrency.cuts
        for _ in range(16):
            concurrency.rate_limited(before)
        seen.append(concurrency.allowed)
        concurrency.rate_limited(concurrency.cuts)
        seen.append(concurrency.allowed)
        for _ in range(4 + 5):
            await concurrency.answered()
        seen.append(concurrency.allowed)
        for _ in range(1000):
            await concurrency.answered()
        seen.append(concurrency.allowed)
        for _ in range(10):
            concurrency.rate_limited(concurrency.cuts)
        seen.append(concurrency.allowed)
        return seen

    assert asyncio.run(work()) == [8, 4, 6, 16, 1]


def test_nobody_gets_a_slot_that_was_cut() -> None:
    """Those who hold one finish; newcomers wait until there are fewer than allowed."""

    async def work() -> list[str]:
        concurrency, order = Concurrency(4), []
        for _ in range(4):
            await concurrency.acquire()
        concurrency.rate_limited(concurrency.cuts)

        async def newcomer() -> None:
            await concurrency.acquire()
            order.append("newcomer")

        waiting = asyncio.create_task(newcomer())
        for number in range(3):
            await asyncio.sleep(0)
            order.append(f"released {number}")
            await concurrency.release()
        await waiting
        return order

    assert asyncio.run(work()) == ["released 0", "released 1", "released 2", "newcomer"]


def test_answers_that_come_while_the_table_is_busy_share_a_commit(embedding_server: EmbeddingServer) -> None:
    """Models that take one text a request do not pay for one transaction a text."""
    kept = Kept(seconds=0.1)
    embed(embedding_server, units(64), kept, max_batch_items=1, max_concurrency=16)
    assert kept.holds_exactly(units(64))
    assert kept.calls < 64


# Lengths


def test_a_text_over_the_providers_own_limit_is_never_sent(embedding_server: EmbeddingServer) -> None:
    """Whatever the settings allow: proof by bytes first, then a bound."""
    long, short, kept = unit("word " * 3000, 3000), unit("short", 1), Kept()
    embed(embedding_server, [long, short], kept, max_input_tokens=2000)
    assert embedding_server.texts == ["short"]
    assert kept.reasons() == {long.text_sha256: Reason.OVER_LENGTH}
