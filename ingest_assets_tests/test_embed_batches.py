"""What travels together, and what never travels."""

import hashlib
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from ingest_assets.embed.batches import Shape, batches
from ingest_assets.errors import Reason
from ingest_assets.records import Unit


def unit(text: str, token_count: int = 1) -> Unit:
    """Return a unit whose hash is its text's."""
    return Unit(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest(), text, token_count)


def numbered(count: int, token_count: int, characters: int = 2000) -> Iterator[Unit]:
    """Return distinct units of one size."""
    return (unit(f"{number:08d}" + "x" * characters, token_count) for number in range(count))


UNITS = st.lists(
    st.tuples(st.text(st.characters(codec="utf-8"), max_size=40), st.integers(1, 60)),
    max_size=60,
    unique_by=lambda pair: pair[0],
).map(lambda pairs: [unit(text, count) for text, count in pairs])


@given(
    units=UNITS,
    max_items=st.integers(1, 9),
    max_tokens=st.integers(1, 90),
    max_input_tokens=st.integers(1, 60),
    ratio=st.sampled_from([1.0, 1.25, 3.0]),
)
def test_every_unit_comes_out_once_and_in_order_within_all_limits(
    units: list[Unit], max_items: int, max_tokens: int, max_input_tokens: int, ratio: float
) -> None:
    """Nothing is lost, doubled or moved, whatever the limits."""
    packed = list(
        batches(
            units,
            Shape(max_items=max_items, max_tokens=max_tokens, max_input_tokens=max_input_tokens, token_ratio=ratio),
        )
    )
    sent = [item for batch in packed for item in batch.units]
    refused = {digest for batch in packed for digest in batch.rejections}
    assert sent == [item for item in units if item.text_sha256 not in refused]
    assert len(sent) + len(refused) == len(units)
    for batch in packed:
        bounds = [min(len(item.text.encode()), item.token_count * ratio) for item in batch.units]
        assert len(batch.units) <= max_items and len(batch.rejections) <= max_items
        assert sum(bounds) <= max_tokens
        assert all(bound <= max_input_tokens for bound in bounds)


def test_five_thousand_chunks_pass_no_providers_limit() -> None:
    """Scenario C03: OpenAI's 2,048 items and 300,000 tokens, TEI's 32 items, Titan's single text."""
    for items, tokens in ((2048, 300_000), (32, 1_000_000), (96, 1_000_000), (1, 8192)):
        packed = list(batches(numbered(5000, 400), Shape(max_items=items, max_tokens=tokens, max_input_tokens=8191)))
        assert sum(len(batch.units) for batch in packed) == 5000
        assert max(len(batch.units) for batch in packed) == min(items, tokens // 400)


def test_batches_are_made_lazily() -> None:
    """The first batch is there before the fourth unit is read."""
    read = []

    def source() -> Iterator[Unit]:
        for item in numbered(100, 10):
            read.append(item)
            yield item

    first = next(batches(source(), Shape(max_items=2, max_tokens=1000, max_input_tokens=100)))
    assert len(first.units) == 2
    assert len(read) == 3


def test_a_text_with_few_bytes_fits_whatever_its_count_says() -> None:
    """A text has at most as many tokens as UTF-8 bytes: a free proof."""
    (batch,) = batches([unit("short", 9999)], Shape(max_items=9, max_tokens=100, max_input_tokens=5))
    assert len(batch.units) == 1


def test_an_over_long_text_is_refused_and_its_neighbours_travel() -> None:
    """It is a dead letter, never a truncated vector, and the detail says what to change."""
    long = unit("x" * 5000, 600)
    neighbours = [unit("before", 2), unit("after", 2)]
    (batch,) = batches(
        [neighbours[0], long, neighbours[1]], Shape(max_items=9, max_tokens=10_000, max_input_tokens=512)
    )
    assert list(batch.units) == neighbours
    assert batch.rejections[long.text_sha256].reason is Reason.OVER_LENGTH
    assert "chunker.max_tokens to 512" in batch.rejections[long.text_sha256].detail


def test_a_foreign_tokenizer_narrows_the_limit() -> None:
    """450 tokens of cl100k may be 563 in another tokenizer, more than 512."""
    for ratio, reasons in ((1.0, []), (1.25, [Reason.OVER_LENGTH])):
        (batch,) = batches(
            numbered(1, 450), Shape(max_items=9, max_tokens=10_000, max_input_tokens=512, token_ratio=ratio)
        )
        assert [rejection.reason for rejection in batch.rejections.values()] == reasons


def test_a_text_over_the_tokens_of_a_whole_request_is_refused() -> None:
    """A request with this text alone would already pass the limit."""
    (batch,) = batches(numbered(1, 400), Shape(max_items=9, max_tokens=300, max_input_tokens=8191))
    assert not batch.units and len(batch.rejections) == 1


def test_blank_texts_are_never_sent() -> None:
    """Scenario C05: blanks and invisible characters alone make a server refuse the whole request."""
    blanks = ["", "\n\n\n", "   ", "\u200b", "\ufeff", "\u00ad\u2028"]
    (batch,) = batches(map(unit, [*blanks, "text"]), Shape(max_items=9, max_tokens=100, max_input_tokens=100))
    assert [item.text for item in batch.units] == ["text"]
    assert {rejection.reason for rejection in batch.rejections.values()} == {Reason.CONTENT_REJECTED}


def test_a_stream_of_refusals_is_handed_on_in_pieces() -> None:
    """A corpus of nothing but refused texts does not pile up in memory."""
    packed = list(batches(numbered(25, 900), Shape(max_items=10, max_tokens=1000, max_input_tokens=512)))
    assert [len(batch.rejections) for batch in packed] == [10, 10, 5]
