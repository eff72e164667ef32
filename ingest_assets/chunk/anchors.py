"""The choice of the gaps where a text is cut into chunks: the strongest in reach, of several the smallest by hash.

What does not belong here: finding the gaps, pages, headings, and whatever else a chunk carries.
Why so: from different starts two versions of a text soon choose the same gap, and from there on all of them. Measured
(mean, worst): smallest hash 1.34, 7; if nothing within `fewest` tokens surpasses it 1.31, 5; hash of few characters
1.27, 5. Repeated hashes come last (worst 6 without): repeated lines have no place where two versions could meet.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate, compress
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


class _Ahead:
    """The units from the start of the chunk at hand to a little further than it can reach, as parallel lists."""

    def __init__(self, text: str, units: Iterator[Unit]) -> None:
        self.text = text
        self.start = 0  # of the chunk at hand
        self.ends: list[int] = []
        self.strengths: list[int] = []
        self.hashes: list[int] = []
        self._tokens: list[int] = []
        self._units = units

    def fill(self, tokens: int) -> list[int]:
        """Look so many tokens ahead where the text is so long; return the running sum of tokens after each unit."""
        missing = tokens - sum(self._tokens)
        while missing > 0 and (unit := next(self._units, None)):
            missing -= unit.tokens
            around = self.text[max(unit.end - _BEFORE, 0) : unit.end + _AFTER]
            self.hashes.append(crc32(around.encode("utf-8", "surrogatepass")))
            self.ends.append(unit.end)
            self.strengths.append(unit.strength)
            self._tokens.append(unit.tokens)
        return list(accumulate(self._tokens))

    def drop(self, count: int) -> None:
        """Start the next chunk after so many units."""
        self.start = self.ends[count - 1]
        for values in (self.ends, self.strengths, self.hashes, self._tokens):
            del values[:count]

    def blank_units(self) -> int:
        """Return how many units at the front have no visible character."""
        if not self.text[self.start : self.start + 1].isspace():
            return 0
        visible = (index for index, end in enumerate(self.ends) if not self.text[self.start : end].isspace())
        return next(visible, len(self.ends))

    def count(self, index: int) -> int:
        """Return the tokens of the chunk that ends with the unit at `index`."""
        return count_tokens(self.text[self.start : self.ends[index]])


def cut_chunks(text: str, units: Iterator[Unit], limits: Limits) -> Iterator[Cut]:
    """Yield the chunks of a text in order, none blank and none over the limit.

    Together they are the whole text, except for blanks that fit into a chunk neither with the unit before nor with
    the unit after them: no chunk has those. A chunk is under `limits.fewest` only where the text ends or the next
    unit is too large to be added.
    """
    ahead = _Ahead(text, units)
    while sums := ahead.fill(limits.most + limits.fewest):
        start = ahead.start
        taken, tokens = _next_chunk(ahead, sums, limits)
        ahead.drop(taken)
        if tokens:
            yield Cut(start, ahead.start, tokens)


def _next_chunk(ahead: _Ahead, sums: list[int], limits: Limits) -> tuple[int, int]:
    """Return how many units the next chunk takes and its tokens, which are 0 where these are blanks to leave out."""
    blank_units = ahead.blank_units()
    ends = range(blank_units, bisect_right(sums, limits.most))
    candidates = _candidates(ahead, sums, ends, limits.fewest)
    while candidates:
        best = _best(ahead, sums, candidates, limits.fewest)
        tokens = ahead.count(best)
        if tokens > limits.most:
            candidates = [index for index in candidates if index < best]
        elif tokens < limits.fewest and ahead.strengths[best] != END:
            candidates = [index for index in candidates if index > best]
        else:
            return best + 1, tokens
    for index in reversed(ends):
        tokens = ahead.count(index)
        if tokens <= limits.most:
            return index + 1, tokens
    return max(blank_units, 1), 0


def _candidates(ahead: _Ahead, sums: list[int], ends: range, fewest: int) -> list[int]:
    """Return the ends that leave neither this chunk nor the rest of the text too short, as far as that is possible."""
    first = max(bisect_left(sums, fewest), ends.start)
    if ahead.strengths[-1] != END:
        return list(range(first, ends.stop))
    last = bisect_right(sums, sums[-1] - fewest)
    roomy = list(range(first, min(last, ends.stop)))
    if ends and ends.stop == len(sums):
        roomy.append(ends[-1])
    return roomy or list(range(first, ends.stop))


def _best(ahead: _Ahead, sums: list[int], candidates: list[int], reach: int) -> int:
    """Return the strongest candidate, of several the one of lowest rank.

    A gap that is surpassed by another one within `reach` tokens counts one level less than it is worth.
    """
    strongest = max(ahead.strengths[index] for index in candidates)
    for strength in (strongest, strongest - 1):
        ranks = _ranks(ahead, strength)
        rivals = list(ranks)
        distances = [sums[index] for index in rivals]
        equals = [index for index in candidates if ahead.strengths[index] == strength]
        for index in sorted(equals, key=ranks.__getitem__):
            first, last = bisect_right(distances, sums[index] - reach), bisect_left(distances, sums[index] + reach)
            if min(ranks[rival] for rival in rivals[first:last]) == ranks[index]:
                return index
    ranks = _ranks(ahead, strongest)
    return min((index for index in candidates if ahead.strengths[index] == strongest), key=ranks.__getitem__)


def _ranks(ahead: _Ahead, strength: int) -> dict[int, int]:
    """Return ranks of the gaps of this strength by their hash, repeated ones last; stronger gaps have the lowest."""
    strengths, hashes = ahead.strengths, ahead.hashes
    often = Counter(compress(hashes, map(strength.__eq__, strengths)))
    return {
        index: (value + (often[value] > 1) * _REPEATED) if own == strength else _STRONGER
        for index, (own, value) in enumerate(zip(strengths, hashes, strict=True))
        if own >= strength
    }
