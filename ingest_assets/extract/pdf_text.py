"""The raw text of PDF pages, as pdfium reads it, with what is needed to judge it.

What does not belong here: tidying text (pdf_tidy.py) and deciding about the document (pdf.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from ingest_assets.extract.pdf_actual_text import with_actual_text

_SAMPLE = 48  # characters of a page that are asked whether their font has a character map


@dataclass(frozen=True, slots=True)
class PageText:
    """One page as it was read."""

    text: str  # lines end with CRLF; U+FFFE stands for a hyphen at a line end
    unmapped_share: float  # 0..1 of the sampled characters whose meaning the font does not tell


def read_pages(document: pdfium.PdfDocument, *, has_actual_text: bool) -> Iterator[PageText]:
    """Yield every page in order. Raises PdfiumError for a page that cannot be loaded."""
    for index in range(len(document)):
        page = document[index]
        try:
            text_page = page.get_textpage()
            try:
                yield _read(page, text_page, has_actual_text=has_actual_text)
            finally:
                text_page.close()
        finally:
            page.close()


def _read(page: pdfium.PdfPage, text_page: pdfium.PdfTextPage, *, has_actual_text: bool) -> PageText:
    text = text_page.get_text_range()
    if has_actual_text:
        text = with_actual_text(page, text_page, text)
    return PageText(text, _unmapped_share(text_page))


def _unmapped_share(text_page: pdfium.PdfTextPage) -> float:
    count = text_page.count_chars()
    step = max(1, count // _SAMPLE)
    asked = [index for index in range(0, count, step) if not pdfium_c.FPDFText_IsGenerated(text_page, index)]
    unmapped = [index for index in asked if pdfium_c.FPDFText_HasUnicodeMapError(text_page, index) == 1]
    return len(unmapped) / max(1, len(asked))
