"""The choice of the gaps where a text is cut into chunks: the strongest in reach, of several the smallest by hash.

What does not belong here: finding the gaps, pages, headings, and whatever else a chunk carries.
Why so: from different starts two versions of a text soon choose the same gap, and from there on all of them. Measured
(mean, worst): smallest hash 1.34, 7; if no smaller one is within `fewest` tokens 1.31, 5; with a hash of few characters
1.26, 4. A gap whose hash is repeated comes last: lines that repeat have no place where versions could meet.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple
from zlib import crc32

from ingest_assets.chunk.tokens import count_tokens
from ingest_assets.chunk.units import END, Unit

_BEFORE, _AFTER = 8, 8  # characters that a hash covers: an edit further away does not change it
_STRONGER, _REPEATED = -1, 1 << 32  # below and above every hash


class Limits(NamedTuple):
    """Tokens of one chunk."""

    fewest: int
    most: int


class Cut(NamedTuple):
    """One chunk, as code points `start` to `end` (exclusive) of the text."""

    start: int
    end: int
    tokens: int  # of exactly this text


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
        taken, tokens = _next_chunk(text, start, list(coming), limits)
        end = start
        for _ in range(taken):
            end, spent, _ = coming.popleft()
            total -= spent
        if tokens:
            yield Cut(start, end, tokens)
        start = end


def _next_chunk(text: str, start: int, coming: list[Unit], limits: Limits) -> tuple[int, int]:
    """Return how many units the next chunk takes and its tokens, which are 0 where these are blanks to leave out."""
    sums = list(accumulate(unit.tokens for unit in coming))
    blank_units = _blank_units(text, start, coming)
    ends = range(blank_units, bisect_right(sums, limits.most))
    candidates = _candidates(coming, sums, ends, limits.fewest)
    while candidates:
        best = _best(text, coming, sums, candidates, limits.fewest)
        tokens = count_tokens(text[start : coming[best].end])
        if tokens > limits.most:
            candidates = [index for index in candidates if index < best]
        elif tokens < limits.fewest and coming[best].strength != END:
            candidates = [index for index in candidates if index > best]
        else:
            return best + 1, tokens
    for index in reversed(ends):
        tokens = count_tokens(text[start : coming[index].end])
        if tokens <= limits.most:
            return index + 1, tokens
    return blank_units, 0


def _blank_units(text: str, start: int, coming: list[Unit]) -> int:
    """Return how many units at the front have no visible character."""
    if not text[start].isspace():
        return 0
    visible = (index for index, unit in enumerate(coming) if not text[start : unit.end].isspace())
    return next(visible, len(coming))


def _candidates(coming: list[Unit], sums: list[int], ends: range, fewest: int) -> list[int]:
    """Return the ends that leave neither this chunk nor the rest of the text too short, as far as that is possible."""
    long_enough = [index for index in ends if sums[index] >= fewest or coming[index].strength == END]
    if coming[-1].strength != END:
        return long_enough
    total = sums[-1]
    return [index for index in long_enough if sums[index] == total or total - sums[index] >= fewest] or long_enough


def _best(text: str, coming: list[Unit], sums: list[int], candidates: list[int], reach: int) -> int:
    """Return the strongest candidate, of several the one of lowest rank.

    A gap that is surpassed by another one within `reach` tokens counts one level less than it is worth.
    """
    strongest = max(coming[index].strength for index in candidates)
    for strength in (strongest, strongest - 1):
        ranks = _ranks(text, coming, strength)
        rivals = list(ranks)
        distances = [sums[index] for index in rivals]
        equals = [index for index in candidates if coming[index].strength == strength]
        for index in sorted(equals, key=ranks.__getitem__):
            first, last = bisect_right(distances, sums[index] - reach), bisect_left(distances, sums[index] + reach)
            if min(ranks[rival] for rival in rivals[first:last]) == ranks[index]:
                return index
    ranks = _ranks(text, coming, strongest)
    return min((index for index in candidates if coming[index].strength == strongest), key=ranks.__getitem__)


def _ranks(text: str, coming: list[Unit], strength: int) -> dict[int, int]:
    """Return ranks of the gaps of this strength by a hash, repeated hashes last; stronger gaps have the lowest."""
    hashes = {index: _gap_hash(text, unit.end) for index, unit in enumerate(coming) if unit.strength == strength}
    often = Counter(hashes.values())
    return {
        index: (hashes[index] + (often[hashes[index]] > 1) * _REPEATED) if unit.strength == strength else _STRONGER
        for index, unit in enumerate(coming)
        if unit.strength >= strength
    }


def _gap_hash(text: str, position: int) -> int:
    around = text[max(position - _BEFORE, 0) : position + _AFTER]
    return crc32(around.encode("utf-8", "surrogatepass"))
