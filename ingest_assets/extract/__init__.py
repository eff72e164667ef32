"""The step that turns the bytes of one document into the text a reader would find in it.

What does not belong here: fetching bytes, cutting text into chunks, worker processes. Every format has
its module; this one chooses, bounds, and maps every surprise of a parser to a reason.
"""

import struct
import zlib
from collections.abc import Callable

from ingest_assets.errors import DocumentRejected, Reason
from ingest_assets.extract.docx import extract_docx
from ingest_assets.extract.html import extract_html
from ingest_assets.extract.markdown import extract_markdown
from ingest_assets.extract.normalise import visible_length
from ingest_assets.extract.pdf import extract_pdf
from ingest_assets.extract.plaintext import extract_text
from ingest_assets.extract.sniff import Kind, sniff
from ingest_assets.records import Extracted
from ingest_assets.settings import ExtractSettings

EXTRACTOR_VERSION: str = "1"  # changes whenever the text of some document can change

_READERS: dict[Kind, Callable[[bytes], Extracted]] = {
    Kind.PDF: extract_pdf,
    Kind.DOCX: extract_docx,
    Kind.HTML: extract_html,
    Kind.MARKDOWN: extract_markdown,
    Kind.TEXT: extract_text,
}


def extract(data: bytes, key: str, settings: ExtractSettings) -> Extracted:
    """Return the document's text with its pages and headings; the key only breaks ties among text types.

    Raises DocumentRejected for everything that a retry cannot mend, and nothing else, for any bytes.
    """
    _check_size(len(data), settings.max_bytes)
    try:
        kind = sniff(data, key)
        if kind not in (Kind.PDF, Kind.DOCX):
            _check_size(len(data), settings.max_text_bytes)
        extracted = _READERS[kind](data)
    except DocumentRejected:
        raise
    except Exception as error:  # parsers raise what they like; this is the one boundary
        raise _rejection(error) from error
    if visible_length(extracted.text, settings.min_characters) < settings.min_characters:
        raise _blank_rejection(extracted, settings.min_characters)
    return extracted


def _check_size(size_bytes: int, limit_bytes: int) -> None:
    if size_bytes > limit_bytes:
        raise DocumentRejected(Reason.TOO_LARGE, f"{size_bytes} bytes are more than the limit of {limit_bytes}.")


def _rejection(error: Exception) -> DocumentRejected:
    name = type(error).__name__
    if isinstance(error, MemoryError | RecursionError | OverflowError):
        return DocumentRejected(Reason.TOO_LARGE, f"Reading needs more memory or depth than is allowed ({name}).")
    if isinstance(error, zlib.error | struct.error | EOFError):
        return DocumentRejected(Reason.CORRUPT, f"The document's data is damaged ({name}).")
    return DocumentRejected(Reason.CORRUPT, f"The document cannot be read ({name}).")


def _blank_rejection(extracted: Extracted, min_characters: int) -> DocumentRejected:
    if extracted.pages and not extracted.text:
        count = len(extracted.pages)
        return DocumentRejected(Reason.NO_TEXT_LAYER, f"None of the {count} pages has text; they may be scans.")
    return DocumentRejected(Reason.EMPTY_DOCUMENT, f"The document has fewer than {min_characters} visible characters.")
