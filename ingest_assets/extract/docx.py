"""DOCX: what a reader of the accepted document sees, in reading order.

What does not belong here: opening packages (package.py), styles and numbers (docx_styles.py), and the text
inside a paragraph (docx_inline.py). Comments are left out; pages do not exist in the format.
"""

from collections.abc import Iterator

from lxml import etree

from ingest_assets.errors import DocumentRejected, Reason
from ingest_assets.extract.assemble import LINE, PARAGRAPH, TextBuilder
from ingest_assets.extract.docx_inline import Inline, child, flag, local, value
from ingest_assets.extract.docx_styles import Styles
from ingest_assets.extract.package import Package
from ingest_assets.extract.sniff import Kind
from ingest_assets.records import Extracted

_MAIN_TYPE = ["wordprocessingml.document.main+xml", "wordprocessingml.template.main+xml"]
_MAIN_TYPE += ["ms-word.document.macroenabled.main+xml", "ms-word.template.macroenabledtemplate.main+xml"]
_PASSED_THROUGH = frozenset(
    ["sdt", "sdtContent", "customXml", "ins", "moveTo", "smartTag", "body", "hdr", "ftr", "footnote", "endnote"]
)
_PAGE_WORDS = 8  # letters: "Page 3 of 7" is no text
_PROPERTIES = {
    "title": "title",
    "creator": "author",
    "subject": "subject",
    "keywords": "keywords",
    "description": "description",
}


def extract_docx(data: bytes) -> Extracted:
    """Return the document's text with headings; core properties as properties.

    Raises DocumentRejected: `corrupt`, `too_large`, `encrypted`, and `unsupported_type` for other packages.
    """
    package = Package(data)
    name = _main_part(package)
    root = package.xml(name)
    body = next((item for item in root if local(item) == "body"), None) if root is not None else None
    if body is None:
        raise DocumentRejected(Reason.CORRUPT, "The package has no document body.")
    related = package.related(name)
    parts = dict(related.values())
    reader = _Reader(Styles(package.xml(parts.get("styles", "")), package.xml(parts.get("numbering", ""))))
    reader.read(body)
    for kind in ("footnotes", "endnotes"):
        reader.read_notes(package.xml(parts.get(kind, "")))
    reader.read_margins([package.xml(part) for kind, part in related.values() if kind in ("header", "footer")])
    return reader.builder.build(Kind.DOCX.value, _properties(package))


def _main_part(package: Package) -> str:
    name = next((part for kind, part in package.related("").values() if kind == "officeDocument"), "word/document.xml")
    declared = package.content_type(name).lower()
    if declared.endswith(tuple(_MAIN_TYPE)):
        if package.has(name):
            return name
        raise DocumentRejected(Reason.CORRUPT, "The package lacks its document part.")
    if not declared and package.has("word/document.xml"):
        raise DocumentRejected(Reason.CORRUPT, "The package does not declare its document part.")
    raise DocumentRejected(Reason.UNSUPPORTED_TYPE, "The content is a package (zip) that holds no Word document.")


def _properties(package: Package) -> dict[str, str]:
    try:
        root = package.xml("docProps/core.xml")
    except DocumentRejected:
        return {}  # a broken card does not spoil the letter
    if root is None:
        return {}
    found = {local(item): item.text or "" for item in root}
    return {ours: found[theirs] for theirs, ours in _PROPERTIES.items() if theirs in found}


class _Reader:
    """Walks blocks in order and hands them to the builder."""

    def __init__(self, styles: Styles) -> None:
        self.builder = TextBuilder()
        self._styles = styles
        self._in_list = False
        self._carried = ""  # text of a paragraph whose end mark was deleted: it runs on into the next

    def read(self, container: etree._Element) -> None:
        """Add every block inside the container."""
        for block in _blocks(container):
            if local(block) == "tbl":
                self._table(block)
            else:
                self._paragraph(block)

    def read_notes(self, root: etree._Element | None) -> None:
        """Add foot- or endnotes, one block each; separators are not notes."""
        for note in root if root is not None else ():
            if value(note, "type") in (None, "normal"):
                self.builder.add(" ".join(_cell_texts(note)))

    def read_margins(self, roots: list[etree._Element | None]) -> None:
        """Add each distinct page header and footer once; page numbers alone are no text."""
        texts = [" ".join(_cell_texts(root)) for root in roots if root is not None]
        for text in dict.fromkeys(text for text in texts if sum(map(str.isalpha, text)) > _PAGE_WORDS):
            self.builder.add(text)

    def _paragraph(self, paragraph: etree._Element) -> None:
        inline = Inline(paragraph)
        properties = child(paragraph, "pPr")
        text = self._carried + inline.text
        self._carried = ""
        if _mark_is_deleted(properties):
            self._carried = text
        elif text.strip():
            level = self._styles.level(properties)
            marker = self._styles.marker(properties)
            is_item = bool(marker) and level is None
            gap = LINE if is_item and self._in_list else PARAGRAPH
            self.builder.add(text, gap=gap, marker=marker, level=level)
            self._in_list = is_item
        for box in inline.boxes:
            self.read(box)

    def _table(self, table: etree._Element) -> None:
        gap = PARAGRAPH
        self._in_list = False
        for row in _rows(table):
            cells = list(_cells(row))
            if len(cells) == 1 or any(self._has_heading(cell) for cell in cells):
                for cell in cells:
                    self.read(cell)
                gap = PARAGRAPH
            else:
                self.builder.add(_row_text(cells), gap=gap)
                gap = LINE

    def _has_heading(self, cell: etree._Element) -> bool:
        return any(local(block) == "p" and self._styles.level(child(block, "pPr")) for block in _blocks(cell))


def _blocks(container: etree._Element) -> Iterator[etree._Element]:
    for item in container:
        name = local(item)
        if name in ("p", "tbl"):
            yield item
        elif name == "AlternateContent":
            yield from _blocks(item[0]) if len(item) else ()
        elif name in _PASSED_THROUGH:
            yield from _blocks(item)


def _children(container: etree._Element, wanted: str) -> Iterator[etree._Element]:
    for item in container:
        if local(item) == wanted:
            yield item
        elif local(item) in _PASSED_THROUGH:
            yield from _children(item, wanted)


def _rows(table: etree._Element) -> Iterator[etree._Element]:
    for row in _children(table, "tr"):
        properties = child(row, "trPr")
        if properties is None or child(properties, "del") is None:
            yield row


def _cells(row: etree._Element) -> Iterator[etree._Element]:
    """Yield the cells that start here: what a merge continues was read where it began."""
    for cell in _children(row, "tc"):
        properties = child(cell, "tcPr")
        merge = None if properties is None else child(properties, "vMerge")
        continues = merge is not None and value(merge, "val") != "restart"
        deleted = properties is not None and child(properties, "cellDel") is not None
        if not deleted and not (continues and not "".join(_cell_texts(cell)).strip()):
            yield cell


def _row_text(cells: list[etree._Element]) -> str:
    return " | ".join(" ".join(" ".join(_cell_texts(cell)).split()) for cell in cells).strip(" |")


def _cell_texts(container: etree._Element) -> Iterator[str]:
    for block in _blocks(container):
        if local(block) == "tbl":
            yield "; ".join(_row_text(list(_cells(row))) for row in _rows(block))
        else:
            inline = Inline(block)
            yield inline.text
            for box in inline.boxes:
                yield from _cell_texts(box)


def _mark_is_deleted(properties: etree._Element | None) -> bool:
    mark = None if properties is None else child(properties, "rPr")
    return mark is not None and (flag(mark, "del") or flag(mark, "moveFrom"))
