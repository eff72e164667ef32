"""The raw text of PDF pages, as pdfium reads it, with what is needed to judge it.

What does not belong here: tidying text (pdf_tidy.py) and deciding about the document (pdf_judge.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from ingest_assets.extract.ocr import recognise
from ingest_assets.extract.pdf_actual_text import with_actual_text
from ingest_assets.extract.pdf_forms import with_annotations
from ingest_assets.extract.pdf_letters import Letters, with_whole_rows
from ingest_assets.extract.pdf_look import LineLook, line_looks, mark_gaps
from ingest_assets.extract.pdf_order import OrderSample, in_reading_order
from ingest_assets.extract.pdf_pages import LoadedPage, LoadedText
from ingest_assets.extract.pdf_running import MINIMUM_PAGES

_SAMPLE = 20  # characters of a page that are asked whether their font has a character map
_UNMAPPED_SHARE = 0.5
_STAMP = 30  # visible characters that may lie on a scan: a number, a fax line, a scanner's name
_SCAN_SHARE = 0.6  # of a page's area
_SHOWN_KINDS = (
    pdfium_c.FPDF_PAGEOBJ_IMAGE,
    pdfium_c.FPDF_PAGEOBJ_PATH,
    pdfium_c.FPDF_PAGEOBJ_SHADING,
    pdfium_c.FPDF_PAGEOBJ_TEXT,
)
_DEPTH = 5  # forms within forms
_OBJECT_LIMIT = 2_000  # of a page that are looked at


@dataclass(frozen=True, slots=True)
class Reading:
    """What is known before the pages are read."""

    has_actual_text: bool
    annotated_pages: frozenset[int] | None  # 1-based; None where it is not known
    has_outline: bool
    languages: str | None  # in which scans are recognised; None where they are not
    order: OrderSample


@dataclass(frozen=True, slots=True)
class PageText:
    """One page as it was read."""

    text: str  # lines end with CRLF; U+FFFE stands for a hyphen at a line end, a tab for a wide gap
    unmapped_share: float  # 0..1 of the sampled characters whose meaning the font does not tell
    lines: tuple[LineLook, ...] = ()  # where they are asked for
    has_picture: bool = False  # looked at only where there is little text
    is_scan: bool = False  # a picture covers the page, and the text is no more than a stamp on it
    confidence: float | None = None  # 0..100, where the text was recognised


def read_pages(document: pdfium.PdfDocument, reading: Reading) -> Iterator[PageText | None]:
    """Yield every page in order, None for one that cannot be loaded."""
    for index in range(len(document)):
        try:
            page = LoadedPage(document, index)
        except pdfium.PdfiumError:
            yield None
            continue
        try:
            yield _read(document, page, index, reading)
        except pdfium.PdfiumError:
            yield None
        finally:
            page.unload()


def _read(document: pdfium.PdfDocument, page: LoadedPage, index: int, reading: Reading) -> PageText:
    text_page = LoadedText(page)
    try:
        text = text_page.read()
        letters = Letters(text_page)
        text = with_whole_rows(letters, text)
        lines = () if reading.has_outline else tuple(line_looks(text_page, text))
        unmapped_share = _unmapped_share(text_page)
        spelled = with_actual_text(page, text_page, text) if reading.has_actual_text else text
        if spelled == text and reading.order.is_to_be_checked(page, index):
            spelled = in_reading_order(page, letters, text)
            reading.order.note(is_moved=spelled != text)
        if spelled == text and text and len(document) >= MINIMUM_PAGES:
            spelled = mark_gaps(page, letters, text)
        if reading.annotated_pages is None or index + 1 in reading.annotated_pages:
            spelled = with_annotations(document, page, text_page, spelled, is_moved=spelled != text)
    finally:
        text_page.unload()
    found = PageText(spelled, unmapped_share, lines)
    return _looked_at(page, found, reading.languages) if _says_little(found, reading.languages) else found


def _says_little(found: PageText, languages: str | None) -> bool:
    """Tell whether the page may be a picture of text; a font without a map matters where it can be recognised."""
    is_short = len(found.text) <= 2 * _STAMP and len("".join(found.text.split())) <= _STAMP
    return is_short or (languages is not None and found.unmapped_share > _UNMAPPED_SHARE)


def _looked_at(page: pdfium.PdfPage, found: PageText, languages: str | None) -> PageText:
    """Look at a page that says little: is it a picture, and what does it say when it is recognised?"""
    covered, has_picture, has_hidden_text = _pictures(page)
    # Text that is not shown lies over a scan to be found: it is what somebody recognised, however little.
    is_scan = bool(found.text.strip()) and covered >= _SCAN_SHARE and not has_hidden_text
    is_garbled = found.unmapped_share > _UNMAPPED_SHARE
    is_legible = bool(found.text.strip()) and not is_scan and not is_garbled
    if languages is not None and (has_picture or is_garbled) and not is_legible:
        recognised = recognise(page, languages)
        if recognised.text and (is_garbled or len(recognised.text) > len(found.text.strip())):
            return PageText(recognised.text, 0.0, has_picture=has_picture, confidence=recognised.confidence)
    return replace(found, has_picture=has_picture, is_scan=is_scan)


def _pictures(page: pdfium.PdfPage) -> tuple[float, bool, bool]:
    """Return the share of the page that one picture covers (0..1); whether more than text is drawn; is text hidden?"""
    width, height = page.get_size()
    covered, has_picture, has_hidden_text = 0.0, False, False
    for count, item in enumerate(page.get_objects(filter=_SHOWN_KINDS, max_depth=_DEPTH)):
        has_picture = has_picture or item.type != pdfium_c.FPDF_PAGEOBJ_TEXT
        if item.type == pdfium_c.FPDF_PAGEOBJ_IMAGE:
            left, bottom, right, top = item.get_bounds()
            covered = max(covered, (right - left) * (top - bottom) / max(1.0, width * height))
        if item.type == pdfium_c.FPDF_PAGEOBJ_TEXT:
            mode = pdfium_c.FPDFTextObj_GetTextRenderMode(item)
            has_hidden_text = has_hidden_text or mode == pdfium_c.FPDF_TEXTRENDERMODE_INVISIBLE
        if count > _OBJECT_LIMIT:
            break
    return covered, has_picture, has_hidden_text


def _unmapped_share(text_page: pdfium.PdfTextPage) -> float:
    """Return the share of letters without a meaning; spaces and line ends that pdfium adds do not count."""
    raw, count = text_page.raw, text_page.count_chars()
    step = max(1, count // _SAMPLE)
    unmapped = [index for index in range(0, count, step) if pdfium_c.FPDFText_HasUnicodeMapError(raw, index) == 1]
    if not unmapped:
        return 0.0
    asked = [index for index in range(0, count, step) if not pdfium_c.FPDFText_IsGenerated(raw, index)]
    return len(unmapped) / max(1, len(asked))
