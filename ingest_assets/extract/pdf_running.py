"""Takes running headers, footers and page numbers out of all pages but the one that says them first.

What does not belong here: PDF. Everything works on the plain text of pages; a tab in a line stands for a gap so wide
that what is left and right of it are two things.
"""

import re
from collections import Counter, defaultdict
from functools import lru_cache

MINIMUM_PAGES = 5  # fewer pages cannot show what repeats
GAP = "\t"
_SHARE = 0.3  # of the pages: left and right pages differ, and chapters begin without
_RUN = 3  # pages of one chapter that say the same
_STRIDE = 2  # pages from one to the next of them: left and right pages may differ
_DEPTH_LINES = 3
_LONGEST = 160  # characters: a longer line is no title
_STEADY = 0.8  # of the lines whose numbers must follow the pages
_ROMAN = r"(?=[ivxlc])c{0,3}(?:xc|xl|l?x{0,3})(?:ix|iv|v?i{0,3})"
_NUMBER = re.compile(
    rf"\d+|(?<![\w.])(?:{_ROMAN})(?![\w.])(?=\W*$)|(?:(?<=^)|(?<=^\W))(?:{_ROMAN})(?=\s|$)", re.IGNORECASE
)
_WORD = re.compile(r"[^\W\d_]{3}")
_ROMAN_VALUES = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}


def without_running_lines(pages: list[str]) -> list[str]:
    """Take out what repeats at the top or bottom of pages, and close the gaps of what stays.

    Two lines are the same when they differ in nothing but numbers that are constant or count with the pages.
    Pages come and go normalised; a page never loses its only text.
    """
    if sum(bool(page) for page in pages) < MINIMUM_PAGES:
        return [page.replace(GAP, " ") if GAP in page else page for page in pages]
    lines = [page.split("\n") for page in pages]
    for is_top in (True, False):
        _Edge(lines, is_top=is_top).peel()
    return ["\n".join(page).strip().replace(GAP, " ") for page in lines]


class _Edge:
    """The first or the last lines of all pages."""

    def __init__(self, pages: list[list[str]], *, is_top: bool) -> None:
        self._pages = pages
        self._is_top = is_top
        self._depths = [0] * len(pages)
        self._said: set[str] = set()
        self._offsets: set[int] = set()

    def peel(self) -> None:
        for _ in range(_DEPTH_LINES):
            if not self._peel_once():
                break

    def _peel_once(self) -> bool:
        segments = {index: line.split(GAP) for index, line in self._lines()}
        places: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for index, parts in segments.items():
            for part in dict.fromkeys(parts):
                if len(part) <= _LONGEST:
                    places[_key(part)].append((index, part))
        running = {key: self._running_pages(found, len(segments)) for key, found in places.items()}
        is_peeled = False
        for index, parts in segments.items():
            kept = [part for part in parts if not self._is_known(index, part, running)]
            is_peeled = is_peeled or len(kept) < len(parts)
            if any(index in running.get(_key(part), ()) for part in parts):
                self._replace(index, kept)
        return is_peeled

    def _lines(self) -> list[tuple[int, str]]:
        return [
            (index, page[self._position(index)])
            for index, page in enumerate(self._pages)
            if len(page) > self._depths[index] + 1
        ]

    def _position(self, index: int) -> int:
        return self._depths[index] if self._is_top else -1 - self._depths[index]

    def _is_known(self, index: int, part: str, running: dict[str, set[int]]) -> bool:
        """Tell whether a running part was said before, or is nothing but a number."""
        key = _key(part)
        if index not in running.get(key, ()):
            return False
        is_known = key in self._said or not _WORD.search(key)
        self._said.add(key)
        return is_known

    def _replace(self, index: int, kept: list[str]) -> None:
        position = self._position(index)
        if kept:
            self._pages[index][position] = GAP.join(kept)
            self._depths[index] += 1
        else:
            del self._pages[index][position]

    def _running_pages(self, found: list[tuple[int, str]], filled: int) -> set[int]:
        """Return the pages on which this line is a running one."""
        if len(found) >= max(_RUN, _SHARE * filled) and _follows_pages(found):
            return {index for index, _ in found}
        if not _WORD.search(found[0][1]):
            return set()
        return {index for run in _runs(found) if len(run) >= _RUN and _follows_pages(run) for index, _ in run}


@lru_cache(maxsize=65_536)
def _key(line: str) -> str:
    return _NUMBER.sub("#", line).strip().lower()


def _runs(found: list[tuple[int, str]]) -> list[list[tuple[int, str]]]:
    """Split into runs of pages that follow each other closely."""
    runs: list[list[tuple[int, str]]] = []
    for item in found:
        if runs and item[0] - runs[-1][-1][0] <= _STRIDE:
            runs[-1].append(item)
        else:
            runs.append([item])
    return runs


def _follows_pages(lines: list[tuple[int, str]]) -> bool:
    """Tell whether every number in these lines is constant or counts with the pages, on most of them."""
    numbers = [(index, [_value(found) for found in _NUMBER.findall(line)]) for index, line in lines]
    for position in range(min(len(values) for _, values in numbers)):
        same = Counter(values[position] for _, values in numbers).most_common(1)[0][1]
        counting = Counter(values[position] - index for index, values in numbers).most_common(1)[0][1]
        if max(same, counting) < _STEADY * len(numbers):
            return False
    return True


def _value(number: str) -> int:
    if number[0].isdecimal():
        return int(number[:9])
    letters = [_ROMAN_VALUES[letter] for letter in number.lower()]
    return sum(-one if one < after else one for one, after in zip(letters, [*letters[1:], 0], strict=True))
