"""Makes the pages of a PDF read as its author wrote them: words whole, running titles once.

What does not belong here: PDF. Everything works on the plain text of pages.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable

MINIMUM_PAGES = 5  # fewer pages cannot show what repeats
_SHARE = 0.4  # of the pages: left and right pages may differ
_PEELED_LINES = 3
_SHORTEST_PART = 2  # letters of a word before or behind a hyphenation
_BROKEN_WORD = re.compile("(?<!\\w)(\\w*)\ufffe[\r\n]*(\\w*)")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_NUMBER = re.compile(r"\d+")
_ALWAYS_HYPHENATED = frozenset(
    ["well", "self", "half", "cross", "high", "low", "long", "short", "ex", "non", "all", "semi"]
)


def join_broken_words(pages: list[str]) -> list[str]:
    """Join words that a line end broke (pdfium marks them with U+FFFE); a hyphen that belongs to the word stays."""
    if not any("\ufffe" in page for page in pages):
        return pages
    known = {word.lower() for page in pages for word in _WORD.findall(page)}
    return [_BROKEN_WORD.sub(_joiner(known), page) for page in pages]


def _joiner(known: set[str]) -> Callable[[re.Match[str]], str]:
    def join(match: re.Match[str]) -> str:
        left, right = match.groups()
        joined, dashed = f"{left}{right}", f"{left}-{right}"
        if min(len(left), len(right)) < _SHORTEST_PART or not joined.isalpha() or not right.islower():
            return dashed
        if joined.lower() in known:
            return joined
        return dashed if dashed.lower() in known or left.lower() in _ALWAYS_HYPHENATED else joined

    return join


def without_running_lines(pages: list[str]) -> list[str]:
    """Take lines that repeat at the top or bottom of most pages out of all of them but the first.

    Two lines are the same when they differ in nothing but numbers that follow the page number.
    Pages come and go normalised; a page never loses its only text.
    """
    if sum(bool(page) for page in pages) < MINIMUM_PAGES:
        return pages
    lines = [page.split("\n") for page in pages]
    for edge in (0, -1):
        seen: set[str] = set()
        for _ in range(_PEELED_LINES):
            if not _peel(lines, edge, seen):
                break
    return ["\n".join(page).strip() for page in lines]


def _peel(pages: list[list[str]], edge: int, seen: set[str]) -> bool:
    places: dict[str, list[int]] = defaultdict(list)
    for index, page in enumerate(pages):
        if len(page) > 1:
            places[_NUMBER.sub("#", page[edge]).strip().lower()].append(index)
    filled = sum(len(page) > 1 for page in pages)
    peeled = False
    for key, indexes in places.items():
        if len(indexes) < max(3, _SHARE * filled) or not _follows_pages(
            [(index, pages[index][edge]) for index in indexes]
        ):
            continue
        peeled = True
        for index in indexes:
            # What it says is kept where it is said first; a bare number says nothing.
            if key in seen or not any(char.isalpha() for char in key):
                del pages[index][edge]
            seen.add(key)
    return peeled


def _follows_pages(lines: list[tuple[int, str]]) -> bool:
    """Tell whether every number in these lines is constant or counts with the pages, on most of them."""
    numbers = [(index, [int(digits[:9]) for digits in _NUMBER.findall(line)]) for index, line in lines]
    for position in range(len(numbers[0][1])):
        same = Counter(values[position] for _, values in numbers).most_common(1)[0][1]
        counting = Counter(values[position] - index for index, values in numbers).most_common(1)[0][1]
        if max(same, counting) < 0.8 * len(numbers):
            return False
    return True
