"""The outline (bookmarks) of a PDF, and where the titles of headings stand on their pages.

What does not belong here: guessing headings from the look of lines (pdf_headings.py).
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice

import pypdfium2 as pdfium

from ingest_assets.extract.normalise import one_line

_ENTRY_LIMIT = 20_000
_DEPTH_LIMIT = 12
_TITLE_WORDS = 30  # that are compared

Entry = tuple[int, str, int]  # level (1 is outermost), title, page index
Placed = tuple[int, str, int]  # level, title, offset in the page's text


def has_outline(document: pdfium.PdfDocument) -> bool:
    """Tell whether some entry of the outline leads to a page."""
    return next(_entries(document), None) is not None


def outline_entries(document: pdfium.PdfDocument) -> list[Entry]:
    """Return the outline's entries that lead to a page; a broken outline gives what can be read of it.

    pdfium finds the number of a page sooner when it has read the page before.
    """
    return list(islice(_entries(document), _ENTRY_LIMIT))


def _entries(document: pdfium.PdfDocument) -> Iterator[Entry]:
    try:
        for bookmark in document.get_toc(max_depth=_DEPTH_LIMIT):
            target = bookmark.get_dest()
            index = target.get_index() if target else None
            if index is not None:
                yield bookmark.level + 1, one_line(bookmark.get_title()), index
    except pdfium.PdfiumError:
        return  # a broken outline does not spoil the text


def place(entries: Iterable[Entry], pages: list[str], *, only_found: bool) -> dict[int, list[Placed]]:
    """Return page index -> headings in text order.

    A title that does not stand on its page is placed at the page's start, or left out with `only_found`.
    """
    placed: dict[int, list[Placed]] = defaultdict(list)
    floor: dict[int, int] = defaultdict(int)
    lowered: dict[int, str] = {}
    for level, title, index in entries:
        if title and 0 <= index < len(pages):
            if index not in lowered:
                lowered[index] = pages[index].lower()
            offset = _find(title, pages[index], lowered[index], floor[index])
            if offset is None and only_found:
                continue
            offset = floor[index] if offset is None else offset
            floor[index] = max(floor[index], offset)
            placed[index].append((level, title, offset))
    return {index: sorted(found, key=lambda heading: heading[2]) for index, found in placed.items()}


def _find(title: str, page: str, lowered: str, floor: int) -> int | None:
    """Return where the title's line starts, at or after the floor."""
    found = lowered.find(title.lower(), floor) if len(lowered) == len(page) else -1
    if found < 0:
        words = r"\s+".join(re.escape(word) for word in title.split()[:_TITLE_WORDS])
        match = re.compile(words, re.IGNORECASE).search(page, floor)
        found = match.start() if match else -1
    return page.rfind("\n", 0, found) + 1 if found >= 0 else None
