"""PDF: text by pages in reading order, with headings and properties.

What does not belong here: the parts it puts together, which are bounding (pdf_guard.py), structure (pdf_structure.py),
reading pages (pdf_text.py), judging what was read (pdf_judge.py), tidying (pdf_tidy.py, pdf_running.py) and headings
(pdf_outline.py, pdf_headings.py).
"""

import pypdfium2 as pdfium

from ingest_assets.errors import DocumentRejected, Reason
from ingest_assets.extract.assemble import TextBuilder
from ingest_assets.extract.normalise import normalise
from ingest_assets.extract.ocr import require_engine
from ingest_assets.extract.pdf_headings import looked_headings
from ingest_assets.extract.pdf_judge import accepted_pages, warnings
from ingest_assets.extract.pdf_order import OrderSample
from ingest_assets.extract.pdf_outline import has_outline, outline_entries, place
from ingest_assets.extract.pdf_repair import recounted, with_trailer
from ingest_assets.extract.pdf_running import without_running_lines
from ingest_assets.extract.pdf_structure import Structure, read_structure
from ingest_assets.extract.pdf_text import PageText, Reading, read_pages
from ingest_assets.extract.pdf_tidy import join_accents, join_across_pages, join_broken_words
from ingest_assets.extract.sniff import Kind
from ingest_assets.records import Extracted
from ingest_assets.settings import ExtractSettings

_HEADER_BYTES = 2048  # in which a PDF may begin
_PASSWORD_ERRORS = (4, 5)  # FPDF_ERR_PASSWORD, FPDF_ERR_SECURITY
_PROPERTIES = {"Title": "title", "Author": "author", "Subject": "subject", "Keywords": "keywords"}


def extract_pdf(data: bytes, settings: ExtractSettings) -> Extracted:
    """Return the text with one Page per page, headings, and document properties.

    Raises DocumentRejected: `encrypted`, `corrupt`, `too_large`, `garbled_text`, `no_text_layer`, `unsupported_type`,
    `empty_document` (no pages). Raises EnvironmentProblem where scans are to be recognised and the engine is missing.
    """
    languages = settings.ocr_languages if settings.ocr else None
    if languages is not None:
        require_engine(languages)
    data = with_trailer(data[max(0, data.find(b"%PDF-", 0, _HEADER_BYTES)) :])
    structure = read_structure(data)
    if structure is not None and structure.page_count == 0:
        raise DocumentRejected(Reason.EMPTY_DOCUMENT, "The PDF has no pages.")
    document = _open(data)
    if structure is not None and len(document) != structure.page_count:
        document.close()
        document = _open(recounted(data, structure.tree, structure.page_count))
    try:
        return _extract(document, structure, languages)
    finally:
        document.close()


def _extract(document: pdfium.PdfDocument, structure: Structure | None, languages: str | None) -> Extracted:
    if structure is None or structure.has_form:
        document.init_forms()
    reading = Reading(
        has_actual_text=structure is None or structure.has_actual_text,
        annotated_pages=None if structure is None else structure.annotated_pages,
        has_outline=has_outline(document),
        languages=languages,
        order=OrderSample(),
    )
    read = accepted_pages(list(read_pages(document, reading)), structure)
    pages = _tidy(read)
    outline = outline_entries(document) if reading.has_outline else []
    headings = place(outline or looked_headings([page.lines for page in read]), pages, only_found=not outline)
    builder = TextBuilder()
    for index, text in enumerate(pages):
        builder.add_page(index + 1, text, headings.get(index, ()))
    return builder.build(Kind.PDF.value, _properties(document), warnings(read, pages, structure))


def _tidy(read: list[PageText]) -> list[str]:
    joined = join_broken_words(join_accents([page.text for page in read]))
    return join_across_pages(without_running_lines([normalise(text) for text in joined]))


def _open(data: bytes) -> pdfium.PdfDocument:
    try:
        return pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        if getattr(error, "err_code", None) in _PASSWORD_ERRORS:
            raise DocumentRejected(Reason.ENCRYPTED, "The PDF is protected by a user password.") from error
        raise DocumentRejected(Reason.CORRUPT, "The PDF is damaged or cut off.") from error


def _properties(document: pdfium.PdfDocument) -> dict[str, str]:
    found = document.get_metadata_dict(skip_empty=True)
    return {ours: found[theirs] for theirs, ours in _PROPERTIES.items() if theirs in found}
