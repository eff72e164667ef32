"""One way to spell a text: what every extractor's output passes through, exactly once.

What does not belong here: anything that knows a file format, and positions (see assemble.py, which
normalises pieces before it joins them, so that positions never have to be moved).
"""

import re
import unicodedata

import regex

_LIGATURES = dict(zip("ﬀﬁﬂﬃﬄﬅﬆ", ("ff", "fi", "fl", "ffi", "ffl", "st", "st"), strict=True))
_LINE_ENDS = re.compile("[\r\x0b\x0c\x85\u2028\u2029]")
_ASCII = (
    dict.fromkeys(range(32)) | {0x7F: None} | {ord(char): char for char in "\t\n"} | dict.fromkeys(b"\r\x0b\x0c", "\n")
)
_SURROGATES = re.compile("[\ud800-\udfff]")
_DROPPED = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\ufff0-\ufffb\ufffe\uffff\U0001d173-\U0001d17a\U000e0080-\U000e00ff\U000e01f0-\U000e0fff]"
)
_SPACES = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
# Terminals obey these and show nothing: colours, titles, character sets; and a character struck over by the next.
_ESCAPES = re.compile("\x1b(?:\\[[0-?]*+[ -/]*+[@-~]|\\][^\x07\x1b\n]*+(?:\x07|\x1b\\\\)|[()][AB012])|[^\n\x08]\x08")
# ZWJ and ZWNJ stay where emoji families, Persian and Indic words need them; variation selectors behind what varies;
# tags in the flags they spell. Anywhere else they split words, or carry a text that nobody sees.
_RARE = re.compile("[\u200c\u200d\ufe00-\ufe0f\U000e0000-\U000e0fff]")
_TAGS = re.compile("(\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{1,6}\U000e007f)|[\U000e0000-\U000e007f]")
_SELECTORS = regex.compile(
    "(?<=[\ufe00-\ufe0f\U000e0100-\U000e01ef])[\ufe00-\ufe0f\U000e0100-\U000e01ef]+"
    r"|(?<=[\p{Latin}\p{Greek}\p{Cyrillic}\s])["
    "\ufe00-\ufe0f]"
    r"|(?<!\p{Han})["
    "\U000e0100-\U000e01ef]"
)
_JOINERS = regex.compile(
    "(?<=[\u200c\u200d])[\u200c\u200d]+"
    r"|(?<=[\p{Latin}\p{Greek}\p{Cyrillic}\p{Nd}])["
    "\u200c\u200d"
    r"]+(?=[\p{Latin}\p{Greek}\p{Cyrillic}\p{Nd}])"
)
_FOLDED = re.compile("[ﬀ-ﬆ]")
# Whatever one of the patterns above may change is among these; a text is looked through once, and its few kinds of
# them tell which patterns it needs.
_UNUSUAL = re.compile("[^\t\n -~]")
# Letters that NFC leaves alone whatever stands beside them: Latin, general punctuation, the ligatures.
_COMPOSED = re.compile("[\x00-\u02ff\u2010-\u2027\u2030-\u205e\ufb00-\ufb06\ufffe]*")
_TOO_WIDE = " " * 129
_LONG_BLANKS = re.compile(r"[^\S\n]{129,}")
_BLANK_LINES = re.compile(r"\n{4,}")
# CPython sorts a run of combining marks by insertion: without a bound a hostile run takes minutes.
_LONG_MARKS = regex.compile(r"(\p{M}{30})\p{M}+")
_INVISIBLE = regex.compile(r"[\p{Cf}\p{Default_Ignorable_Code_Point}\u2800]+")
_WIDE = regex.compile(r"[\p{East_Asian_Width=W}\p{East_Asian_Width=F}]")
_PIECE = 4096


def normalise(text: str) -> str:
    r"""Return the text in NFC with "\n" line ends and nothing a reader cannot see.

    Idempotent. Spaces of every width become plain ones. Inside lines they stay (up to 128 in a row), so that code
    and tables keep their shape; three or more blank lines become one; blanks at both ends go.
    """
    text = text.replace("\r\n", "\n")
    if "\x1b" in text or "\x08" in text:
        text = _ESCAPES.sub("", text)
    text = text.translate(_ASCII) if text.isascii() else _normalise_letters(text)
    if "\t" in text or _TOO_WIDE in text:
        text = _LONG_BLANKS.sub(" " * 128, text)
    if " \n" in text or "\t\n" in text:
        text = "\n".join([line.rstrip() for line in text.split("\n")])
    if "\n\n\n\n" in text:
        text = _BLANK_LINES.sub("\n\n", text)
    return text.strip()


def one_line(text: str) -> str:
    """Return the normalised text with every run of blanks as one space, for titles and properties."""
    return " ".join(normalise(text).split())


def visible_length(text: str, enough: int) -> int:
    """Count the columns a reader sees, and stop at enough.

    Invisible characters count nothing, a run of blanks one, East Asian wide characters two: eleven of them
    say as much as four English words.
    """
    count = 0
    for start in range(0, len(text), _PIECE):
        piece = " ".join(_INVISIBLE.sub("", text[start : start + _PIECE]).split())
        count += len(piece) + len(_WIDE.findall(piece))
        if count >= enough:
            break
    return min(count, enough)


def _normalise_letters(text: str) -> str:
    unusual = "".join(set(_UNUSUAL.findall(text)))
    if _SURROGATES.search(unusual):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
        unusual = "".join(set(_UNUSUAL.findall(text)))
    text = _without_special(text, unusual)
    if not (_COMPOSED.fullmatch(unusual) or unicodedata.is_normalized("NFC", text)):
        text = unicodedata.normalize("NFC", _LONG_MARKS.sub(r"\1", text))
    return text


def _without_special(text: str, unusual: str) -> str:
    """Return the text without what readers do not see; `unusual` are the letters of it beyond plain ASCII."""
    for rule, replacement in ((_LINE_ENDS, "\n"), (_DROPPED, ""), (_SPACES, " ")):
        if rule.search(unusual):
            text = rule.sub(replacement, text)
    if _RARE.search(unusual):
        text = _JOINERS.sub("", _SELECTORS.sub("", _TAGS.sub(r"\1", text)))
    return _FOLDED.sub(lambda match: _LIGATURES[match.group()], text) if _FOLDED.search(unusual) else text
