"""Finds the encoding of text without a declaration, and tells text from binary.

What does not belong here: declarations inside a format (HTML's meta: see html_charset.py), and
the encodings of before Unicode (charset_legacy.py).
No function here ever puts U+FFFD in the place of a byte.
"""

import codecs
import re

from ingest_assets.errors import DocumentRejected, Reason
from ingest_assets.extract.charset_legacy import decode_legacy, telling_sample, wide_by_letters

_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\x0c\x1b\x08")) + b"\x7f"
_SAMPLE_BYTES = 65536
_LETTERS_BYTES = 4096
_SOME, _MANY, _NEARLY_ALL = 0.02, 0.4, 0.95  # shares of NUL at one place of each letter
_FOREIGN = re.compile("[\udc80-\udcff]")  # bytes that are not UTF-8, as Python smuggles them


def bom_encoding(data: bytes) -> tuple[str, int] | None:
    """Return (encoding, length of the mark), or None where the data has no byte order mark."""
    return next(((name, len(bom)) for bom, name in _BOMS if data.startswith(bom)), None)


def wide_encoding(data: bytes) -> str | None:
    """Return the UTF-16 or UTF-32 encoding that the pattern of NUL bytes or the letters prove, without a mark."""
    sample = data[:_SAMPLE_BYTES]
    if 0 not in sample:
        return None if _is_utf8(sample) else wide_by_letters(sample[:_LETTERS_BYTES])
    nuls = [sample[offset::4].count(0) / max(1, len(sample[offset::4])) for offset in range(4)]
    if min(nuls[2:]) > _NEARLY_ALL and nuls[0] < _MANY:
        return _proven(data, "utf-32-le")
    if min(nuls[:2]) > _NEARLY_ALL and nuls[3] < _MANY:
        return _proven(data, "utf-32-be")
    even, odd = (nuls[0] + nuls[2]) / 2, (nuls[1] + nuls[3]) / 2
    if odd > _SOME and odd > 10 * even:
        return _proven(data, "utf-16-le")
    if even > _SOME and even > 10 * odd:
        return _proven(data, "utf-16-be")
    return wide_by_letters(sample[:_LETTERS_BYTES])


def looks_binary(data: bytes) -> bool:
    """Tell whether the data is no text in any encoding we read."""
    if bom_encoding(data) or wide_encoding(data):
        return False
    sample = data if len(data) <= 2 * _SAMPLE_BYTES else data[:_SAMPLE_BYTES] + data[-_SAMPLE_BYTES:]
    controls = len(sample) - len(sample.translate(None, _CONTROLS))
    return controls > max(2, len(sample) // 100)


def peek(data: bytes) -> str:
    """Return the start of a text for recognising its format; other letters than ASCII may be wrong."""
    mark = bom_encoding(data)
    encoding, skip = mark or (wide_encoding(data) or "latin-1", 0)
    return data[skip : skip + 4096].decode(encoding, "ignore")


def decode_text(data: bytes) -> str:
    """Decode text whose encoding nothing declares.

    Raises DocumentRejected: `unsupported_type` where no encoding reads it, `corrupt` where it goes on in another than
    it begins in.
    """
    mark = bom_encoding(data)
    if mark:
        return _decode_known(data, *mark)
    wide = wide_encoding(data)
    if wide:
        return _decode_known(data, wide, 0)
    if looks_binary(data):
        raise DocumentRejected(Reason.UNSUPPORTED_TYPE, "The content is binary, not text in any encoding.")
    if b"\x1b$" in data or b"\x1b(" in data:
        return _decode_escapes(data)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _decode_mixed(data) or decode_legacy(data)


def _decode_known(data: bytes, encoding: str, skip: int) -> str:
    body = data[skip:]
    try:
        return body[: len(body) - len(body) % _unit(encoding)].decode(encoding, "surrogatepass")
    except UnicodeDecodeError:
        if encoding == "utf-8" and (text := _decode_mixed(body)):
            return text
    raise DocumentRejected(Reason.CORRUPT, f"The text begins as {encoding}, and goes on as something else.") from None


def _unit(encoding: str) -> int:
    return {"utf-16": 2, "utf-32": 4}.get(encoding[:6], 1)


def _proven(data: bytes, encoding: str) -> str | None:
    if len(data) % _unit(encoding):
        return None
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return None
    odd = sum(not char.isprintable() and not char.isspace() for char in text[:4096])
    return encoding if odd * 20 <= len(text[:4096]) else None


def _is_utf8(sample: bytes) -> bool:
    try:
        sample.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start >= max(1, len(sample) - 3)  # a letter may be cut off at the end
    return True


def _decode_escapes(data: bytes) -> str:
    for encoding in ("iso2022_jp_2", "iso2022_kr", "utf-8"):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    return decode_legacy(data)


def _decode_mixed(data: bytes) -> str | None:
    """Read UTF-8 with a few foreign bytes in it (joined logs, a cut end), or return None."""
    tail = re.search(rb"[\xc2-\xf4][\x80-\xbf]{0,2}\Z", data[-4:])
    is_cut = tail is not None and len(tail.group().decode("utf-8", "ignore")) == 0
    body = data[: len(data) - len(tail.group())] if tail and is_cut else data
    sample = telling_sample(body).decode("utf-8", "surrogateescape")
    foreign = len(_FOREIGN.findall(sample))
    native = sum(char > "\x7f" for char in sample) - foreign
    if native < 3 * foreign or native == 0:
        return None
    return _FOREIGN.sub(_foreign_byte, body.decode("utf-8", "surrogateescape"))


def _foreign_byte(match: re.Match[str]) -> str:
    return match.group().encode("utf-8", "surrogateescape").decode("cp1252", "ignore")
