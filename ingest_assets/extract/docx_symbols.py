"""Characters that Word writes as places in a symbol font.

What does not belong here: ordinary characters. A place without an equivalent in Unicode is left out, because its
number would be noise.
"""

_PRIVATE_START = 0xF000  # Word adds this to the places of a symbol font
_PRIVATE_END = 0xF0FF
_SYMBOL = (
    dict(enumerate("!∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_", 0x21))
    | dict(enumerate("‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼", 0x60))
    | dict(enumerate("€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑", 0xA0))
)
_WINGDINGS = {
    0x28: "☎", 0x2A: "✉", 0x4A: "☺", 0x6C: "●", 0x6E: "■", 0x6F: "□", 0x71: "❑", 0x76: "❖", 0xA7: "▪", 0xA8: "☐",
    0xD8: "➢", 0xDF: "←", 0xE0: "→", 0xE1: "↑", 0xE2: "↓", 0xF0: "⇨", 0xFB: "✗", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑",
}  # fmt: skip
_WINGDINGS_2 = {0x4F: "✗", 0x50: "✓", 0x51: "☒", 0x52: "☑", 0x53: "☒", 0xA3: "☐"}
_FONTS = {"symbol": _SYMBOL, "wingdings": _WINGDINGS, "wingdings 2": _WINGDINGS_2}


def symbol(code: int, font: str) -> str:
    """Return the character at a place of a font; "" where it has no equivalent."""
    known = _FONTS.get(font.lower())
    if known is not None:
        return known.get(code & 0xFF, "")
    return "" if _PRIVATE_START <= code <= _PRIVATE_END or code == 0 else chr(code)


def in_symbol_font(text: str, font: str) -> str:
    """Return a run's text with the places of its symbol font as characters."""
    if font.lower() not in _FONTS:
        return text
    return "".join(symbol(ord(char), font) if _PRIVATE_START <= ord(char) <= _PRIVATE_END else char for char in text)
