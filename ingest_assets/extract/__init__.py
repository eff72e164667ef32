"""The step that turns the bytes of one document into the text a reader would find in it.

What does not belong here: fetching bytes, cutting text into chunks, the processes this runs in (`pool.py`). Every
format has its module; this one chooses, bounds, and maps every surprise of a parser to a reason.
"""

import logging
import struct
import zlib
from collections.abc import Callable

from ingest_assets.errors import DocumentRejected, EnvironmentProblem, Reason
from ingest_assets.extract.docx import extract_docx
from ingest_assets.extract.html import extract_html
from ingest_assets.extract.markdown import extract_markdown
from ingest_assets.extract.normalise import visible_length
from ingest_assets.extract.pdf import extract_pdf
from ingest_assets.extract.plaintext import extract_text
from ingest_assets.extract.sniff import Kind, sniff
from ingest_assets.records import Extracted
from ingest_assets.settings import ExtractSettings

logger = logging.getLogger(__name__)

EXTRACTOR_VERSION: str = "2"  # changes whenever the text of some document can change

_DAMAGED = (zlib.error, struct.error, EOFError)
_READERS: dict[Kind, Callable[[bytes], Extracted]] = {
    Kind.DOCX: extract_docx,
    Kind.MARKDOWN: extract_markdown,
    Kind.TEXT: extract_text,
}


def extractor_version(settings: ExtractSettings) -> str:
    """Name the extractor together with the settings that can change its answer."""
    main = "/main" if settings.main_content else ""
    recognised = f"/ocr-{settings.ocr_languages}" if settings.ocr else ""
    return f"{EXTRACTOR_VERSION}/min{settings.min_characters}{main}{recognised}"


def extract(data: bytes, key: str, settings: ExtractSettings) -> Extracted:
    """Return the document's text with its pages and headings; the key only breaks ties among text types.

    Raises DocumentRejected for everything that a retry cannot mend, EnvironmentProblem where this machine lacks what
    the settings ask for, and nothing else, for any bytes.
    """
    _check_size(len(data), settings.max_bytes)
    try:
        kind = sniff(data, key)
        if kind not in (Kind.PDF, Kind.DOCX):
            _check_size(len(data), settings.max_text_bytes)
        extracted = _read(data, kind, settings)
    except (DocumentRejected, EnvironmentProblem):
        raise
    except Exception as error:  # parsers raise what they like; this is the one boundary
        rejection = _rejection(error)
        if rejection.reason is Reason.CORRUPT and not isinstance(error, _DAMAGED):
            logger.warning("Nobody foresaw this error", exc_info=error)
        raise rejection from error
    if visible_length(extracted.text, settings.min_characters) < settings.min_characters:
        raise _blank_rejection(extracted, settings.min_characters)
    return extracted


def _read(data: bytes, kind: Kind, settings: ExtractSettings) -> Extracted:
    if kind is Kind.PDF:
        return extract_pdf(data, settings)
    if kind is Kind.HTML:
        return extract_html(data, main_content=settings.main_content)
    return _READERS[kind](data)


def _check_size(size_bytes: int, limit_bytes: int) -> None:
    if size_bytes > limit_bytes:
        raise DocumentRejected(Reason.TOO_LARGE, f"{size_bytes} bytes are more than the limit of {limit_bytes}.")


def _rejection(error: Exception) -> DocumentRejected:
    name = type(error).__name__
    if isinstance(error, MemoryError | RecursionError | OverflowError):
        return DocumentRejected(Reason.TOO_LARGE, f"Reading needs more memory or depth than is allowed ({name}).")
    if isinstance(error, _DAMAGED):
        return DocumentRejected(Reason.CORRUPT, f"The document's data is damaged ({name}).")
    return DocumentRejected(Reason.CORRUPT, f"The document cannot be read ({name}).")


def _blank_rejection(extracted: Extracted, min_characters: int) -> DocumentRejected:
    if extracted.pages and not extracted.text:
        count = len(extracted.pages)
        return DocumentRejected(Reason.NO_TEXT_LAYER, f"None of the {count} pages has text; they may be scans.")
    return DocumentRejected(Reason.EMPTY_DOCUMENT, f"The document has fewer than {min_characters} visible characters.")
