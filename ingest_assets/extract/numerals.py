"""Numbers of list items as their formats spell them: letters, Roman, Chinese, circled.

What does not belong here: counting, which Word (docx_numbering.py) and HTML (html_rules.py) do in their own ways.
"""

_LATIN = "abcdefghijklmnopqrstuvwxyz"
_RUSSIAN = "абвгдежзиклмнопрстуфхцчшщэюя"
_REPEATS = 20  # of one letter: the twenty-first round starts nothing new
_ROMAN_END = 4000
_ROMAN = (
    (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"),
    (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
)  # fmt: skip
_HAN = "〇一二三四五六七八九"
_HAN_END = 100
_CIRCLED_END = 21
_ONE_DIGIT = 10


def numeral(number: int, style: str) -> str:
    """Return the number in a style of WordprocessingML (ST_NumberFormat); unknown styles are decimal."""
    if number <= 0:
        return str(number)
    if style in ("lowerLetter", "upperLetter", "russianLower", "russianUpper"):
        text = _letters(number, _RUSSIAN if style.startswith("russian") else _LATIN)
        return text.upper() if style.endswith(("upperLetter", "Upper")) else text
    if style in ("lowerRoman", "upperRoman") and number < _ROMAN_END:
        return _roman(number) if style == "upperRoman" else _roman(number).lower()
    if style == "decimalZero":
        return f"{number:02d}"
    if style.startswith(("chineseCounting", "japaneseCounting", "taiwaneseCounting")) and number < _HAN_END:
        return _han(number)
    if style.startswith("decimalEnclosedCircle") and number < _CIRCLED_END:
        return chr(ord("①") + number - 1)
    return str(number)


def _letters(number: int, alphabet: str) -> str:
    turn, place = divmod(number - 1, len(alphabet))
    return alphabet[place] * min(_REPEATS, turn + 1)


def _roman(number: int) -> str:
    text = ""
    for worth, symbol in _ROMAN:
        count, number = divmod(number, worth)
        text += symbol * count
    return text


def _han(number: int) -> str:
    tens, ones = divmod(number, _ONE_DIGIT)
    front = "" if tens == 0 else ("" if tens == 1 else _HAN[tens]) + "十"
    return front + ("" if ones == 0 else _HAN[ones])
