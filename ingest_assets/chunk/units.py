"""The smallest parts of a text that are ever moved as a whole, each with the strength of the gap behind it.

What does not belong here: the choice of the gaps that become ends of chunks.
A part is cut finer only while it is large (see `find_units`): gaps inside a small one would never be chosen, because
its own end is always in reach and at least as strong.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from typing import NamedTuple

from ingest_assets.chunk import cuts
from ingest_assets.chunk.graphemes import graphemes
from ingest_assets.chunk.tokens import count_tokens
from ingest_assets.records import Heading

# Strength of a gap. A surpassed gap loses one level (see `anchors`), so neighbours in this list may replace each other.
WEAKEST = 0  # would part a heading from its text, or blanks from the text before them
PIECE, WORDS, SENTENCE, LINE, PARAGRAPH = 2, 4, 6, 7, 8
END = 10  # of the text
HEADING = 24  # of a heading of level n it is HEADING - n: an outer one is stronger, the innermost still beats END
_DEEPEST_LEVEL = 12
_CHARACTERS_PER_TOKEN = 8  # a part with more than this on average is cut finer without being counted

Cut = Callable[[str], Iterator[int]]
_FINER: tuple[tuple[Cut, int], ...] = (
    (cuts.lines, LINE), (cuts.sentences, SENTENCE), (cuts.words, WORDS), (cuts.pieces, PIECE)
)  # fmt: skip


class Unit(NamedTuple):
    """One part of the text; it starts where the one before it ends."""

    end: int
    tokens: int  # counted alone: together they are hardly ever more than the tokens of the joined text
    strength: int  # of the gap at `end`


class Size(NamedTuple):
    """How large a unit may be, in tokens."""

    fine: int  # what has more is cut finer,
    largest: int  # except that one grapheme cluster may have so many


def find_units(text: str, headings: Sequence[Heading], size: Size) -> Iterator[Unit]:
    """Yield the units of a whole text, in order and without holes.

    A heading counts where it starts a line. Blanks belong to the unit before them, those at the start to the first;
    only a run of blanks too long for that becomes units of its own.
    """
    strengths = _heading_strengths(text, headings)
    start = 0
    for end, strength in _blocks(text, strengths):
        block = text[start:end]
        found = _refined(block, start, strength, size, 0)
        yield from _bound_to_text(found, start + next(cuts.lines(block), len(block))) if start in strengths else found
        start = end


def _bound_to_text(found: Iterable[Unit], title_end: int) -> Iterator[Unit]:
    """Yield the units of a block that starts with a title, the gap behind the title made the weakest."""
    for unit in found:
        is_title = unit.end == title_end and unit.strength != END
        yield unit._replace(strength=WEAKEST) if is_title else unit


def _heading_strengths(text: str, headings: Iterable[Heading]) -> Mapping[int, int]:
    """Return the strength of the gap at each position where a heading starts a line."""
    strengths: dict[int, int] = {}
    for heading in headings:
        at = heading.char_start
        if 0 <= at < len(text) and (at == 0 or text[at - 1] in "\n\r\v\f\x85\u2028\u2029") and text[at] != "\n":
            strengths[at] = max(strengths.get(at, 0), HEADING - min(max(heading.level, 1), _DEEPEST_LEVEL))
    return strengths


def _blocks(text: str, strengths: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Yield end and strength of everything between two headings or blank lines."""
    last = len(text.rstrip())
    first = len(text) - len(text.lstrip())
    inside = (at for at in strengths if first < at < last)
    previous = first
    for at in merge(cuts.paragraphs(text, first, last), sorted(inside)):
        if at > previous:
            yield at, strengths.get(at, PARAGRAPH)
            previous = at
    yield len(text), END


def _refined(part: str, start: int, strength: int, size: Size, depth: int) -> Iterable[Unit]:
    """Return the part as one unit where it is small enough, otherwise cut at the next finer level."""
    if len(part) <= size.fine * _CHARACTERS_PER_TOKEN:
        tokens = count_tokens(part)
        if tokens <= size.fine or (tokens <= size.largest and next(graphemes(part)) == part) or len(part) == 1:
            return (Unit(start + len(part), tokens, strength),)
    return _cut_finer(part, start, strength, size, depth)


def _cut_finer(part: str, start: int, strength: int, size: Size, depth: int) -> Iterator[Unit]:
    cut, finer = _FINER[depth] if depth < len(_FINER) else (cuts.halves, PIECE)
    begin = 0
    for end in cut(part):
        weight = WEAKEST if part[end].isspace() else finer
        yield from _refined(part[begin:end], start + begin, weight, size, depth + 1)
        begin = end
    yield from _refined(part[begin:], start + begin, strength, size, depth + 1)
