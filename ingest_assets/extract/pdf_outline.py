"""Headings of a PDF from its outline (bookmarks), placed where their titles stand on the page.

What does not belong here: guessing headings from the look of lines.
"""

import re
from collections import defaultdict

import pypdfium2 as pdfium

from ingest_assets.extract.normalise import one_line

_ENTRY_LIMIT = 20_000
_DEPTH_LIMIT = 12

Placed = tuple[int, str, int]  # level (1 is outermost), title, offset in the page's text


def outline_headings(document: pdfium.PdfDocument, pages: list[str]) -> dict[int, list[Placed]]:
    """Return page index -> headings in text order; a title that is not found stands at the page's start."""
    placed: dict[int, list[Placed]] = defaultdict(list)
    floor: dict[int, int] = defaultdict(int)
    for level, title, index in _entries(document):
        if title and 0 <= index < len(pages):
            offset = _find(title, pages[index], floor[index])
            floor[index] = max(floor[index], offset)
            placed[index].append((level, title, offset))
    return {index: sorted(found, key=lambda heading: heading[2]) for index, found in placed.items()}


def _entries(document: pdfium.PdfDocument) -> list[tuple[int, str, int]]:
    entries: list[tuple[int, str, int]] = []
    try:
        for bookmark in document.get_toc(max_depth=_DEPTH_LIMIT):
            target = bookmark.get_dest()
            index = target.get_index() if target else None
            if index is not None:
                entries.append((bookmark.level + 1, one_line(bookmark.get_title()), index))
            if len(entries) >= _ENTRY_LIMIT:
                break
    except pdfium.PdfiumError:
        pass  # a broken outline does not spoil the text
    return entries


def _find(title: str, page: str, floor: int) -> int:
    """Return where the title's line starts, at or after the floor; else the floor."""
    words = r"\s+".join(re.escape(word) for word in title.split()[:30])
    match = re.compile(words, re.IGNORECASE).search(page, floor)
    return page.rfind("\n", 0, match.start()) + 1 if match else floor
