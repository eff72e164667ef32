"""Puts a document's text together from normalised pieces, and knows where pages and headings start.

What does not belong here: anything that knows a file format. Pieces are always joined with line ends,
so that normalising them one by one gives the same text as normalising the whole.
"""

from collections.abc import Iterable, Mapping

from ingest_assets.extract.normalise import normalise, one_line
from ingest_assets.records import Extracted, ExtractWarning, Heading, Page

PARAGRAPH = "\n\n"
LINE = "\n"


class TextBuilder:
    """Collects pieces in reading order; `build` gives the finished document."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._headings: list[Heading] = []
        self._pages: list[Page] = []

    def add(self, text: str, *, gap: str = PARAGRAPH, marker: str = "", level: int | None = None) -> None:
        """Append one block after a gap, a list marker before it; blank blocks vanish. With a level it is a heading."""
        piece = normalise(text)
        if not piece:
            return
        piece = (marker if self._parts else marker.lstrip()) + piece
        start = self._append(piece, gap)
        if level is not None:
            self._headings.append(Heading(level, one_line(piece), start))

    def add_page(self, number: int, text: str, headings: Iterable[tuple[int, str, int]] = ()) -> None:
        """Append one page whose text is already normalised; headings are (level, title, offset in the page)."""
        start = self._append(text, PARAGRAPH) if text else self._length
        self._pages.append(Page(number, start, start + len(text)))
        self._headings.extend(Heading(level, title, start + offset) for level, title, offset in headings)

    def add_extracted(self, found: Extracted) -> None:
        """Append a document that stands inside this one, with its headings."""
        if found.text:
            start = self._append(found.text, PARAGRAPH)
            self._headings.extend(Heading(item.level, item.title, start + item.char_start) for item in found.headings)

    def build(
        self, media_type: str, properties: Mapping[str, str] | None = None, warnings: Iterable[ExtractWarning] = ()
    ) -> Extracted:
        """Return the document; properties are brought to one line each, blank ones vanish."""
        tidy = {name: one_line(value) for name, value in (properties or {}).items()}
        return Extracted(
            text="".join(self._parts),
            media_type=media_type,
            pages=tuple(self._pages),
            headings=tuple(self._headings),
            properties={name: value for name, value in tidy.items() if value},
            warnings=tuple(warnings),
        )

    def _append(self, piece: str, gap: str) -> int:
        if self._parts:
            self._parts.append(gap)
            self._length += len(gap)
        start = self._length
        self._parts.append(piece)
        self._length += len(piece)
        return start
