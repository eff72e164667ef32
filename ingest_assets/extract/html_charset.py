"""Decodes HTML as browsers do: byte order mark, then valid UTF-8, then the declaration, then windows-1252.

What does not belong here: guessing (charset.py). One deliberate difference from browsers: a declaration
is believed wherever it stands, not only in the first kilobyte.
"""

import codecs
import re

from ingest_assets.extract.charset import bom_encoding, decode_text, wide_encoding

_DECLARATION = re.compile(
    rb"<(?:meta\b[^>]{0,500}?charset\s*=|\?xml\b[^>]{0,200}?encoding\s*=)\s*[\"']?\s*([\w.:-]{2,40})", re.IGNORECASE
)
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
# What the labels mean on the web, where that is not what Python thinks.
_WEB_CODECS = {
    "iso8859-1": "cp1252", "ascii": "cp1252", "iso8859-9": "cp1254", "tis-620": "cp874", "iso8859-11": "cp874",
    "gb2312": "gb18030", "gbk": "gb18030", "hz": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949",
    "big5": "big5hkscs", "utf-16": "utf-8", "utf-16-le": "utf-8", "utf-16-be": "utf-8",
}  # fmt: skip
_LABELS = {
    "x-sjis": "cp932", "windows-31j": "cp932", "x-gbk": "gb18030", "gb_2312-80": "gb18030", "ks_c_5601-1987": "cp949",
    "x-user-defined": "cp1252", "unicode": "utf-8", "x-x-big5": "big5hkscs",
}  # fmt: skip

_NEVER_ON_THE_WEB = frozenset(("idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "utf-7"))


def decode_html(data: bytes) -> str:
    """Decode an HTML document. Raises DocumentRejected where a byte order mark lies."""
    if bom_encoding(data) or wide_encoding(data):
        return decode_text(data)
    declared = _declared(data)
    if declared and declared.startswith("iso2022"):
        return data.decode(declared, "ignore")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _decode_declared(data, declared)


def _decode_declared(data: bytes, declared: str | None) -> str:
    if declared == "utf-8":
        return decode_text(data)
    return data.decode(declared or "cp1252", "ignore")


def _declared(data: bytes) -> str | None:
    match = _DECLARATION.search(_COMMENT.sub(b"", data) if b"<!--" in data else data)
    if match is None:
        return None
    label = match.group(1).decode("ascii", "ignore").lower()
    if label in _LABELS:
        return _LABELS[label]
    try:
        info = codecs.lookup(label)
    except LookupError:
        return None
    # Python also calls rot13 and zip codecs, and knows encodings that no browser reads.
    if info.name in _NEVER_ON_THE_WEB:
        return None
    return _WEB_CODECS.get(info.name, info.name) if getattr(info, "_is_text_encoding", False) else None
