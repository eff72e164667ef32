"""The blocks of a Word document in reading order: paragraphs, table rows, text boxes, notes, page margins.

What does not belong here: text inside a paragraph (docx_inline.py), and other parts of the package
(docx_embedded.py), which are met here by their relation ids and read by whoever was given.
"""

import re
from collections.abc import Callable, Iterator

from lxml import etree

from ingest_assets.extract.assemble import LINE, PARAGRAPH, TextBuilder
from ingest_assets.extract.docx_inline import Inline
from ingest_assets.extract.docx_styles import Styles
from ingest_assets.extract.docx_xml import child, flag, local, value
from ingest_assets.records import Extracted

_PASSED_THROUGH = frozenset(
    ["sdt", "sdtContent", "customXml", "ins", "moveTo", "smartTag", "body", "hdr", "ftr", "footnote", "endnote"]
)
_BLOCKS = frozenset(("p", "tbl", "altChunk"))
_LETTERS = re.compile(r"[^\W\d_]+")
_PAGE_WORDS = frozenset((
    "page", "pages", "of", "p", "pg", "seite", "seiten", "von", "side", "sida", "av", "af", "pagina", "página", "pag",
    "pág", "de", "di", "van", "strona", "stránka", "z", "ze", "sivu", "стр", "страница", "из", "第", "页", "頁", "共",
    "ページ",
))  # fmt: skip

# relation id -> what the reader sees of that part
Opening = Callable[[str], Extracted | None]


class Reader:
    """Walks blocks in order and hands them to the builder."""

    def __init__(self, styles: Styles, open_part: Opening) -> None:
        self.builder = TextBuilder()
        self._styles = styles
        self._open_part = open_part
        self._in_list = False

    def read(self, container: etree._Element) -> None:
        """Add every block inside the container."""
        for block in self._blocks(container):
            if isinstance(block, Inline):
                self._paragraph(block)
            elif local(block) == "tbl":
                self._table(block)
            else:
                self._part(value(block, "id") or "")

    def read_notes(self, root: etree._Element | None) -> None:
        """Add foot- or endnotes, one block each; separators are not notes."""
        for note in root if root is not None else ():
            if value(note, "type") in (None, "normal"):
                self.builder.add(self._joined(note))

    def read_margins(self, roots: list[etree._Element | None]) -> None:
        """Add each distinct page header and footer once; page numbers alone are no text."""
        texts = [" ".join(self._joined(root).split()) for root in roots if root is not None]
        for text in dict.fromkeys(text for text in texts if not _PAGE_WORDS.issuperset(_LETTERS.findall(text.lower()))):
            self.builder.add(text)

    def _blocks(self, container: etree._Element) -> Iterator[Inline | etree._Element]:
        """Yield paragraphs read, tables and foreign parts; a paragraph whose end is deleted runs on into the next."""
        open_end: Inline | None = None
        for block in _children(container, _BLOCKS):
            if local(block) != "p":
                if open_end is not None:
                    yield open_end
                open_end = None
                yield block
                continue
            paragraph = Inline(block, self._styles.hides, open_end)
            open_end = paragraph if _end_is_gone(paragraph.properties) else None
            if open_end is None:
                yield paragraph
        if open_end is not None:
            yield open_end

    def _paragraph(self, paragraph: Inline) -> None:
        marker = self._styles.marker(paragraph.properties)  # an item without text is counted too
        text = paragraph.text
        if text.strip():
            level = self._styles.level(paragraph.properties)
            is_item = bool(marker) and level is None
            gap = LINE if is_item and self._in_list else PARAGRAPH
            self.builder.add(text, gap=gap, marker=marker if is_item else marker.lstrip(), level=level)
            self._in_list = is_item
        for box in paragraph.boxes:
            self.read(box)
        for relation in paragraph.objects:
            self._part(relation)

    def _part(self, relation: str) -> None:
        found = self._open_part(relation)
        if found is not None:
            self.builder.add_extracted(found)

    def _table(self, table: etree._Element) -> None:
        gap = PARAGRAPH
        self._in_list = False
        for row in _rows(table):
            cells = list(_children(row, {"tc"}))
            if len(cells) == 1 or any(self._has_heading(cell) for cell in cells):
                for cell in cells:
                    self.read(cell)
                gap = PARAGRAPH
            elif text := self._row_text(cells):
                self.builder.add(text, gap=gap)
                gap = LINE

    def _has_heading(self, cell: etree._Element) -> bool:
        return any(self._styles.level(child(block, "pPr")) for block in _children(cell, {"p"}))

    def _row_text(self, cells: list[etree._Element]) -> str:
        texts = [" ".join(self._joined(cell).split()) for cell in cells if _starts_here(cell)]
        while texts and not texts[-1]:
            texts.pop()
        while texts and not texts[0]:
            del texts[0]
        return " | ".join(texts)

    def _joined(self, container: etree._Element) -> str:
        return " ".join(text for text in self._texts(container) if text)

    def _texts(self, container: etree._Element) -> Iterator[str]:
        for block in self._blocks(container):
            if isinstance(block, Inline):
                marker = self._styles.marker(block.properties).lstrip()
                yield marker + block.text if block.text.strip() else ""
                for box in block.boxes:
                    yield from self._texts(box)
                yield from map(self._part_text, block.objects)
            elif local(block) == "tbl":
                yield "; ".join(filter(None, (self._row_text(list(_children(row, {"tc"}))) for row in _rows(block))))
            else:
                yield self._part_text(value(block, "id") or "")

    def _part_text(self, relation: str) -> str:
        found = self._open_part(relation)
        return "" if found is None else found.text


def _children(container: etree._Element, wanted: frozenset[str] | set[str]) -> Iterator[etree._Element]:
    for item in container:
        name = local(item)
        if name in wanted:
            yield item
        elif name == "AlternateContent":
            found = (list(_children(alternative, wanted)) for alternative in item)
            yield from next(filter(None, found), ())
        elif name in _PASSED_THROUGH:
            yield from _children(item, wanted)


def _rows(table: etree._Element) -> Iterator[etree._Element]:
    for row in _children(table, {"tr"}):
        properties = child(row, "trPr")
        if properties is None or child(properties, "del") is None:
            yield row


def _starts_here(cell: etree._Element) -> bool:
    """Tell whether the cell is no deleted one, and no continuation of a merge, which was read where it began."""
    properties = child(cell, "tcPr")
    if properties is None:
        return True
    if child(properties, "cellDel") is not None:
        return False
    merges = [item for item in properties if local(item) in ("vMerge", "hMerge")]
    continues = any(value(merge, "val") != "restart" for merge in merges)
    return not continues or any(local(item) == "t" and (item.text or "").strip() for item in cell.iter())


def _end_is_gone(properties: etree._Element | None) -> bool:
    mark = None if properties is None else child(properties, "rPr")
    return mark is not None and any(flag(mark, name) for name in ("del", "moveFrom", "vanish"))
