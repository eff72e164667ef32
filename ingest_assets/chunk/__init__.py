"""Chunk: cuts a text into spans whose boundaries hang on content, pure and the same on every machine.

What does not belong here: embedding models and their limits, ids, and any reading or writing.
A change that moves a single cut needs a new `CHUNKER_VERSION`: it makes every document chunked again.
"""

from collections.abc import Iterator, Sequence

from ingest_assets.chunk.anchors import Cut, Limits, cut_chunks
from ingest_assets.chunk.overlap import prefix_start
from ingest_assets.chunk.places import Places
from ingest_assets.chunk.tokens import count_tokens
from ingest_assets.chunk.units import Size, find_units
from ingest_assets.records import Extracted, Heading, Span
from ingest_assets.settings import ChunkerSettings

__all__ = ["CHUNKER_VERSION", "chunk", "chunker_version", "count_tokens", "split_text"]

CHUNKER_VERSION = "anchored-1"


def chunker_version(settings: ChunkerSettings) -> str:
    """Return the label of these rules at these sizes: documents chunked under another one are chunked again."""
    return f"{CHUNKER_VERSION}/{settings.min_tokens}-{settings.max_tokens}/{settings.overlap_tokens}"


def chunk(extracted: Extracted, settings: ChunkerSettings) -> list[Span]:
    """Return the chunks of a text, in order; a text without a visible character has none.

    No chunk has more than `max_tokens`, overlap included, and none is blank. Without overlap the texts joined are the
    whole text, but for runs of blanks too long for any chunk. No cut is inside a grapheme cluster that fits into a
    chunk. With overlap a span's text begins with what precedes `char_start`; `char_start` and `char_end`, pages and
    heading are those of its own text.
    """
    text = extracted.text
    places = Places(extracted.pages, extracted.headings)
    most = settings.max_tokens - settings.overlap_tokens
    fewest = min(settings.min_tokens, most // 2)
    cuts = split_text(text, max_tokens=most, min_tokens=fewest, headings=extracted.headings)
    spans = []
    previous_start = 0
    for index, cut in enumerate(cuts):
        begins = cut.start
        if index and settings.overlap_tokens:
            begins = prefix_start(text, previous_start, cut, overlap=settings.overlap_tokens, most=settings.max_tokens)
        spans.append(_span(index, text, begins, cut, places))
        previous_start = cut.start
    return spans


def split_text(text: str, *, max_tokens: int, min_tokens: int, headings: Sequence[Heading] = ()) -> Iterator[Cut]:
    """Yield `(start, end, tokens)` of each chunk of a text, without overlap.

    `min_tokens` is at most half of `max_tokens`.
    """
    size = Size(max((max_tokens - min_tokens) // 3, 1), max_tokens)
    return cut_chunks(text, find_units(text, headings, size), Limits(min_tokens, max_tokens))


def _span(index: int, text: str, begins: int, cut: Cut, places: Places) -> Span:
    own = text[cut.start : cut.end]
    first = cut.start + len(own) - len(own.lstrip())
    last = cut.start + len(own.rstrip()) - 1
    whole = own if begins == cut.start else text[begins : cut.end]
    return Span(
        index=index,
        text=whole,
        token_count=cut.tokens if begins == cut.start else count_tokens(whole),
        char_start=cut.start,
        char_end=cut.end,
        page_start=places.page(first),
        page_end=places.page(last),
        heading=places.heading(first),
    )
