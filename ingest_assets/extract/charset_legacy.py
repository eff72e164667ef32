"""Tells the encodings of before Unicode apart: Western and Central European, East Asian, other alphabets.

What does not belong here: Unicode, declarations, binary data, and the letters of languages (charset_letters.py). An
encoding is taken because what it reads looks like writing; where none does, the document is refused rather than
stored as mojibake.
"""

import codecs
import re
from collections.abc import Iterable

import regex

from ingest_assets.errors import DocumentRejected, Reason
from ingest_assets.extract.charset_letters import ALPHABETS, CHARACTERS, KNOWN, LATIN

_SAMPLE_BYTES = 16384
_TELLING = re.compile(rb"[^\n\x80-\xff]{0,60}(?:[\x80-\xff]+[^\n\x80-\xff]{0,60})+")
_ASCII = bytes(range(128))
_ASCII_END = 0x7F
_SHORTEST_WIDE = 4  # characters; two of them may be anything
# Shares (0..1) of a sample that a right reading explains; wrong ones explain 0 to 0.1, or half where alphabets overlap.
_ENOUGH_COMMON, _ENOUGH_LETTERS, _ENOUGH_LATIN, _ENOUGH_WIDE = 0.25, 0.55, 0.8, 0.4
_RARELY = 1000  # non-ASCII bytes for one that is damaged
_MIXED = 0.75  # share of foreign bytes beside others; in Latin letters they stand alone
_LETTERS = regex.compile(r"[^\x00-\x7f\p{P}\p{S}\p{Z}\p{M}]|[\u0e31-\u0e4e]")
_SIGNS = frozenset("“”‘’„‚‹›«»–—…•·°§€£¥¢©®™±²³½¼¾µ×÷¿¡†‰№ºª\xa0\xad")
# What running text never holds: a symbol or foreign capital inside a word, C1 controls, a row of accented letters.
_ODD = regex.compile(
    r"(?<=\p{L})[^\p{L}\p{M}\p{P}\s\d\x00-\x7f×÷](?=\p{L})|(?<=\p{L})[•†‡‰…¿¡](?=\p{L})|(?<=\p{Ll})[^\P{Lu}A-Z](?!\p{Lu})"
    r"|[\x80-\x9f]|[£¥¢®©¦§†‡¶](?=\p{Ll})|(?<=\p{L})[¿¡]"
)
_ROW = {encoding: regex.compile(r"(?:(?![A-Za-z])\p{L}){3,}") for encoding in ("cp1252", "cp850", "mac_roman")}
_LONG_ROW = regex.compile(r"(?:(?![A-Za-z])\p{L}){5,}")
_ODD_CASE = regex.compile(
    r"(?<=\p{Ll})[^\P{Lu}A-Z]|(?<=[^\P{Ll}a-z])[A-Z]|(?<=\p{L})(?![\x00-\x7f])[\p{S}†‡§]|[\x80-\x9f]"
)
_KANA = regex.compile(r"[\p{Hiragana}\p{Katakana}ー]")
_HALF_KANA_WORD = regex.compile("[\uff66-\uff9f]{3,}")
_IMPOSSIBLE = regex.compile(r"[\p{Co}\p{Cn}\p{Cs}]|(?![\t\n\r\f])\p{Cc}")
_WIDE_SCRIPT = regex.compile(r"[\p{Hiragana}\p{Katakana}、。，！？：；（）「」ー]")


def decode_legacy(data: bytes) -> str:
    """Decode text that is not Unicode. Raises DocumentRejected: `unsupported_type` where nothing reads it."""
    sample = telling_sample(data)
    for encoding in _candidates(sample):
        text = _nearly_all(data, encoding)
        if text is not None:
            return text
    raise DocumentRejected(Reason.UNSUPPORTED_TYPE, "The content is not text in any encoding that is read.")


def telling_sample(data: bytes) -> bytes:
    """Return what stands around non-ASCII bytes, piece by piece: long ASCII parts would hide what decides."""
    pieces: list[bytes] = []
    size = 0
    for piece in _TELLING.finditer(data):
        pieces.append(piece.group()[: _SAMPLE_BYTES - size])
        size += len(pieces[-1]) + 1
        if size >= _SAMPLE_BYTES:
            break
    return b"\n".join(pieces)


def wide_by_letters(sample: bytes) -> str | None:
    """Return the UTF-16 encoding in which a text without a mark, and without NUL bytes, is made of known letters."""
    sample = sample[: len(sample) // 2 * 2]
    scores = [(_wideness(_strictly(sample, name)), name) for name in ("utf-16-le", "utf-16-be")]
    score, encoding = max(scores)
    return encoding if score >= _ENOUGH_WIDE else None


def _candidates(sample: bytes) -> Iterable[str]:
    latin_score, latin = _best((_latin(sample, name), name) for name in LATIN)
    if latin_score >= _ENOUGH_LATIN and _mixture(sample) < _MIXED:
        yield latin
    character_score, characters = _best((_commonness(sample, name), name) for name in CHARACTERS)
    letter_score, letters = _best((_alphabet(sample, name), name) for name in ALPHABETS)
    if character_score >= _ENOUGH_COMMON and (character_score >= letter_score or letter_score < _ENOUGH_LETTERS):
        yield characters
    if letter_score >= _ENOUGH_LETTERS:
        yield letters
    if latin_score >= _ENOUGH_LATIN:
        yield latin


def _best(scores: Iterable[tuple[float, str]]) -> tuple[float, str]:
    """Return the highest score; of equal ones the first."""
    return max(scores, key=lambda score: score[0])


def _mixture(sample: bytes) -> float:
    """Return the share of non-ASCII bytes that stand beside another."""
    high = [byte > _ASCII_END for byte in sample]
    beside = sum(
        one and (before or after)
        for before, one, after in zip([False, *high[:-1]], high, [*high[1:], False], strict=True)
    )
    return beside / max(1, sum(high))


def _latin(sample: bytes, encoding: str) -> float:
    """Return the share (0..1) of characters beyond ASCII that one language explains, less what looks odd."""
    text = _strictly(sample, encoding)
    if text is None:
        return 0.0
    foreign = [char for char in text if char > "\x7f"]
    signs = sum(char in _SIGNS for char in foreign)
    explained = max(sum(char in alphabet for char in foreign) for alphabet in LATIN[encoding])
    odd = sum(map(len, _ODD.findall(text) + _ROW.get(encoding, _LONG_ROW).findall(text)))
    return (explained + signs - odd) / max(1, len(foreign))


def _alphabet(sample: bytes, encoding: str) -> float:
    text = _strictly(sample, encoding)
    foreign = [char.lower() for char in text or "" if char > "\x7f" and char not in _SIGNS]
    common = sum(char in ALPHABETS[encoding] for char in foreign)
    return (common - 2 * len(_ODD_CASE.findall(text or ""))) / max(1, len(foreign))


def _commonness(sample: bytes, encoding: str) -> float:
    """Return the share (0..1) of letters that are common in the language of the encoding."""
    text = _strictly(sample, encoding)
    letters = _LETTERS.findall(text) if text else []
    common = sum(letter in CHARACTERS[encoding] for letter in letters)
    if encoding in ("cp932", "euc_jp") and text:
        full = [kana for kana in _KANA.findall(text) if kana < "\uff00"]
        half = [word for word in _HALF_KANA_WORD.findall(text) if "\uff9e" in word or "\uff9f" in word]
        common += len(full) + sum(map(len, half)) // 2  # rare, and other languages' bytes look like it
    return common / len(letters) if letters else 0.0


def _wideness(text: str | None) -> float:
    if text is None or len(text) < _SHORTEST_WIDE or _IMPOSSIBLE.search(text):
        return 0.0
    known = sum(char in KNOWN or char.lower() in KNOWN for char in text)
    return (known + len(_WIDE_SCRIPT.findall(text))) / len(text)


def _strictly(sample: bytes, encoding: str) -> str | None:
    """Decode the start of a text, whose last character may be cut off; None where it is no such text."""
    try:
        return codecs.getincrementaldecoder(encoding)().decode(sample)
    except (UnicodeDecodeError, LookupError):
        return None


def _nearly_all(data: bytes, encoding: str) -> str | None:
    """Decode a text without the few bytes that are damaged; None where they are not few."""
    text = data.decode(encoding, "replace")
    lost = text.count("\ufffd")
    if lost > 1 and lost * _RARELY > len(data.translate(None, _ASCII)):
        return None
    return text.replace("\ufffd", "") if lost else text
