"""The choice of the gaps where a text is cut into chunks: strongest first, then the smallest hash.

What does not belong here: finding the gaps, pages, headings, and whatever else a chunk carries.
Why a hash: two versions of a text choose the same gap as soon as it lies in the reach of both, whatever came before,
so they meet again a chunk or two after an edit. It covers only a few words around the gap, because a hash of whole
paragraphs would change with every edit inside them; a hash found once in reach wins, or repeated lines would never
let the versions meet.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from zlib import crc32

from ingest_assets.chunk.tokens import count_tokens
from ingest_assets.chunk.units import END, Unit

_BEFORE, _AFTER = 32, 32  # characters around a gap that its hash covers


class Limits(NamedTuple):
    """Tokens of one chunk."""

    fewest: int
    most: int


class Cut(NamedTuple):
    """One chunk, as code points `start` to `end` (exclusive) of the text."""

    start: int
    end: int
    tokens: int  # of exactly this text


class _End(NamedTuple):
    """One possible end of the chunk at hand."""

    units: int  # how many of the coming units the chunk takes
    position: int
    tokens: int  # sum over these units
    strength: int


def cut_chunks(text: str, units: Iterator[Unit], limits: Limits) -> Iterator[Cut]:
    """Yield the chunks of a text in order, none blank and none over the limit.

    Together they are the whole text, except for blanks that fit into a chunk neither with the unit before nor with
    the unit after them: no chunk has those. A chunk is under `limits.fewest` only where the text ends or the next
    unit is too large to be added.
    """
    coming: deque[Unit] = deque()
    start, total = 0, 0
    while True:
        while total < limits.most + limits.fewest and (unit := next(units, None)):
            coming.append(unit)
            total += unit.tokens
        if not coming:
            return
        taken, tokens = _next_chunk(text, start, coming, limits)
        end = start
        for _ in range(taken):
            end, spent, _ = coming.popleft()
            total -= spent
        if tokens:
            yield Cut(start, end, tokens)
        start = end


def _next_chunk(text: str, start: int, coming: deque[Unit], limits: Limits) -> tuple[int, int]:
    """Return how many units the next chunk takes and its tokens, which are 0 where these are blanks to leave out."""
    blank_units = _blank_units(text, start, coming)
    ends = _ends(coming, limits.most)[blank_units:]
    candidates = _candidates(ends, coming, limits.fewest)
    while candidates:
        end = _best(text, candidates)
        tokens = count_tokens(text[start : end.position])
        if tokens > limits.most:
            candidates = [other for other in candidates if other.position < end.position]
        elif tokens < limits.fewest and end.strength != END:
            candidates = [other for other in candidates if other.position > end.position]
        else:
            return end.units, tokens
    for end in reversed(ends):
        tokens = count_tokens(text[start : end.position])
        if tokens <= limits.most:
            return end.units, tokens
    return blank_units, 0


def _blank_units(text: str, start: int, coming: Iterable[Unit]) -> int:
    """Return how many units at the front have no visible character."""
    count = 0
    for unit in coming:
        if not text[start : unit.end].isspace():
            break
        count += 1
    return count


def _ends(coming: Iterable[Unit], most: int) -> list[_End]:
    """Return every end within the limit, nearest first."""
    ends = []
    tokens = 0
    for count, unit in enumerate(coming, 1):
        tokens += unit.tokens
        if tokens > most:
            break
        ends.append(_End(count, unit.end, tokens, unit.strength))
    return ends


def _candidates(ends: list[_End], coming: deque[Unit], fewest: int) -> list[_End]:
    """Return the ends that leave neither this chunk nor the rest of the text too short, as far as that is possible."""
    long_enough = [end for end in ends if end.tokens >= fewest or end.strength == END]
    if coming[-1].strength != END:
        return long_enough
    total = sum(unit.tokens for unit in coming)
    return [end for end in long_enough if end.strength == END or total - end.tokens >= fewest] or long_enough


def _best(text: str, ends: list[_End]) -> _End:
    """Return the strongest end; of several the one whose hash is rare, then smallest, then the nearest."""
    strongest = max(end.strength for end in ends)
    ends = [end for end in ends if end.strength == strongest]
    if len(ends) == 1:
        return ends[0]
    hashes = [_gap_hash(text, end.position) for end in ends]
    if len(set(hashes)) < len(hashes):
        often = Counter(hashes)
        hashes = [value if often[value] == 1 else value + (1 << 32) for value in hashes]
    return ends[hashes.index(min(hashes))]


def _gap_hash(text: str, position: int) -> int:
    around = text[max(position - _BEFORE, 0) : position + _AFTER]
    return crc32(around.encode("utf-8", "surrogatepass"))
