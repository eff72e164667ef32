"""Finds the encoding of text without a declaration, and tells text from binary.

What does not belong here: declarations inside a format (HTML's meta: see html_charset.py) and normalising.
No function here ever puts U+FFFD in the place of a byte.
"""

import codecs
import re

import charset_normalizer
import regex

from ingest_assets.errors import DocumentRejected, Reason

_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\x0c\x1b\x08")) + b"\x7f"
_SAMPLE_BYTES = 65536
_WESTERN = ("cp1252", "cp1250", "iso8859_2", "cp1254", "cp1257")
_MULTIBYTE = ("cp932", "euc_jp", "gb18030", "cp949", "big5")
# A letter never has such a neighbour in running text: the mark of a wrong single-byte encoding.
_ODD = regex.compile(r"(?<=\p{L})[^\p{L}\p{M}\p{P}\s\d](?=\p{L})|(?<=\p{Ll})[^\P{Lu}A-Z]|[\x80-\x9f]")
_WORDS = regex.compile(r"\p{L}")


def bom_encoding(data: bytes) -> tuple[str, int] | None:
    """Return (encoding, length of the mark), or None where the data has no byte order mark."""
    return next(((name, len(bom)) for bom, name in _BOMS if data.startswith(bom)), None)


def wide_encoding(data: bytes) -> str | None:
    """Return the UTF-16 or UTF-32 encoding that the pattern of NUL bytes proves, without a mark."""
    sample = data[:_SAMPLE_BYTES]
    if len(sample) < 4 or 0 not in sample:
        return None
    nuls = [sample[offset::4].count(0) / max(1, len(sample[offset::4])) for offset in range(4)]
    if min(nuls[1:]) > 0.4 and nuls[2] > 0.95:
        return _proven(data, "utf-32-le")
    if min(nuls[:3]) > 0.4 and nuls[1] > 0.95:
        return _proven(data, "utf-32-be")
    even, odd = (nuls[0] + nuls[2]) / 2, (nuls[1] + nuls[3]) / 2
    if odd > 0.02 and odd > 10 * even:
        return _proven(data, "utf-16-le")
    return _proven(data, "utf-16-be") if even > 0.02 and even > 10 * odd else None


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

    Raises DocumentRejected: `unsupported_type` where no encoding reads it, `corrupt` where it breaks its own mark.
    """
    mark = bom_encoding(data)
    if mark:
        return _decode_marked(data, *mark)
    wide = wide_encoding(data)
    if wide:
        return data.decode(wide, "surrogatepass")
    if looks_binary(data):
        raise DocumentRejected(Reason.UNSUPPORTED_TYPE, "The content is binary, not text in any encoding.")
    if b"\x1b$" in data or b"\x1b(" in data:
        return _decode_escapes(data)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _decode_mixed(data) or _decode_legacy(data)


def _decode_marked(data: bytes, encoding: str, skip: int) -> str:
    body = data[skip:]
    try:
        return body[: len(body) - len(body) % _unit(encoding)].decode(encoding, "surrogatepass")
    except UnicodeDecodeError:
        if encoding == "utf-8" and (text := _decode_mixed(body)):
            return text
    raise DocumentRejected(Reason.CORRUPT, f"The byte order mark says {encoding}, the bytes are not.") from None


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


def _decode_escapes(data: bytes) -> str:
    for encoding in ("iso2022_jp_2", "iso2022_kr", "utf-8"):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    return _decode_legacy(data)


def _decode_mixed(data: bytes) -> str | None:
    """Read UTF-8 with a few foreign bytes in it (joined logs, a cut end), or return None."""
    body = re.sub(rb"[\xc2-\xf4][\x80-\xbf]{0,2}\Z", b"", data)
    text = body.decode("utf-8", "surrogateescape")
    foreign = len(re.findall("[\udc80-\udcff]", text))
    native = len(re.findall("[^\x00-\x7f\udc80-\udcff]", text))
    if native < 10 * foreign or native == 0:
        return None
    return re.sub("[\udc80-\udcff]+", _foreign_bytes, text)


def _foreign_bytes(match: re.Match[str]) -> str:
    return match.group().encode("utf-8", "surrogateescape").decode("cp1252", "ignore")


def _decode_legacy(data: bytes) -> str:
    sample = _sample(data)
    high = [byte for byte in sample if byte >= 0x80]
    # Western text has a mark here and there; everything else is written in them.
    encoding = _best_western(sample) if len(high) * 4 < len(sample) else _best_dense(sample)
    text = _strictly(data, encoding) if encoding else None
    if text is None:
        raise DocumentRejected(Reason.UNSUPPORTED_TYPE, "The content is not text in any encoding that is read.")
    return text


def _sample(data: bytes) -> bytes:
    """Return lines that hold non-ASCII bytes: long ASCII parts would hide what decides."""
    lines = [line for line in data[: 64 * _SAMPLE_BYTES].splitlines(keepends=True) if not line.isascii()]
    return b"".join(lines)[:_SAMPLE_BYTES]


def _best_western(sample: bytes) -> str | None:
    scored = []
    for order, encoding in enumerate(_WESTERN):
        text = _strictly(sample, encoding)
        if text is not None:
            scored.append((len(_ODD.findall(text)), order, encoding))
    odd, _, encoding = min(scored, default=(len(sample), 0, ""))
    if odd * 4 > sum(byte >= 0x80 for byte in sample):
        return _best_dense(sample)
    return encoding


def _best_dense(sample: bytes) -> str | None:
    for encoding in _MULTIBYTE:
        text = _strictly(sample, encoding)
        if text is not None and _is_east_asian(text, encoding):
            return encoding
    best = charset_normalizer.from_bytes(sample).best()
    return best.encoding if best else None


def _is_east_asian(text: str, encoding: str) -> bool:
    return False


def _strictly(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except (UnicodeDecodeError, LookupError):
        return None
