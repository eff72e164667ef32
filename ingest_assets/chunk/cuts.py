"""Every way to cut a string finer than it is: lines, sentences, groups of words, pieces of unbroken text, halves.

What does not belong here: when a string is fine enough, and which cut becomes the end of a chunk.
Each function yields ascending offsets inside the string, without its two ends, never inside a grapheme cluster;
all but `halves` put white space before the cut. None depends on anything but nearby text, so an edit moves few.
"""

import re
from collections.abc import Iterator
from zlib import crc32

import regex

from ingest_assets.chunk.graphemes import graphemes, is_plain, whole

_BREAK = r"(?:\r\n|[\n\r\v\f\x85\u2028\u2029])"
_BLANK = r"[^\S\n\r\v\f\x85\u2028\u2029]"
# Nothing stands behind the groups, so they need not be possessive: those of `re` were wrong before Python 3.11.5.
_BLANK_LINES = re.compile(f"{_BREAK}(?:{_BLANK}*+{_BREAK})+")
_LINE_END = re.compile(f"{_BREAK}(?:{_BLANK}*+{_BREAK})*")
_LETTERS = r"\p{SB=LE}\p{SB=UP}\p{SB=LO}"
_IGNORED = r"[\p{SB=EX}\p{SB=FO}]"
_SENTENCE_END = regex.compile(
    rf"""
    (?: \p{{SB=ST}}
      | \p{{SB=AT}}
        (?! {_IGNORED}*+ \p{{SB=NU}} )                                                              # SB6   3.14
        (?! {_IGNORED}*+ (?=\p{{SB=UP}})
            (?<= [\p{{SB=UP}}\p{{SB=LO}}] {_IGNORED}* \p{{SB=AT}} {_IGNORED}* ) )                      # SB7   U.S
        (?! [^{_LETTERS}\p{{SB=SE}}\p{{SB=CR}}\p{{SB=LF}}\p{{SB=ST}}\p{{SB=AT}}]*+ \p{{SB=LO}} )         # SB8   e.g. at
    )
    {_IGNORED}*+ (?:\p{{SB=CL}}{_IGNORED}*+)*+ (?:\p{{SB=SP}}{_IGNORED}*+)*+                        # SB9, SB10
    (?! [\p{{SB=SC}}\p{{SB=ST}}\p{{SB=AT}}\p{{SB=SE}}\p{{SB=CR}}\p{{SB=LF}}] )                      # SB8a, SB11
    """,
    regex.VERBOSE,
)
_WORD = re.compile(r"\s*+\S++\s*+")
_LONGEST_WORD = 48  # characters; what is longer is cut like unbroken text
_WORDS_PER_GROUP = 4  # on average, and so many characters of unbroken text per piece:
_CHARACTERS_PER_PIECE = 32
_LONGEST_PIECE = 256
_SHORTEST_PIECE = 8
_MIX = 0x9E3779B1  # 2**32 divided by the golden ratio, odd: spreads neighbouring code points over the whole word


def paragraphs(text: str, start: int, end: int) -> Iterator[int]:
    """Yield the position after each run of blank lines between `start` and `end`, which are not blank."""
    return (match.end() for match in _BLANK_LINES.finditer(text, start, end))


def lines(text: str) -> Iterator[int]:
    """Yield the offset after each line and the blank lines that follow it."""
    first, last = len(text) - len(text.lstrip()), len(text.rstrip())
    return (match.end() for match in _LINE_END.finditer(text, first, last))


def sentences(text: str) -> Iterator[int]:
    """Yield the sentence boundaries of UAX 29, which knows full-width stops too, and no abbreviations."""
    last = len(text.rstrip())
    return whole((match.end() for match in _SENTENCE_END.finditer(text, 0, last) if match.end() < last), text)


def words(text: str) -> Iterator[int]:
    """Yield offsets after words: those whose hash says so, and both ends of what is too long to be a word."""
    return whole(_word_groups(text), text)


def _word_groups(text: str) -> Iterator[int]:
    last, cut = len(text.rstrip()), 0
    for match in _WORD.finditer(text):
        start, end = match.span()
        is_long = end - start > _LONGEST_WORD
        if is_long and start > cut:
            yield start
            cut = start
        is_due = end - cut > _LONGEST_PIECE or crc32(match[0].encode("utf-8", "surrogatepass")) % _WORDS_PER_GROUP == 0
        if (is_long or is_due) and end < last:
            yield end
            cut = end


def pieces(text: str) -> Iterator[int]:
    """Yield offsets where a rolling hash over the last 16 clusters is small, so that equal text is cut equally."""
    rolling, position, cut = 0, 0, 0
    limit = (1 << 32) // _CHARACTERS_PER_PIECE
    last = len(text.rstrip())
    for cluster in graphemes(text[:last]):
        if len(cluster) == 1:
            position += 1
            rolling = ((rolling << 2) + ord(cluster) * _MIX) & 0xFFFFFFFF
        else:
            position += len(cluster)
            rolling = ((rolling << 2) + crc32(cluster.encode("utf-8", "surrogatepass")) * _MIX) & 0xFFFFFFFF
        is_due = rolling < limit or position - cut >= _LONGEST_PIECE
        if is_due and position - cut >= _SHORTEST_PIECE and position < last:
            yield position
            cut = position


def halves(text: str) -> Iterator[int]:
    """Yield the boundary in the middle; of one single cluster the middle itself, for the token limit is law."""
    middle, cut = len(text) // 2, 0
    if is_plain(text):
        yield middle
        return
    for cluster in graphemes(text):
        if cut >= middle or (cut and cut + len(cluster) == len(text)):
            break
        cut += len(cluster)
    yield cut if cut < len(text) else middle
