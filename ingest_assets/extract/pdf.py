"""PDF: text by pages in reading order, with outline and properties.

What does not belong here: the parts it puts together, which are bounding and proving (pdf_guard.py),
reading pages (pdf_text.py), tidying them (pdf_tidy.py) and the outline (pdf_outline.py).
"""

import re

import pypdfium2 as pdfium
import regex

from ingest_assets.errors import DocumentRejected, Reason
from ingest_assets.extract.assemble import TextBuilder
from ingest_assets.extract.normalise import normalise
from ingest_assets.extract.pdf_guard import Structure, read_structure
from ingest_assets.extract.pdf_outline import outline_headings
from ingest_assets.extract.pdf_text import PageText, read_pages
from ingest_assets.extract.pdf_tidy import join_broken_words, without_running_lines
from ingest_assets.extract.sniff import Kind
from ingest_assets.records import Extracted, ExtractWarning

_PASSWORD_ERRORS = (4, 5)  # FPDF_ERR_PASSWORD, FPDF_ERR_SECURITY
_MEANINGLESS = regex.compile(r"[\p{Co}\p{Cn}\ufffd\x00-\x08\x0e-\x1f]")
_SHOWN = 20  # page numbers in one sentence
_PROPERTIES = {"Title": "title", "Author": "author", "Subject": "subject", "Keywords": "keywords"}


def extract_pdf(data: bytes) -> Extracted:
    """Return the text with one Page per page, headings from the outline, and document properties.

    Raises DocumentRejected: `encrypted`, `corrupt`, `too_large`, `garbled_text`, `empty_document` (no pages).
    """
    data = data[max(0, data.find(b"%PDF-", 0, 2048)) :]
    structure = read_structure(data)
    if structure is not None and structure.page_count == 0:
        raise DocumentRejected(Reason.EMPTY_DOCUMENT, "The PDF has no pages.")
    document = _open(data)
    try:
        return _extract(document, structure)
    finally:
        document.close()


def _extract(document: pdfium.PdfDocument, structure: Structure | None) -> Extracted:
    has_actual_text = structure is None or structure.has_actual_text
    try:
        raw = list(read_pages(document, has_actual_text=has_actual_text))
    except pdfium.PdfiumError as error:
        raise DocumentRejected(Reason.CORRUPT, "A page of the PDF is damaged or missing.") from error
    _check_whole(raw, structure)
    _check_meaning(raw)
    pages = without_running_lines([normalise(text) for text in join_broken_words([page.text for page in raw])])
    builder = TextBuilder()
    headings = outline_headings(document, pages)
    for index, text in enumerate(pages):
        builder.add_page(index + 1, text, headings.get(index, ()))
    return builder.build(Kind.PDF.value, _properties(document), _warnings(pages))


def _open(data: bytes) -> pdfium.PdfDocument:
    try:
        return pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        if getattr(error, "err_code", None) in _PASSWORD_ERRORS:
            raise DocumentRejected(Reason.ENCRYPTED, "The PDF is protected by a user password.") from error
        raise DocumentRejected(Reason.CORRUPT, "The PDF is damaged or cut off.") from error


def _check_whole(raw: list[PageText], structure: Structure | None) -> None:
    if structure is None:
        # Repaired by pdfium alone: a page without text may be a page that was lost.
        lost = [number for number, page in enumerate(raw, start=1) if not page.text.strip()]
    elif structure.page_count != len(raw):
        raise DocumentRejected(Reason.CORRUPT, f"The PDF names {structure.page_count} pages, {len(raw)} can be read.")
    else:
        lost = list(structure.lost_pages)
    if lost:
        shown = ", ".join(map(str, lost[:_SHOWN])) + (" …" if len(lost) > _SHOWN else "")
        raise DocumentRejected(Reason.CORRUPT, f"The content of these pages of the PDF is damaged or missing: {shown}.")


def _check_meaning(raw: list[PageText]) -> None:
    text = "".join(page.text for page in raw)
    visible = len(re.sub(r"\s", "", text))
    unmapped = sum(page.unmapped_share * len(page.text) for page in raw)
    if visible and (unmapped > 0.5 * len(text) or len(_MEANINGLESS.findall(text)) > 0.3 * visible):
        raise DocumentRejected(Reason.GARBLED_TEXT, "The fonts of the PDF do not tell which letters they show.")


def _properties(document: pdfium.PdfDocument) -> dict[str, str]:
    found = document.get_metadata_dict(skip_empty=True)
    return {ours: found[theirs] for theirs, ours in _PROPERTIES.items() if theirs in found}


def _warnings(pages: list[str]) -> list[ExtractWarning]:
    blank = tuple(number for number, text in enumerate(pages, start=1) if not text)
    if not blank or len(blank) == len(pages):
        return []
    detail = f"{len(blank)} of {len(pages)} pages have no text; they may be scans or blank."
    return [ExtractWarning("pages_without_text", detail, blank)]
