"""Write the binary files of the example corpus (PDF, DOCX, PNG) from the sources in `content/`.

The text files under `corpus/` are their own sources; everything that cannot be read in an editor is made here:

    python examples/make_corpus.py

Running it again writes the same bytes. It needs `pip install "ingest-assets[examples]"`.
"""

from __future__ import annotations

import io
import random
import re
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import reportlab
from docx import Document
from docx.document import Document as DocxDocument
from docx.table import Table as DocxTable
from docx.text.paragraph import Paragraph as DocxParagraph
from markdown_it import MarkdownIt
from markdown_it.token import Token
from PIL import Image, ImageDraw, ImageFont
from pypdf import PdfReader, PdfWriter
from pypdf.errors import PyPdfError
from reportlab.lib import colors
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import mm
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import BaseDocTemplate, Flowable, Frame, PageBreak, PageTemplate, Paragraph, Spacer, Table
from reportlab.platypus.tableofcontents import TableOfContents

HERE = Path(__file__).resolve().parent
CONTENT = HERE / "content"
CORPUS = HERE / "corpus"
TROUBLE = HERE / "trouble"
COMPANY = "Halden Water Works"
WRITTEN = datetime(2024, 10, 1, 8, 0, tzinfo=UTC)
PASSWORD = "halden-1887"  # opens trouble/salary-minutes.pdf
MERGE_LEFT, MERGE_UP = "<", "^"  # a table cell that belongs to its left or upper neighbour


# Content: a small subset of Markdown, read into blocks


@dataclass(frozen=True)
class Span:
    """A piece of a line in one face."""

    text: str
    face: str = ""  # "", "b" or "i"


Line = list[Span]


@dataclass(frozen=True)
class Heading:
    """A heading; level 1 starts a chapter."""

    level: int
    text: str


@dataclass(frozen=True)
class Text:
    """One paragraph."""

    line: Line


@dataclass(frozen=True)
class Items:
    """A list, numbered or not."""

    lines: list[Line]
    numbered: bool


@dataclass(frozen=True)
class Grid:
    """A table; its first row is the heading."""

    rows: list[list[Line]]


Block = Heading | Text | Items | Grid


def spans(token: Token) -> Line:
    """The pieces of an inline token."""
    line, face = [], ""
    for child in token.children or []:
        if child.type in ("strong_open", "em_open"):
            face = "b" if child.type == "strong_open" else "i"
        elif child.type in ("strong_close", "em_close"):
            face = ""
        else:
            line.append(Span(" " if child.type == "softbreak" else child.content, face))
    return line


def read_blocks(path: Path) -> list[Block]:
    """Parse a content file."""
    tokens = MarkdownIt("commonmark").enable("table").parse(path.read_text(encoding="utf-8"))
    return list(blocks(iter(tokens)))


def blocks(tokens: Iterator[Token]) -> Iterator[Block]:
    """Turn the parser's tokens into blocks."""
    for token in tokens:
        if token.type == "heading_open":
            yield Heading(int(token.tag[1]), next(tokens).content)
        elif token.type == "paragraph_open":
            yield Text(spans(next(tokens)))
        elif token.type in ("bullet_list_open", "ordered_list_open"):
            closing = token.type.replace("open", "close")
            yield Items(list(lines(tokens, closing)), token.type.startswith("ordered"))
        elif token.type == "table_open":
            yield Grid(table_rows(tokens))


def lines(tokens: Iterator[Token], closing: str) -> Iterator[Line]:
    """Every inline line up to the closing token."""
    for token in tokens:
        if token.type == closing:
            return
        if token.type == "inline":
            yield spans(token)


def table_rows(tokens: Iterator[Token]) -> list[list[Line]]:
    """The rows of a table whose opening token has been read."""
    rows: list[list[Line]] = []
    for token in tokens:
        if token.type == "table_close":
            break
        if token.type == "tr_open":
            rows.append(list(lines(tokens, "tr_close")))
    return rows


def plain(line: Line) -> str:
    """A line without faces."""
    return "".join(span.text for span in line)


# PDF

BODY = ParagraphStyle("body", fontName="Helvetica", fontSize=10.5, leading=14.2, spaceAfter=6)
CELL = ParagraphStyle("cell", parent=BODY, fontSize=9, leading=11.5, spaceAfter=0)
HEAD_CELL = ParagraphStyle("head-cell", parent=CELL, fontName="Helvetica-Bold")
ITEM = ParagraphStyle("item", parent=BODY, leftIndent=16, bulletIndent=2, spaceAfter=4)
HEADINGS = [
    ParagraphStyle("h1", fontName="Helvetica-Bold", fontSize=20, leading=25, spaceAfter=12, keepWithNext=1),
    ParagraphStyle(
        "h2", fontName="Helvetica-Bold", fontSize=13.5, leading=18, spaceBefore=9, spaceAfter=5, keepWithNext=1
    ),
    ParagraphStyle(
        "h3", fontName="Helvetica-Bold", fontSize=11, leading=15, spaceBefore=6, spaceAfter=3, keepWithNext=1
    ),
]
TITLE = ParagraphStyle("title", parent=HEADINGS[0], fontSize=30, leading=38)
CONTENTS = [
    ParagraphStyle("toc1", parent=BODY, fontName="Helvetica-Bold", spaceBefore=4, spaceAfter=1),
    ParagraphStyle("toc2", parent=BODY, fontSize=9, leading=11.5, leftIndent=12, spaceAfter=0),
]


class Manual(BaseDocTemplate):  # type: ignore[misc]  # reportlab carries no types
    """A document with a running header, page numbers, an outline and, on request, a table of contents."""

    def __init__(self, target: Path | io.BytesIO, title: str, subject: str, number: str) -> None:
        """Open `target`; `number` is the document number in the footer."""
        name = target if isinstance(target, io.BytesIO) else str(target)
        super().__init__(
            name, pagesize=A4, title=title, author=COMPANY, subject=subject, invariant=1, lang="en-GB",
            leftMargin=24 * mm, rightMargin=24 * mm, topMargin=26 * mm, bottomMargin=24 * mm,
        )  # fmt: skip
        self.number, self.chapter = number, ""
        frame = Frame(self.leftMargin, self.bottomMargin, self.width, self.height, id="text")
        self.addPageTemplates(PageTemplate("page", [frame], onPageEnd=self.furniture))

    def beforeDocument(self) -> None:
        """Forget the last chapter of the previous pass."""
        self.chapter = ""

    def furniture(self, canvas: Canvas, _: BaseDocTemplate) -> None:
        """Draw the running header and the footer."""
        right, top = A4[0] - self.rightMargin, A4[1] - 16 * mm
        canvas.setFont("Helvetica", 8)
        canvas.drawString(self.leftMargin, top, f"{COMPANY} - {self.title}")
        canvas.drawRightString(right, top, self.chapter if self.chapter != self.title else "")
        canvas.line(self.leftMargin, top - 4, right, top - 4)
        canvas.drawString(self.leftMargin, 14 * mm, self.number)
        canvas.drawRightString(right, 14 * mm, f"Page {canvas.getPageNumber()}")

    def afterFlowable(self, flowable: Flowable) -> None:
        """Enter headings into the outline and the table of contents."""
        name = getattr(getattr(flowable, "style", None), "name", "")
        if not re.fullmatch(r"h[12]", name):
            return
        level, text = int(name[1]) - 1, flowable.getPlainText()
        key = f"heading-{self.seq.nextf('heading')}"
        if level == 0:
            self.chapter = text
        self.canv.bookmarkPage(key)
        self.canv.addOutlineEntry(text, key, level, closed=level == 0)
        self.notify("TOCEntry", (level, escape(text), self.page, key))


def markup(line: Line) -> str:
    """A line in the markup of reportlab."""
    plain(line).encode("cp1252")  # the built-in fonts have no other letters
    return "".join(f"<{s.face}>{escape(s.text)}</{s.face}>" if s.face else escape(s.text) for s in line)


def pdf_table(rows: list[list[Line]], widths: list[float] | None = None) -> Table:
    """A ruled table whose columns share the page by the length of their text."""
    cells = [[Paragraph(markup(c), CELL if n else HEAD_CELL) for c in row] for n, row in enumerate(rows)]
    table = Table(cells, colWidths=widths or column_widths(rows), repeatRows=1, spaceBefore=4, spaceAfter=10)
    table.setStyle([
        ("GRID", (0, 0), (-1, -1), 0.4, colors.grey),
        ("BACKGROUND", (0, 0), (-1, 0), colors.HexColor("#e8eef2")),
        ("VALIGN", (0, 0), (-1, -1), "TOP"),
    ])  # fmt: skip
    return table


def column_widths(rows: list[list[Line]]) -> list[float]:
    """Widths in proportion to the longest cell of each column, within bounds."""
    longest = [min(max(len(plain(row[i])) for row in rows), 40) + 6 for i in range(len(rows[0]))]
    return [(A4[0] - 48 * mm) * length / sum(longest) for length in longest]


def pdf_block(block: Block) -> list[Flowable]:
    """One block as reportlab flowables."""
    if isinstance(block, Heading):
        return [Paragraph(escape(block.text), HEADINGS[block.level - 1])]
    if isinstance(block, Text):
        return [Paragraph(markup(block.line), BODY)]
    if isinstance(block, Grid):
        return [pdf_table(block.rows)]
    bullets = [f"{n}." if block.numbered else "-" for n in range(1, len(block.lines) + 1)]
    return [Paragraph(markup(line), ITEM, bulletText=b) for line, b in zip(block.lines, bullets, strict=True)]


def chapter(path: Path, number: int | None) -> list[Flowable]:
    """A content file as a chapter on a new page, numbered when it has a number."""
    story: list[Flowable] = [PageBreak()]
    for block in read_blocks(path):
        if isinstance(block, Heading) and block.level == 1 and number:
            block = Heading(1, f"{number}. {block.text}")
        story += pdf_block(block)
    return story


def data_sheet(sheet: dict[str, Any]) -> list[Flowable]:
    """One page about one piece of equipment."""
    rows = [[[Span("Property")], [Span("Value")]], *([[Span(k)], [Span(v)]] for k, v in sheet["data"])]
    story: list[Flowable] = [Paragraph(escape(f"{sheet['tag']}: {sheet['name']}"), HEADINGS[1])]
    story.append(Paragraph(escape(f"Site: {sheet['site']}. {sheet['purpose']}"), BODY))
    story.append(pdf_table(rows, [60 * mm, 100 * mm]))
    for title, key in (("Operation", "operation"), ("Care", "care")):
        story += [Paragraph(title, HEADINGS[2]), Paragraph(escape(sheet[key]), BODY)]
    return story


def data_sheets(number: int) -> list[Flowable]:
    """The chapter of equipment data sheets."""
    sheets = tomllib.loads((CONTENT / "manual" / "equipment.toml").read_text(encoding="utf-8"))["sheet"]
    intro = f"The {len(sheets)} sheets follow the water from the lake to the tap. Each stands on a page of its own."
    story: list[Flowable] = [PageBreak(), Paragraph(f"{number}. Equipment data sheets", HEADINGS[0])]
    story.append(Paragraph(intro, BODY))
    for position, sheet in enumerate(sheets):
        story += [PageBreak()] if position else []
        story += data_sheet(sheet)
    return story


def write_manual(target: Path | io.BytesIO) -> None:
    """The operations and maintenance manual."""
    toc = TableOfContents(levelStyles=CONTENTS, dotsMinLevel=-1)
    story: list[Flowable] = [Spacer(1, 60 * mm), Paragraph("Operations and maintenance manual", TITLE)]
    story += [Paragraph(f"{COMPANY}. Document OM-100, revision 7, October 2024.", BODY), PageBreak()]
    story += [Paragraph("Contents", ParagraphStyle("contents", parent=HEADINGS[0])), toc]
    *chapters, appendix = sorted((CONTENT / "manual").glob("*.md"))
    for number, path in enumerate(chapters, 1):
        story += chapter(path, number)
    story += data_sheets(len(chapters) + 1) + chapter(appendix, None)
    manual = Manual(target, "Operations and maintenance manual", "Water supply plant", "OM-100, revision 7")
    manual.multiBuild(story)


def write_report(target: Path | io.BytesIO, source: Path, number: str) -> None:
    """A short PDF from one content file."""
    story = [flowable for block in read_blocks(source) for flowable in pdf_block(block)]
    title = next(block.text for block in read_blocks(source) if isinstance(block, Heading))
    Manual(target, title, "Report", number).build([*story, Spacer(1, 4)])


# DOCX


def add_line(paragraph: DocxParagraph, line: Line) -> None:
    """Append a line to a paragraph."""
    for span in line:
        run = paragraph.add_run(span.text)
        run.bold, run.italic = span.face == "b" or None, span.face == "i" or None


def add_grid(document: DocxDocument, rows: list[list[Line]]) -> None:
    """Append a table; cells with a merge mark are joined to their neighbour."""
    table = document.add_table(len(rows), len(rows[0]), style="Table Grid")
    for r, row in enumerate(rows):
        for c, line in enumerate(row):
            if plain(line) not in (MERGE_LEFT, MERGE_UP):
                table.cell(r, c).text = plain(line)
    for r, row in enumerate(rows):
        for c, line in enumerate(row):
            merge(table, r, c, plain(line))


def merge(table: DocxTable, row: int, column: int, mark: str) -> None:
    """Join one cell to the neighbour that its mark names."""
    if mark in (MERGE_LEFT, MERGE_UP):
        other = (row, column - 1) if mark == MERGE_LEFT else (row - 1, column)
        table.cell(*other).merge(table.cell(row, column))
        drop_blank_paragraphs(table, row, column)


def drop_blank_paragraphs(table: DocxTable, row: int, column: int) -> None:
    """Remove the empty paragraphs that a merge leaves behind."""
    for paragraph in table.cell(row, column).paragraphs[1:]:
        if not paragraph.text:
            paragraph._p.getparent().remove(paragraph._p)


def add_block(document: DocxDocument, block: Block) -> None:
    """Append one block."""
    if isinstance(block, Heading):
        document.add_heading(block.text, block.level)
    elif isinstance(block, Text):
        add_line(document.add_paragraph(), block.line)
    elif isinstance(block, Grid):
        add_grid(document, block.rows)
    else:
        for line in block.lines:
            add_line(document.add_paragraph(style="List Number" if block.numbered else "List Bullet"), line)


def write_docx(target: Path, source: Path) -> None:
    """A Word document from one content file."""
    document, content = Document(), read_blocks(source)
    properties = document.core_properties
    properties.title = next(block.text for block in content if isinstance(block, Heading))
    properties.author = properties.last_modified_by = COMPANY
    properties.created = properties.modified = WRITTEN
    properties.comments = ""
    document.sections[0].header.paragraphs[0].text = f"{COMPANY} - {properties.title}"
    for block in content:
        add_block(document, block)
    buffer = io.BytesIO()
    document.save(buffer)
    target.write_bytes(with_fixed_times(buffer))


def with_fixed_times(archive: io.BytesIO) -> bytes:
    """The same zip with the same time on every member."""
    out = io.BytesIO()
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(zipfile.ZipInfo(name, WRITTEN.timetuple()[:6]), old.read(name), zipfile.ZIP_DEFLATED)
    return out.getvalue()


# Files that cannot be ingested, one for each reason


def write_encrypted(target: Path) -> None:
    """A PDF that asks for a password. Encryption is random, so a file that is already right is left alone."""
    buffer = io.BytesIO()
    write_report(buffer, CONTENT / "trouble" / "salary-minutes.md", "SC-2024-02")
    text = PdfReader(buffer).pages[0].extract_text()
    if opened_text(target) == text:
        return
    writer = PdfWriter(clone_from=buffer)
    writer.encrypt(user_password=PASSWORD, algorithm="AES-256")
    writer.write(target)


def opened_text(path: Path) -> str | None:
    """The first page of the encrypted file as it is, None when it is absent or does not open."""
    try:
        return PdfReader(path, password=PASSWORD).pages[0].extract_text()
    except (OSError, PyPdfError):
        return None


def font(size: int) -> ImageFont.FreeTypeFont:
    """The typeface that comes with reportlab, for drawing pictures of text."""
    return ImageFont.truetype(Path(reportlab.__file__).parent / "fonts" / "Vera.ttf", size)


def picture_of_page(text: str) -> Image.Image:
    """A page as a scanner sees it: slightly turned, speckled, black and white."""
    page = Image.new("L", (827, 1169), 255)
    ImageDraw.Draw(page).multiline_text((90, 120), text, fill=0, font=font(19), spacing=14)
    page, speck = page.rotate(0.8, fillcolor=255), random.Random(1887)
    for _ in range(300):
        page.putpixel((speck.randrange(page.width), speck.randrange(page.height)), 0)
    return page.convert("1", dither=Image.Dither.NONE)


def write_scan(target: Path) -> None:
    """A PDF whose only page is a picture."""
    text = (CONTENT / "trouble" / "delivery-note.txt").read_text(encoding="utf-8")
    canvas = Canvas(str(target), pagesize=A4, invariant=1)
    canvas.setTitle("Scan 0412")
    canvas.drawImage(ImageReader(picture_of_page(text)), 0, 0, *A4)
    canvas.save()


def write_truncated(target: Path) -> None:
    """The first part of a PDF: contents of pages, but neither pages nor catalog nor cross-reference table."""
    buffer = io.BytesIO()
    write_manual(buffer)
    objects = re.findall(rb"\d+ 0 obj.*?endobj\n", buffer.getvalue(), re.DOTALL)
    streams = b"".join(part for part in objects if b"endstream" in part)
    target.write_bytes(b"%PDF-1.4\n" + streams[:24_000])


def write_picture(target: Path) -> None:
    """A PNG, whatever its name says."""
    plan = Image.new("P", (480, 320), 0)
    plan.putpalette([255, 255, 255, 40, 60, 90, 130, 180, 220])
    draw = ImageDraw.Draw(plan)
    draw.ellipse((40, 60, 200, 220), outline=1, fill=2, width=3)
    draw.rectangle((260, 90, 430, 190), outline=1, width=3)
    draw.line((200, 140, 260, 140), fill=1, width=5)
    draw.text((90, 130), "Tank", fill=1, font=font(20))
    draw.text((290, 130), "Pump house", fill=1, font=font(20))
    plan.save(target, "PNG", optimize=True)


def write_corpus() -> None:
    """Write the documents that can be ingested."""
    write_manual(CORPUS / "manuals" / "maintenance-manual.pdf")
    burst = CONTENT / "reports" / "kestrel-lane-burst.md"
    write_report(CORPUS / "reports" / "kestrel-lane-burst.pdf", burst, "IR-2023-11")
    write_docx(CORPUS / "policies" / "staff handbook.docx", CONTENT / "policies" / "staff-handbook.md")
    write_docx(CORPUS / "policies" / "laboratory-methods.docx", CONTENT / "policies" / "laboratory-methods.md")


def write_trouble() -> None:
    """Write the documents that must end as dead letters."""
    TROUBLE.mkdir(exist_ok=True)
    write_encrypted(TROUBLE / "salary-minutes.pdf")
    write_scan(TROUBLE / "delivery-note-scan.pdf")
    write_truncated(TROUBLE / "interrupted-upload.pdf")
    write_picture(TROUBLE / "site-plan.pdf")
    (TROUBLE / "blank.txt").write_bytes(b"")


if __name__ == "__main__":
    write_corpus()
    write_trouble()
