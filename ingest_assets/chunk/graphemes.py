"""Where a text may be cut at all: between extended grapheme clusters (UAX 29), and nowhere inside one.

What does not belong here: where it should be cut. Positions count code points; every string handed in must itself
start and end at a boundary, since what came before can decide (flags, emoji sequences).
"""

from collections.abc import Iterable, Iterator

import regex

# `\X` alone walks back over the whole run at every flag, which is quadratic: 100,000 flags took four minutes.
_CLUSTER = regex.compile(r"\p{GCB=RI}{2}[\p{GCB=EX}\p{GCB=ZWJ}\p{GCB=SM}]*+|\X")
_JOINED = regex.compile(
    r"[\p{GCB=EX}\p{GCB=ZWJ}\p{GCB=SM}\p{GCB=PP}\p{GCB=RI}\p{GCB=L}\p{GCB=V}\p{GCB=T}]|\r\n"
)  # without one of these every character stands alone


def is_plain(text: str) -> bool:
    """Say whether every position of the text is a boundary."""
    return (text.isascii() and "\r\n" not in text) or _JOINED.search(text) is None


def graphemes(text: str) -> Iterator[str]:
    """Yield the clusters of a text in order."""
    return iter(text) if is_plain(text) else (match[0] for match in _CLUSTER.finditer(text))


def whole(cuts: Iterable[int], text: str) -> Iterator[int]:
    """Yield those of the ascending `cuts` that fall between clusters."""
    if is_plain(text):
        yield from cuts
        return
    ends = (match.end() for match in _CLUSTER.finditer(text))
    end = 0
    for cut in cuts:
        while end < cut:
            end = next(ends)
        if end == cut:
            yield cut
