"""The text before a chunk that is repeated in front of it, where overlap is set.

What does not belong here: cutting; a chunk's own text is the same with any prefix.
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from ingest_assets.chunk import cuts
from ingest_assets.chunk.anchors import Cut
from ingest_assets.chunk.graphemes import graphemes
from ingest_assets.chunk.tokens import count_tokens


def prefix_start(text: str, previous_start: int, cut: Cut, *, overlap: int, most: int) -> int:
    """Return where the prefix of a chunk begins; the chunk's own start when it can have none.

    It is the longest end of the chunk before that starts with a line, else with a sentence, a word or a grapheme
    cluster, has at most `overlap` tokens and leaves the whole within `most`.
    """

    def fits(offset: int) -> bool:
        at = previous_start + offset
        return count_tokens(text[at : cut.start]) <= overlap and count_tokens(text[at : cut.end]) <= most

    before = text[previous_start : cut.start]
    for starts in (cuts.lines, cuts.sentences, cuts.words, _clusters):
        offsets = [0, *starts(before)]
        first = bisect_left(offsets, True, key=fits)
        for offset in offsets[first:]:
            if fits(offset):
                return previous_start + offset
    return cut.start


def _clusters(text: str) -> Iterator[int]:
    return accumulate(map(len, graphemes(text[: len(text.rstrip())])))
