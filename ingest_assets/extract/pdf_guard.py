"""Proves, before pdfium sees a PDF, that its streams are bounded and end where they should.

What does not belong here: objects and pages (pdf_structure.py), and what the inflated streams say.
"""

import math
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from pypdf import filters as pypdf_filters
from pypdf.errors import LimitReachedError, PyPdfError
from pypdf.generic import ArrayObject, StreamObject

from ingest_assets.errors import DocumentRejected, Reason

CONTENT_LIMIT_BYTES = 24 * 1024 * 1024  # inflated, of one page; pdfium needs twenty times that for its lines
LETTER_LIMIT = 3_000_000  # bytes of one page that are no drawing; pdfium needs a hundred times that for its letters
TEXT_LIMIT = 300_000  # text operators of one page
STREAM_LIMIT_BYTES = 64 * 1024 * 1024  # inflated, of a font or another helper
_STEP_BYTES = 256 * 1024
_TRAILING_BYTES = 12  # of a whole stream: its checksum and line ends
_SKIPPED = re.compile(rb"/Subtype\s*/Image\b|/EmbeddedFile\b|/DCTDecode|/JPXDecode|/CCITTFaxDecode|/JBIG2Decode")
_FILTER = re.compile(
    rb"/(Fl(?:ateDecode)?|LZW(?:Decode)?|ASCII85Decode|A85|ASCIIHexDecode|AHx|RunLengthDecode|RL)\b(?!\s*(?:\d|\[|<<))"
)
_DRAWING = b"0123456789.- \r\n\tlmchvyreWnfSsBbqQkgGKwJjMd*"
_ESCAPED = re.compile(rb"#([0-9A-Fa-f]{2})")
_NUMBER = re.compile(rb"(\d+)\s+\d+\s*\Z")
_FONT = re.compile(rb"/Length1\b|/Subtype\s*/(?:Type1C|CIDFontType0C|OpenType)\b")
_SMALL_FORM_BYTES = 5_000  # one that draws itself as deep as pdfium goes is soon read
_HEAD_BYTES = 1500  # of a stream's dictionary
_NOTE = re.compile(rb"/(?:Widget|FreeText|Highlight|Underline|Squiggly|StrikeOut|Caret|#|Subtype\s*/Text\b)")
_FORM = re.compile(rb"/Subtype\s*/Form\b")
_FULL_NAMES = {
    "/Fl": "/FlateDecode", "/LZW": "/LZWDecode", "/A85": "/ASCII85Decode", "/AHx": "/ASCIIHexDecode",
    "/RL": "/RunLengthDecode",
}  # fmt: skip
_RATIOS = {"/FlateDecode": 1032, "/LZWDecode": 2730, "/RunLengthDecode": 64}  # no stream unpacks further


@dataclass(slots=True)
class Inflated:
    """What became of one stream."""

    size_bytes: int = 0
    is_whole: bool = True
    has_actual_text: bool = False
    letters: int = 0
    texts: int = 0
    draws: int = 0  # forms and pictures that are drawn
    is_blank: bool = True  # nothing but NUL and white space
    layers: int = 0  # of Flate
    checksum: int = 1  # of what the outermost layer gave
    uncounted: bytes = b""  # the first piece, which is counted when there is a second one


@dataclass(slots=True)
class Streams:
    """What the streams of a file are like."""

    suspects: list[tuple[int, list[str]]] = field(default_factory=list)  # (object number, filters) of large ones
    forms: int = 0  # content that pages draw
    has_notes: bool = False  # fields, notes or comments somewhere, in what is not encrypted
    # Of these, those that draw more than one other, or are large and draw one: (body, filters) by object number, up to
    # where they end in the file, which is what pdfium reads where the length is wrong.
    deep_forms: dict[int, list[tuple[bytes, list[str]]]] = field(default_factory=dict)


def inflate(data: bytes, filters: list[str], limit: int, *, is_page: bool) -> Inflated:
    """Follow a chain of filters in bounded memory. Raises DocumentRejected where it grows beyond the limit."""
    names = [_FULL_NAMES.get(name, name) for name in filters]
    result = Inflated()
    try:
        while names and set(names) != {"/FlateDecode"}:
            data, names = _unpack(data, names[0], max(limit, 1)), names[1:]
    except (PyPdfError, ValueError, IndexError, zlib.error):
        result.is_whole = False
        return result
    result.layers = len(names)
    chain = [zlib.decompressobj(15 if layer else -15) for layer in range(len(names))]
    # Without its two-byte header, a stream proves its end even when its checksum is wrong.
    skip = 2 if chain else 0
    for start in range(skip, len(data), _STEP_BYTES):
        _feed(chain, data[start : start + _STEP_BYTES], result, limit, is_page=is_page)
        if chain and chain[0].eof:
            break
    if chain and len(data) > skip:
        result.is_whole = result.is_whole and chain[0].eof and not _ends_early(chain[0], result.checksum)
    if result.is_blank and len(data.strip(b"\x00")) == 0 and len(data) > skip:
        result.is_whole = False
    return result


def _unpack(data: bytes, name: str, limit: int) -> bytes:
    """Undo one filter; those of pictures are left as they are, because nothing opens them."""
    if name in ("/FlateDecode", "/Fl"):
        result = zlib.decompressobj().decompress(data, limit + 1)
    elif name == "/LZWDecode":
        try:
            result = pypdf_filters.LZWDecode.decode(data, None)
        except LimitReachedError as error:
            raise too_large("A page") from error
    elif name == "/ASCII85Decode":
        result = pypdf_filters.ASCII85Decode.decode(data)
    elif name == "/ASCIIHexDecode":
        result = pypdf_filters.ASCIIHexDecode.decode(data)
    elif name == "/RunLengthDecode":
        try:
            result = pypdf_filters.RunLengthDecode.decode(data)
        except LimitReachedError as error:
            raise too_large("A page") from error
    else:
        result = data
    if len(result) > limit:
        raise too_large("A page")
    return result


def _ends_early(engine: "zlib._Decompress", checksum: int) -> bool:
    """Tell whether an end was read out of damaged bytes: the checksum is wrong, and much is left behind it."""
    rest = engine.unused_data
    return len(rest) > _TRAILING_BYTES and int.from_bytes(rest[:4], "big") != checksum


def _feed(chain: list["zlib._Decompress"], piece: bytes, result: Inflated, limit: int, *, is_page: bool) -> None:
    if not chain:
        result.size_bytes += len(piece)
        result.has_actual_text = result.has_actual_text or b"/ActualText" in piece
        result.is_blank = result.is_blank and not piece.strip(b"\x00 \t\r\n")
        if b"D" in piece:  # the letter alone is found much sooner
            result.draws += piece.count(b" Do")
        if is_page:
            _count(piece, result)
        if result.size_bytes > limit or result.letters > LETTER_LIMIT or result.texts > TEXT_LIMIT:
            raise too_large("A page")
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
            if len(chain) == result.layers:
                result.checksum = zlib.adler32(output, result.checksum)
            _feed(chain[1:], output, result, limit, is_page=is_page)


def _count(piece: bytes, result: Inflated) -> None:
    """Count letters and text operators, where there is enough for a bound to be reached."""
    if result.size_bytes == len(piece) <= min(LETTER_LIMIT, TEXT_LIMIT):
        result.uncounted = piece
        return
    for part in (result.uncounted, piece):
        result.letters += len(part.translate(None, _DRAWING))
        result.texts += part.count(b"Tj") + part.count(b"TJ")
    result.uncounted = b""


def check_streams(data: bytes) -> Streams:
    """Refuse bombs outside of pages (forms, fonts, object streams); pictures and attachments are never opened."""
    found = Streams(has_notes=_NOTE.search(b"\n".join(_between_streams(data))) is not None)
    for number, head, body in _streams(data):
        filters = _filters(head)
        if len(body) * _growth(filters) > STREAM_LIMIT_BYTES and not _SKIPPED.search(head):
            inflate(body, filters, STREAM_LIMIT_BYTES, is_page=False)
            found.suspects.append((number, filters))
        if b"/ObjStm" in head and not found.has_notes:
            found.has_notes = _NOTE.search(_opened(body, filters)) is not None
        if _FORM.search(head):
            found.forms += 1
            form = inflate(body, filters, STREAM_LIMIT_BYTES, is_page=False)
            if form.draws > (form.size_bytes < _SMALL_FORM_BYTES):
                found.deep_forms.setdefault(number, []).append((body, filters))
    return found


def _opened(body: bytes, filters: list[str]) -> bytes:
    """Return an object stream, empty where it cannot be read: then pypdf says so."""
    try:
        for name in filters:
            body = _unpack(body, _FULL_NAMES.get(name, name), STREAM_LIMIT_BYTES)
    except (PyPdfError, ValueError, IndexError, zlib.error):
        return b""
    return body


def check_damaged(data: bytes) -> None:
    """Refuse bombs in a file whose pages are not known, so that every stream may be the content of one."""
    for _, head, body in _streams(data):
        if not _SKIPPED.search(head) and not _FONT.search(head):
            inflate(body, _filters(head), CONTENT_LIMIT_BYTES, is_page=True)


def _streams(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield (object number, dictionary, body) of every stream, found by its keywords alone."""
    position = data.find(b"stream")
    while position >= 0:
        end = data.find(b"endstream", position + 6)
        end = len(data) if end < 0 else end
        above, _, head = data[max(0, position - _HEAD_BYTES) : position].rpartition(b"obj")
        number = _NUMBER.search(above[-40:])
        yield int(number[1]) if number else 0, head, data[position + 6 : end].lstrip(b"\r\n")
        position = data.find(b"stream", end + 9)


def _between_streams(data: bytes) -> Iterator[bytes]:
    """Yield what is not inside a stream: packed bytes look like anything."""
    start = 0
    while (position := data.find(b"stream", start)) >= 0:
        yield data[start:position]
        end = data.find(b"endstream", position + 6)
        if end < 0:
            return
        start = end + 9
    yield data[start:]


def _growth(filters: list[str]) -> int:
    return math.prod(_RATIOS.get(_FULL_NAMES.get(name, name), 1) for name in filters)


def _filters(head: bytes) -> list[str]:
    plain = _ESCAPED.sub(lambda match: bytes([int(match[1], 16)]), head) if b"#" in head else head
    found = [f"/{match[1].decode()}" for match in _FILTER.finditer(plain)]
    if not found and b"/Filter" in plain and b" R" in plain:
        return ["/FlateDecode"]
    return found


def unpacked(data: bytes, filters: list[str]) -> bytes:
    """Return what a chain of filters packed. Raises DocumentRejected where that is more than a page may have."""
    for name in filters:
        data = _unpack(data, _FULL_NAMES.get(name, name), CONTENT_LIMIT_BYTES)
    return data


def stream_filters(stream: StreamObject) -> list[str]:
    """Return the names of a stream's filters, in the order of undoing them."""
    filters = stream.get("/Filter", ArrayObject())
    filters = filters.get_object()
    return [str(name) for name in filters] if isinstance(filters, ArrayObject) else [str(filters)]


def too_large(what: str) -> DocumentRejected:
    """Return the refusal of something that unpacks beyond its bound."""
    return DocumentRejected(Reason.TOO_LARGE, f"{what} of the PDF would take more memory than is allowed.")
