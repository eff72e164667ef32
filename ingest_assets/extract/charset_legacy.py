"""Tells the encodings of before Unicode apart: Western and Central European, East Asian, other alphabets.

What does not belong here: Unicode, declarations, binary data. An encoding is taken because what it reads
looks like writing; where none does, the document is refused rather than stored as mojibake.
"""

import charset_normalizer
import regex

from ingest_assets.errors import DocumentRejected, Reason

_SAMPLE_BYTES = 65536
_ASCII_END = 0x7F
_ENOUGH_COMMON = 0.25  # share of letters; right readings have 0.3 to 1, wrong ones 0 to 0.1
_LATIN = ("cp1252", "cp1250", "iso8859_2", "cp1254", "cp1257")
_ALPHABETS = [
    "cp1251", "koi8_r", "cp866", "iso8859_5", "mac_cyrillic", "cp1253", "iso8859_7", "cp1255", "cp1256", "cp874",
    "cp850", "cp437", "mac_roman",
]  # fmt: skip
# What running text never holds: a symbol or foreign capital inside a word, C1 controls,
# or (see _RUN) several accented letters in a row.
_ODD_LATIN = regex.compile(
    r"(?<=\p{L})[^\p{L}\p{M}\p{P}\s\d](?=\p{L})|(?<=\p{L})[•†‡‰…¿¡](?=\p{L})|(?<=\p{Ll})[^\P{Lu}A-Z](?!\p{Lu})"
    r"|[\x80-\x9f]|[£¥¢¿¡](?=\p{Ll})"
)
_RUN = {"cp1252": regex.compile(r"(?:(?![A-Za-z])\p{L}){3,}")}
_LONG_RUN = regex.compile(r"(?:(?![A-Za-z])\p{L}){5,}")
_TURKISH = regex.compile(r"(?:[\x00-\x7f\p{P}\p{S}\xa0]|[çğıöşüÇĞİÖŞÜâîû])*")
_ONLY_TURKISH = regex.compile("[ğışĞİŞ]")
_LETTERS = regex.compile(r"[^\x00-\x7f\p{P}\p{S}\p{Z}]")
_KANA = regex.compile(r"[\p{Hiragana}\p{Katakana}ー]")
_HALF_KANA_WORD = regex.compile("[\uff66-\uff9f]{3,}")
# The commonest characters of each language: random bytes hardly ever spell them.
_COMMON = {
    "cp932": (
        "日本人年大会国点検査月火水木金土時分間中上下前後第号記録報告書機設備圧力正常異常完了確認担当者株"
        "式社部長工場管理"
    ),
    "gb18030": (
        "的一是不了在人有我他这中大来上国个到说们为子和你地出时年得就要下以生会自着之过家学对可里后小多天"
        "能好都没日于起发成事只作当看文无开手用主行方如前所本见经面公同三从动两长知民现分将外但与高进法此"
        "实回二理点月明其全工者部正名定问力机等几业最间新位因重被电第门相次政使教平信少关并内加化由代产入"
        "先水总场员性通报立数件安表原应路期提合计或受果检查压记录管"
    ),
    "cp949": (
        "이다는의가에을를한고지하로도기사리인어자대시해수일나보정아원전서주들부제과장그있으성상동조공구니"
        "라은여요습만스비위화"
    ),
    "big5": (
        "的一是不了在人有我他這中大來上國個到說們為子和你地出時年得就要下以生會自著之過家學對可里後小多天"
        "能好都沒日於起發成事只作當看文無開手用主行方如前所本見經面公同三從動兩長知民現分將外但與高進法此"
        "實回二理點月明其全工者部正名定問力機等幾業最間新位因重被電第門相次檢查壓記錄管"
    ),
}
_COMMON["euc_jp"] = _COMMON["cp932"]


def decode_legacy(data: bytes) -> str:
    """Decode text that is not Unicode. Raises DocumentRejected: `unsupported_type` where nothing reads it."""
    sample = telling_sample(data)
    high = sum(byte > _ASCII_END for byte in sample)
    odd, latin = min((_latin_oddness(sample, name), name) for name in _LATIN)
    if odd * 10 <= high:
        candidates = [latin] if latin == "cp1252" else [_east_asian(sample), latin]
    else:
        candidates = [_east_asian(sample), _alphabet(sample), latin if odd * 4 <= high else None]
    for encoding in candidates:
        text = _strictly(data, encoding) if encoding else None
        if text is not None:
            return text
    raise DocumentRejected(Reason.UNSUPPORTED_TYPE, "The content is not text in any encoding that is read.")


def telling_sample(data: bytes) -> bytes:
    """Return lines that hold non-ASCII bytes: long ASCII parts would hide what decides."""
    lines = [line for line in data[: 64 * _SAMPLE_BYTES].splitlines(keepends=True) if not line.isascii()]
    return b"".join(lines)[:_SAMPLE_BYTES]


def _latin_oddness(sample: bytes, encoding: str) -> float:
    text = _strictly(sample, encoding)
    if text is None:
        return float(len(sample))
    if encoding == "cp1254" and _ONLY_TURKISH.search(text) and _TURKISH.fullmatch(text):
        return 0.0  # to others these bytes are Icelandic letters, which no other text has alone
    found = _ODD_LATIN.findall(text) + _RUN.get(encoding, _LONG_RUN).findall(text)
    return sum(map(len, found)) + (_LATIN.index(encoding) + 1) / 1000


def _east_asian(sample: bytes) -> str | None:
    score, encoding = max((_commonness(sample, name), name) for name in _COMMON)
    return encoding if score >= _ENOUGH_COMMON else None


def _commonness(sample: bytes, encoding: str) -> float:
    """Return the share (0..1) of letters that are common in the language of the encoding."""
    text = _strictly(sample, encoding)
    letters = _LETTERS.findall(text) if text else []
    common = sum(letter in _COMMON[encoding] for letter in letters)
    if encoding in ("cp932", "euc_jp") and text:
        full = [kana for kana in _KANA.findall(text) if kana < "\uff00"]
        half = [word for word in _HALF_KANA_WORD.findall(text) if "\uff9e" in word or "\uff9f" in word]
        common += len(full) + sum(map(len, half))
    return common / len(letters) if letters else 0.0


def _alphabet(sample: bytes) -> str | None:
    best = charset_normalizer.from_bytes(sample, cp_isolation=_ALPHABETS).best()
    return best.encoding if best else None


def _strictly(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except (UnicodeDecodeError, LookupError):
        return None
