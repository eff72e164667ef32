"""Decides what a document is by its bytes; its name only breaks ties among text formats.

What does not belong here: reading the document. Packages (zip) are told apart by docx.py, which
opens them anyway; text is told from binary by charset.py.
"""

import re
from enum import Enum

import regex

from ingest_assets.errors import DocumentRejected, Reason
from ingest_assets.extract.charset import looks_binary, peek

HEAD_BYTES = 1024  # how far into a file readers look for %PDF-

_PDF_START = re.compile(rb"%PDF-\d")
_PDF_OBJECT = re.compile(rb"\d\s+\d+\s+obj\b")
# What may stand before the first element; possessive, or a row of comments takes exponential time.
_PROLOGUE = regex.compile(
    r"(?:\s++|<\?[^>]*+>|<!--(?:[^-]++|-(?!->))*+-->|<!(?!doctype\s+html|--)[^>\[]*+(?:\[[^\]]*+\]\s*+)?+>)*+",
    regex.IGNORECASE,
)
_HTML_START = re.compile(r"<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_SVG_START = re.compile(r"<(?:svg:)?svg\b", re.IGNORECASE)
_WORD_XML_START = re.compile(r"<(?:w:wordDocument|pkg:package|office:document)\b")
_MIME_FIELD = re.compile(rb"[A-Za-z][A-Za-z0-9-]{1,60}:|[ \t]")
_MIME_BODY = re.compile(
    rb"^content-type:\s*multipart/|^content-transfer-encoding:\s*(?:base64|quoted-printable)",
    re.IGNORECASE | re.MULTILINE,
)
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED_PACKAGE = "EncryptedPackage".encode("utf-16-le")
_OTHER_TYPES = (
    b"\x89PNG\r\n", b"\xff\xd8\xff", b"II*\x00", b"MM\x00*", b"\x1f\x8b", b"\x1f\x9d", b"7z\xbc\xaf", b"Rar!\x1a",
    b"\x7fELF", b"SQLite format 3\x00", b"{\\rtf", b"%!PS-", b"\xfd7zXZ", b"\x00\x00\x01\x00", b"\xca\xfe\xba\xbe",
    b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18", b"\x1aE\xdf\xa3", b"\xc5\xd0\xd3\xc6", b"\x80\x02", b"\x80\x03",
    b"\x80\x04\x95", b"\x80\x05\x95",
)  # fmt: skip
# These are words too: a text may begin with them, but it holds no NUL.
_OTHER_WORDS = (
    b"GIF87a", b"GIF89a", b"RIFF", b"OggS", b"ID3", b"BZh", b"wOFF", b"wOF2", b"8BPS", b"MZ", b"BM", b"PAR1", b"fLaC",
    b"bplist", b"OTTO", b"MSCF", b"AT&TFORM", b"!<arch>",
)  # fmt: skip
_MARKDOWN_NAMES = ("md", "markdown", "mdown", "mkd", "mdx")
_HTML_NAMES = ("html", "htm", "xhtml", "xht")
_TEXT_NAMES = ("txt", "text", "log", "csv", "tsv", "rst", "json", *_MARKDOWN_NAMES, *_HTML_NAMES)
# A text saved under one of these is an error page or a broken export, not the document it claims to be.
_BINARY_NAMES = (
    "pdf", "docx", "docm", "dotx", "dotm", "doc", "xlsx", "xls", "pptx", "ppt", "odt", "png", "jpg", "jpeg",
)  # fmt: skip


class Kind(Enum):
    """What we can read."""

    PDF = "application/pdf"
    DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    HTML = "text/html"
    MARKDOWN = "text/markdown"
    TEXT = "text/plain"


def sniff(data: bytes, key: str) -> Kind:
    """Return the document's kind; DOCX means "a package", which docx.py looks into.

    Raises DocumentRejected: `empty_document`, `encrypted` (a protected Office package), `unsupported_type`.
    """
    extension = _extension(key)
    if not data:
        raise DocumentRejected(Reason.EMPTY_DOCUMENT, "The object has no bytes.")
    kind = _kind(data, extension)
    if (extension == "pdf" and kind is not Kind.PDF) or (extension == "docx" and kind is not Kind.DOCX):
        raise DocumentRejected(Reason.UNSUPPORTED_TYPE, f"The name ends in .{extension}, the content is {kind.value}.")
    return kind


def _kind(data: bytes, extension: str) -> Kind:
    if _is_pdf(data, extension):
        return Kind.PDF
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")):
        return Kind.DOCX
    if data.startswith(_OLE):
        raise _ole_rejection(data)
    if data.startswith(_OTHER_TYPES) or _is_other_word(data) or looks_binary(data):
        raise DocumentRejected(Reason.UNSUPPORTED_TYPE, "The content is binary, of a type that is not read.")
    if extension in _BINARY_NAMES:
        raise DocumentRejected(Reason.UNSUPPORTED_TYPE, f"The name ends in .{extension}, the content is text.")
    if is_mime(data):
        raise DocumentRejected(Reason.UNSUPPORTED_TYPE, "The content is a mail or a saved web page (MIME).")
    return _text_kind(data, extension)


def is_mime(data: bytes) -> bool:
    """Tell whether the content begins with the head of a MIME message whose body is encoded or in parts."""
    head = data[:8192].lstrip().replace(b"\r\n", b"\n").partition(b"\n\n")[0]
    if b"mime-version:" not in head.lower() or not _MIME_BODY.search(head):
        return False
    return all(_MIME_FIELD.match(line) for line in head.split(b"\n"))


def _is_other_word(data: bytes) -> bool:
    return data.startswith(_OTHER_WORDS) and 0 in data[:512]


def _text_kind(data: bytes, extension: str) -> Kind:
    head = peek(data)
    start = _PROLOGUE.match(head)
    begins = head[start.end() if start else 0 :]
    if extension in _HTML_NAMES or _HTML_START.match(begins) or ("<?xml" in head[:200] and "<html" in head):
        return Kind.HTML
    if _SVG_START.match(begins):
        raise DocumentRejected(Reason.UNSUPPORTED_TYPE, "The content is a drawing (SVG).")
    if _WORD_XML_START.match(begins):
        raise DocumentRejected(Reason.UNSUPPORTED_TYPE, "The content is an office document in one XML file.")
    return Kind.MARKDOWN if extension in _MARKDOWN_NAMES else Kind.TEXT


def _is_pdf(data: bytes, extension: str) -> bool:
    start = _PDF_START.search(data, 0, HEAD_BYTES + 8)
    if start is None:
        return False
    at_start = not data[: start.start()].strip(b"\x00\xef\xbb\xbf \t\r\n\x0c")
    if at_start and extension not in _TEXT_NAMES:
        return True
    if not at_start and extension in _TEXT_NAMES and not looks_binary(data):
        return False
    # Text may mention the signature; a PDF also has objects and a way to find them.
    return bool(_PDF_OBJECT.search(data, start.end())) and (b"startxref" in data or b"trailer" in data)


def _ole_rejection(data: bytes) -> DocumentRejected:
    if _ENCRYPTED_PACKAGE in data:
        return DocumentRejected(Reason.ENCRYPTED, "The Office package is protected by a password.")
    return DocumentRejected(Reason.UNSUPPORTED_TYPE, "The content is an old Office file (OLE container).")


def _extension(key: str) -> str:
    name = key.rsplit("/", 1)[-1]
    return name.rsplit(".", 1)[-1].lower() if "." in name else ""
