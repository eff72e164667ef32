"""Decodes HTML as browsers do: byte order mark, then valid UTF-8, then the declaration, then what it looks like.

What does not belong here: guessing (charset.py). Two deliberate differences from browsers: a declaration is
believed wherever it stands, not only in the first kilobyte, and it is not believed where the bytes refute it.
"""

import codecs
import re

from ingest_assets.errors import DocumentRejected
from ingest_assets.extract.charset import bom_encoding, decode_text, wide_encoding

_DECLARATION = re.compile(
    rb"<(?:meta\b[^>]{0,500}?charset\s*=|\?xml\b[^>]{0,200}?encoding\s*=)\s*[\"']?\s*([\w.:-]{2,40})", re.IGNORECASE
)
# What the labels mean on the web, where that is not what Python thinks.
_WEB_CODECS = {
    "iso8859-1": "cp1252", "ascii": "cp1252", "iso8859-9": "cp1254", "tis-620": "cp874", "iso8859-11": "cp874",
    "gb2312": "gb18030", "gbk": "gb18030", "hz": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949",
    "big5": "big5hkscs", "utf-16": "utf-8", "utf-16-le": "utf-8", "utf-16-be": "utf-8",
}  # fmt: skip
_LABELS = {
    "x-sjis": "cp932", "windows-31j": "cp932", "x-gbk": "gb18030", "gb_2312-80": "gb18030", "ks_c_5601-1987": "cp949",
    "x-user-defined": "cp1252", "unicode": "utf-8", "x-x-big5": "big5hkscs", "x-mac-cyrillic": "mac_cyrillic",
    "x-mac-ukrainian": "mac_cyrillic", "x-mac-roman": "mac_roman", "iso-8859-8-i": "iso8859_8", "windows-949": "cp949",
    "ksc5601": "cp949", "ksc_5601": "cp949", "windows-874": "cp874", "dos-874": "cp874", "x-euc-jp": "euc_jp",
    "x-euc-cn": "gb18030", "x-cp1250": "cp1250", "x-cp1251": "cp1251", "x-cp1252": "cp1252", "cn-gb": "gb18030",
}  # fmt: skip

_NO_LETTER = re.compile("[\ufffd\ue000-\uf8ff]")
_REFUTED = 20  # a declaration under which more than a twentieth of the letters are no letters is wrong
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
    if declared is None or declared == "utf-8":
        return _decode_undeclared(data)
    text = data.decode(declared, "replace")
    if len(_NO_LETTER.findall(text)) * _REFUTED > sum(char > "\x7f" for char in text):
        return _decode_undeclared(data)
    return text.replace("\ufffd", "")


def _decode_undeclared(data: bytes) -> str:
    try:
        return decode_text(data)
    except DocumentRejected:
        return data.decode("cp1252", "ignore")  # as browsers do where nothing fits


def _declared(data: bytes) -> str | None:
    match = _DECLARATION.search(_without_comments(data))
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


def _without_comments(data: bytes) -> bytes:
    kept = []
    position = 0
    while (start := data.find(b"<!--", position)) >= 0 and (end := data.find(b"-->", start + 4)) >= 0:
        kept.append(data[position:start])
        position = end + 3
    return b"".join(kept) + data[position:]
