"""Proves, before pdfium sees a PDF, that its streams are bounded, and tells whole pages from lost ones.

What does not belong here: text. Objects are read through pypdf; streams are inflated here, because the
question is how large they become and whether they end, not what they say.
"""

import logging
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO

from pypdf import PdfReader
from pypdf.errors import DependencyError, EmptyFileError
from pypdf.generic import ArrayObject, DictionaryObject, IndirectObject, StreamObject

from ingest_assets.errors import DocumentRejected, Reason

CONTENT_LIMIT_BYTES = 24 * 1024 * 1024  # inflated, of one page; pdfium needs twenty times that for its lines
LETTER_LIMIT = 3_000_000  # bytes of one page that are no drawing; pdfium needs a hundred times that for its letters
TEXT_LIMIT = 300_000  # text operators of one page
STREAM_LIMIT_BYTES = 64 * 1024 * 1024  # inflated, of a font or another helper
TOTAL_LIMIT_BYTES = 1024 * 1024 * 1024  # inflated, of all pages
PAGE_LIMIT = 20_000
_DEFLATE_RATIO = 1032  # no stream inflates further
_STEP_BYTES = 256 * 1024
_SKIPPED = re.compile(rb"/Subtype\s*/Image\b|/EmbeddedFile\b|/DCTDecode|/JPXDecode|/CCITTFaxDecode|/JBIG2Decode")
_FLATE = re.compile(rb"/Fl(?:ateDecode)?\b")
_DRAWING = b"0123456789.- \r\n\tlmchvyreWnfSsBbqQkgGKwJjMd*"
_ESCAPED = re.compile(rb"#([0-9A-Fa-f]{2})")

# Its warnings quote what it found in the file.
logging.getLogger("pypdf").setLevel(logging.CRITICAL)


@dataclass(frozen=True, slots=True)
class Structure:
    """What pypdf can prove about a PDF."""

    page_count: int
    lost_pages: tuple[int, ...]  # 1-based: their object or content is damaged or missing
    has_actual_text: bool  # some page spells out what its glyphs mean


@dataclass(slots=True)
class _Inflated:
    size_bytes: int = 0
    is_whole: bool = True
    has_actual_text: bool = False
    letters: int = 0
    texts: int = 0
    is_blank: bool = True  # nothing but NUL and white space


def read_structure(data: bytes) -> Structure | None:
    """Return what is known of the pages, or None where pypdf cannot read what pdfium may still repair.

    Raises DocumentRejected: `encrypted` (a user password is needed), `too_large`, `corrupt` (a page tree in itself).
    """
    _check_helpers(data)
    try:
        return _structure(list(_pages(_opened(data))))
    except (DocumentRejected, MemoryError):
        raise
    except (DependencyError, NotImplementedError) as error:
        raise DocumentRejected(Reason.ENCRYPTED, "The PDF uses an encryption that is not supported.") from error
    except EmptyFileError as error:
        raise DocumentRejected(Reason.EMPTY_DOCUMENT, "The object has no bytes.") from error
    except Exception:  # noqa: BLE001 - whatever pypdf stumbles over, pdfium decides what can be repaired
        return None


def _opened(data: bytes) -> PdfReader:
    reader = PdfReader(BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise DocumentRejected(Reason.ENCRYPTED, "The PDF is protected by a user password.")
    return reader


def _structure(pages: list[DictionaryObject | None]) -> Structure:
    lost, total, has_actual_text = [], 0, False
    for number, page in enumerate(pages, start=1):
        content = _Inflated(is_whole=False) if page is None else _content(page)
        total += content.size_bytes
        has_actual_text = has_actual_text or content.has_actual_text
        if not content.is_whole:
            lost.append(number)
        if total > TOTAL_LIMIT_BYTES:
            raise _too_large("The pages")
    return Structure(len(pages), tuple(lost), has_actual_text)


def _pages(reader: PdfReader) -> Iterator[DictionaryObject | None]:
    """Yield every page object in order, None for one that is missing; refuses trees that contain themselves."""
    root = reader.trailer["/Root"]
    if not isinstance(root, DictionaryObject):
        raise TypeError
    stack: list[tuple[object, frozenset[int]]] = [(root.raw_get("/Pages"), frozenset())]
    count = 0
    while stack:
        reference, above = stack.pop()
        number = reference.idnum if isinstance(reference, IndirectObject) else 0
        if number in above:
            raise DocumentRejected(Reason.CORRUPT, "The page tree of the PDF contains itself.")
        node = reference.get_object() if isinstance(reference, IndirectObject) else reference
        kids = node.get("/Kids") if isinstance(node, DictionaryObject) else None
        kids = kids.get_object() if kids is not None else None
        if isinstance(kids, ArrayObject):
            inside = above | {number} if number else above
            stack.extend((kid, inside) for kid in reversed(list(kids)))
        elif not (isinstance(node, DictionaryObject) and node.get("/Type") == "/Pages"):
            count += 1
            yield node if isinstance(node, DictionaryObject) and node.get("/Type", "/Page") == "/Page" else None
        if count + len(stack) > PAGE_LIMIT:
            raise DocumentRejected(Reason.TOO_LARGE, f"The PDF has more than {PAGE_LIMIT} pages.")


def _content(page: DictionaryObject) -> _Inflated:
    """Inflate a page's content, which may be one stream or several."""
    whole = _Inflated()
    if "/Contents" not in page:
        return whole
    contents = page["/Contents"]
    parts = [part.get_object() for part in contents] if isinstance(contents, ArrayObject) else [contents.get_object()]
    for part in parts:
        if not isinstance(part, StreamObject):
            whole.is_whole = False
            continue
        found = _inflate(bytes(part._data), _filters(part), CONTENT_LIMIT_BYTES - whole.size_bytes, is_page=True)  # noqa: SLF001 - get_data() would inflate it without our bounds
        whole.size_bytes += found.size_bytes
        whole.is_whole &= found.is_whole
        whole.has_actual_text |= found.has_actual_text
    return whole


def _filters(stream: StreamObject) -> list[str]:
    filters = stream.get("/Filter", ArrayObject())
    filters = filters.get_object()
    return [str(name) for name in filters] if isinstance(filters, ArrayObject) else [str(filters)]


def _inflate(data: bytes, filters: list[str], limit: int, *, is_page: bool) -> _Inflated:
    """Follow a chain of filters as far as it is Flate, in bounded memory; others hardly enlarge anything."""
    result = _Inflated()
    flates = [name for name in filters if name in ("/FlateDecode", "/Fl")]
    if len(flates) != len(filters):
        result.size_bytes = len(data)
        result.has_actual_text = True
        return result
    chain = [zlib.decompressobj(15 if layer else -15) for layer in range(len(flates))]
    # Without its two-byte header, a stream proves its end even when its checksum is wrong.
    skip = 2 if chain else 0
    for start in range(skip, len(data), _STEP_BYTES):
        _feed(chain, data[start : start + _STEP_BYTES], result, limit, is_page=is_page)
        if chain and chain[0].eof:
            break
    if chain and len(data) > skip:
        result.is_whole = result.is_whole and chain[0].eof
    if result.is_blank and len(data.strip(b"\x00")) == 0 and len(data) > skip:
        result.is_whole = False
    return result


def _feed(chain: list["zlib._Decompress"], piece: bytes, result: _Inflated, limit: int, *, is_page: bool) -> None:
    if not chain:
        result.size_bytes += len(piece)
        result.has_actual_text = result.has_actual_text or b"/ActualText" in piece
        result.is_blank = result.is_blank and not piece.strip(b"\x00 \t\r\n")
        result.letters += len(piece.translate(None, _DRAWING))
        result.texts += piece.count(b"Tj") + piece.count(b"TJ")
        if result.size_bytes > limit or (is_page and (result.letters > LETTER_LIMIT or result.texts > TEXT_LIMIT)):
            raise _too_large("A page")
        return
    pending = piece
    while pending and not chain[0].eof:
        try:
            output = chain[0].decompress(pending, _STEP_BYTES)
        except zlib.error:
            result.is_whole = False
            return
        pending = chain[0].unconsumed_tail
        if output:
            _feed(chain[1:], output, result, limit, is_page=is_page)


def _check_helpers(data: bytes) -> None:
    """Refuse bombs outside of pages (forms, fonts, object streams); pictures and attachments are never opened."""
    position = data.find(b"stream")
    while position >= 0:
        end = data.find(b"endstream", position + 6)
        end = len(data) if end < 0 else end
        head = _ESCAPED.sub(
            lambda match: bytes([int(match[1], 16)]), data[max(0, position - 1500) : position].rpartition(b"obj")[2]
        )
        layers = len(_FLATE.findall(head)) or (b"/Filter" in head and b" R" in head)
        if (
            layers
            and (layers > 1 or (end - position) * _DEFLATE_RATIO > STREAM_LIMIT_BYTES)
            and not _SKIPPED.search(head)
        ):
            body = data[position + 6 : end].lstrip(b"\r\n")
            _inflate(body, ["/FlateDecode"] * int(layers), STREAM_LIMIT_BYTES, is_page=False)
        position = data.find(b"stream", end + 9)


def _too_large(what: str) -> DocumentRejected:
    return DocumentRejected(Reason.TOO_LARGE, f"{what} of the PDF would take more memory than is allowed.")
