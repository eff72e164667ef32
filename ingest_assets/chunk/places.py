"""Where a chunk lies for a reader: its pages and the headings above it.

What does not belong here: cutting. Everything is looked up by position, in logarithmic time.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from ingest_assets.records import Heading, Page


class Places:
    """Pages and heading paths of one text, by position in code points."""

    def __init__(self, pages: Sequence[Page], headings: Sequence[Heading]) -> None:
        """Take what extraction found, in text order."""
        self._page_starts = [page.char_start for page in pages]
        self._page_numbers = [page.number for page in pages]
        self._heading_starts = [heading.char_start for heading in headings]
        self._paths = [(), *_paths(headings)]

    def page(self, position: int) -> int | None:
        """Return the 1-based number of the page at a position; None where there are no pages."""
        if not self._page_starts:
            return None
        return self._page_numbers[max(bisect_right(self._page_starts, position) - 1, 0)]

    def heading(self, position: int) -> tuple[str, ...]:
        """Return the titles in force at a position, outermost first; a heading is in force from its own start on."""
        return self._paths[bisect_right(self._heading_starts, position)]


def _paths(headings: Sequence[Heading]) -> Iterator[tuple[str, ...]]:
    above: list[Heading] = []
    for heading in headings:
        while above and above[-1].level >= heading.level:
            above.pop()
        above.append(heading)
        yield tuple(item.title for item in above)
