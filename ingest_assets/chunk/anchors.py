"""The choice of the gaps where a text is cut into chunks: the strongest in reach, of several the smallest by hash.

What does not belong here: finding the gaps, pages, headings, and whatever else a chunk carries.
Why so: from different starts two versions of a text soon choose the same gap, and from there on all of them. Measured
(mean, worst): smallest hash 1.34, 7; if no smaller one is within `fewest` tokens 1.31, 5; with a hash of few characters
1.26, 4. A gap whose hash is repeated comes last: lines that repeat have no place where versions could meet.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
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


class _Gap(NamedTuple):
    """One gap ahead, measured from the start of the chunk at hand."""

    units: int  # how many units lie before it
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
        taken, tokens = _next_chunk(text, start, list(coming), limits)
        end = start
        for _ in range(taken):
            end, spent, _ = coming.popleft()
            total -= spent
        if tokens:
            yield Cut(start, end, tokens)
        start = end


def _next_chunk(text: str, start: int, coming: Sequence[Unit], limits: Limits) -> tuple[int, int]:
    """Return how many units the next chunk takes and its tokens, which are 0 where these are blanks to leave out."""
    gaps = _gaps(coming)
    blank_units = _blank_units(text, start, coming)
    ends = [gap for gap in gaps[blank_units:] if gap.tokens <= limits.most]
    candidates = _candidates(ends, gaps[-1], limits.fewest)
    while candidates:
        end = _best(text, candidates, gaps, limits.fewest)
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


def _gaps(coming: Iterable[Unit]) -> list[_Gap]:
    gaps = []
    tokens = 0
    for count, unit in enumerate(coming, 1):
        tokens += unit.tokens
        gaps.append(_Gap(count, unit.end, tokens, unit.strength))
    return gaps


def _blank_units(text: str, start: int, coming: Iterable[Unit]) -> int:
    """Return how many units at the front have no visible character."""
    count = 0
    for unit in coming:
        if not text[start : unit.end].isspace():
            break
        count += 1
    return count


def _candidates(ends: list[_Gap], last: _Gap, fewest: int) -> list[_Gap]:
    """Return the ends that leave neither this chunk nor the rest of the text too short, as far as that is possible."""
    long_enough = [end for end in ends if end.tokens >= fewest or end.strength == END]
    if last.strength != END:
        return long_enough
    return [end for end in long_enough if end.strength == END or last.tokens - end.tokens >= fewest] or long_enough


def _best(text: str, candidates: list[_Gap], gaps: list[_Gap], reach: int) -> _Gap:
    """Return the strongest candidate, of several the one of lowest rank.

    A gap that is surpassed by another one within `reach` tokens counts one level less than it is worth.
    """
    strongest = max(gap.strength for gap in candidates)
    for strength in (strongest, strongest - 1):
        rivals = [gap for gap in gaps if gap.strength >= strength]
        ranks = _ranks(text, rivals, strength)
        for gap in sorted(_of_strength(candidates, strength), key=lambda gap: ranks[gap.position]):
            near = (other for other in rivals if -reach < other.tokens - gap.tokens < reach)
            if all(ranks[other.position] >= ranks[gap.position] for other in near):
                return gap
    ranks = _ranks(text, gaps, strongest)
    return min(_of_strength(candidates, strongest), key=lambda gap: ranks[gap.position])


def _of_strength(gaps: list[_Gap], strength: int) -> list[_Gap]:
    return [gap for gap in gaps if gap.strength == strength]


def _ranks(text: str, gaps: list[_Gap], strength: int) -> dict[int, int]:
    """Return the rank of each gap by its position: lowest when stronger, then by a hash, repeated hashes last."""
    hashes = {gap.position: _gap_hash(text, gap.position) for gap in _of_strength(gaps, strength)}
    often = Counter(hashes.values())
    ranks = dict.fromkeys((gap.position for gap in gaps), _STRONGER)
    for position, value in hashes.items():
        ranks[position] = value if often[value] == 1 else value + _REPEATED
    return ranks


def _gap_hash(text: str, position: int) -> int:
    around = text[max(position - _BEFORE, 0) : position + _AFTER]
    return crc32(around.encode("utf-8", "surrogatepass"))
