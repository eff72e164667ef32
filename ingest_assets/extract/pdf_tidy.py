"""Makes words whole again that a PDF shows in pieces: broken at line ends, accents beside their letters.

What does not belong here: PDF, and lines that repeat (pdf_running.py). Everything works on the plain text of pages.
"""

import re
import unicodedata
from itertools import pairwise

_SHORTEST_PART = 2  # letters of a word before or behind a hyphenation
_BREAK = "\ufffe"
_FIRST_WORD = re.compile(r"\w*")
_LONGEST_WORD = 60  # letters
_LAST_PART = re.compile(r"([^\W\d_]{2,})[-\u2010]$")
_MARKS = ".,;:)"  # that may follow a known word
_COMBINING = {
    "\u00b4": "\u0301", "\u0060": "\u0300", "\u00a8": "\u0308", "\u02c6": "\u0302", "\u02dc": "\u0303",
    "\u02c7": "\u030c", "\u02d8": "\u0306", "\u02da": "\u030a", "\u02d9": "\u0307", "\u02dd": "\u030b",
    "\u00af": "\u0304", "\u00b8": "\u0327",
}  # fmt: skip
_DOTLESS = {"\u0131": "i", "\u0237": "j"}
_LETTER = "([A-Za-z\u0131\u0237])"
_ACCENTS = "\u00b4\u00a8\u02c6\u02c7\u02d8\u02d9\u02da\u02dc\u02dd\u00af\u00b8"
_ACCENT = re.compile(f"([{_ACCENTS}])" + _LETTER)
_GRAVE = re.compile("(?<=[a-z])(`)" + _LETTER)
_ALWAYS_HYPHENATED = frozenset(
    ["well", "self", "half", "cross", "high", "low", "long", "short", "ex", "non", "all", "semi"]
)


def join_broken_words(pages: list[str]) -> list[str]:
    """Join words that a line end broke (pdfium marks them with U+FFFE); a hyphen that belongs to the word stays."""
    pages = [page.replace("\u2010\r\n", _BREAK) for page in pages]
    if not any(_BREAK in page for page in pages):
        return pages
    known: set[str] = set()
    for page in pages:
        known.update(page.lower().split())
    return [_joined(page, known) if _BREAK in page else page for page in pages]


def join_across_pages(pages: list[str]) -> list[str]:
    """Give a word that the end of a page broke to the page it begins on; pages come normalised."""
    joined = list(pages)
    for index, (page, after) in enumerate(pairwise(pages)):
        right = _FIRST_WORD.match(after)[0]  # type: ignore[index]  # matches anywhere
        left = _LAST_PART.search(page[-_LONGEST_WORD:])
        if left is not None and right.isalpha() and right.islower() and len(right) < len(after):
            word = _join(left[1], right, set())
            joined[index] = joined[index][: -len(left[0])] + word
            joined[index + 1] = after[len(right) :].lstrip(" ")
    return joined


def _joined(page: str, known: set[str]) -> str:
    first, *others = page.split(_BREAK)
    pieces = [first]
    for other in others:
        rest = other.lstrip("\r\n")
        end = len(pieces[-1])
        while end and (pieces[-1][end - 1].isalnum() or pieces[-1][end - 1] == "_"):
            end -= 1
        left, right = pieces[-1][end:], _FIRST_WORD.match(rest)[0]  # type: ignore[index]  # matches anywhere
        pieces[-1] = pieces[-1][:end]
        pieces.append(_join(left, right, known) + rest[len(right) :])
    return "".join(pieces)


def _join(left: str, right: str, known: set[str]) -> str:
    joined, dashed = f"{left}{right}", f"{left}-{right}"
    if min(len(left), len(right)) < _SHORTEST_PART or not joined.isalpha() or not right.islower():
        return dashed
    if _is_known(joined.lower(), known):
        return joined
    return dashed if _is_known(dashed.lower(), known) or left.lower() in _ALWAYS_HYPHENATED else joined


def _is_known(word: str, known: set[str]) -> bool:
    return word in known or any(f"{word}{mark}" in known for mark in _MARKS)


def join_accents(pages: list[str]) -> list[str]:
    """Write accents that a font sets as letters of their own (old TeX) above the letters they belong to.

    The grave accent of such fonts is also the mark that quotes code: it counts only beside other accents.
    """
    suspects = [any(accent in page for accent in _ACCENTS) for page in pages]
    if not any(is_suspect and _ACCENT.search(page) for page, is_suspect in zip(pages, suspects, strict=True)):
        return pages
    joined = [
        _ACCENT.sub(_accented, page) if is_suspect else page for page, is_suspect in zip(pages, suspects, strict=True)
    ]
    return [_GRAVE.sub(_accented, page) if "`" in page else page for page in joined]


def _accented(match: re.Match[str]) -> str:
    accent, letter = match.groups()
    composed = unicodedata.normalize("NFC", _DOTLESS.get(letter, letter) + _COMBINING[accent])
    return composed if len(composed) == 1 else match.group()
