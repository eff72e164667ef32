"""Styles and numbering of a Word document: which paragraphs are headings, and what stands before list items.

What does not belong here: text. Missing or broken style parts mean plain paragraphs, never an error.
"""

import re

from lxml import etree

from ingest_assets.extract.docx_inline import child, local, value

_HEADING_NAME = re.compile(r"heading ([1-9])$", re.IGNORECASE)
_HEADING_ID = re.compile(r"heading([1-9])$", re.IGNORECASE)
_DEEPEST = 9  # heading level; the next one means body text
_ROMAN_END = 4000
_DEPTH_LIMIT = 20  # of basedOn chains, which may be circular


class Styles:
    """Answers questions about a paragraph's properties."""

    def __init__(self, styles: etree._Element | None, numbering: etree._Element | None) -> None:
        self._styles = (
            {value(item, "styleId") or "": item for item in styles if local(item) == "style"}
            if styles is not None
            else {}
        )
        self._numbering = _Numbering(numbering)
        self._levels: dict[str, int | None] = {}

    def level(self, properties: etree._Element | None) -> int | None:
        """Return the heading level (1 is outermost), or None for body text."""
        if properties is None:
            return None
        direct = _outline_level(properties)
        if direct is not None:
            return direct if direct <= _DEEPEST else None
        style_id = _style_id(properties)
        if style_id and style_id not in self._levels:
            self._levels[style_id] = self._style_level(style_id)
        return self._levels.get(style_id)

    def marker(self, properties: etree._Element | None) -> str:
        """Return the bullet or number a reader sees before the paragraph, or ""; counts numbers up."""
        if properties is None:
            return ""
        found = _number_reference(properties)
        for style in self._chain(_style_id(properties)):
            style_properties = child(style, "pPr")
            if found is None and style_properties is not None:
                found = _number_reference(style_properties)
        return "" if found is None else self._numbering.marker(*found)

    def _chain(self, style_id: str) -> list[etree._Element]:
        chain: list[etree._Element] = []
        while style_id in self._styles and len(chain) < _DEPTH_LIMIT:
            style = self._styles[style_id]
            chain.append(style)
            base = child(style, "basedOn")
            style_id = "" if base is None else value(base, "val") or ""
        return chain

    def _style_level(self, style_id: str) -> int | None:
        for style in self._chain(style_id):
            properties = child(style, "pPr")
            outline = None if properties is None else _outline_level(properties)
            if outline is not None:
                return outline if outline <= _DEEPEST else None
            label = child(style, "name")
            name = "" if label is None else value(label, "val") or ""
            if match := _HEADING_NAME.match(name):
                return int(match.group(1))
            if name.lower() == "title":
                return 1
        if style_id in self._styles:
            return None
        match = _HEADING_ID.match(style_id)
        return int(match.group(1)) if match else (1 if style_id.lower() == "title" else None)


class _Numbering:
    """Counts numbered paragraphs as Word does."""

    def __init__(self, root: etree._Element | None) -> None:
        self._levels: dict[str, dict[int, etree._Element]] = {}
        self._counts: dict[str, dict[int, int]] = {}
        self._abstract: dict[str, str] = {}
        for item in root if root is not None else ():
            if local(item) == "abstractNum":
                levels = {_integer(value(level, "ilvl")): level for level in item if local(level) == "lvl"}
                self._levels[value(item, "abstractNumId") or ""] = levels
            elif local(item) == "num" and (link := child(item, "abstractNumId")) is not None:
                self._abstract[value(item, "numId") or ""] = value(link, "val") or ""

    def marker(self, number_id: str, depth: int) -> str:
        """Return the marker of the next paragraph of that list at that depth, with a blank behind it."""
        if number_id == "0":
            return ""
        abstract = self._abstract.get(number_id, "")
        level = self._levels.get(abstract, {}).get(depth)
        indent = "  " * depth
        kind = "bullet" if level is None else _setting(level, "numFmt") or "decimal"
        if level is None or kind == "bullet":
            return f"{indent}- "
        if kind == "none":
            return ""
        counts = self._counts.setdefault(abstract, {})
        counts[depth] = counts.get(depth, _integer(_setting(level, "start"), 1) - 1) + 1
        for deeper in [known for known in counts if known > depth]:
            del counts[deeper]
        return f"{indent}{self._label(abstract, level, counts)} "

    def _label(self, abstract: str, level: etree._Element, counts: dict[int, int]) -> str:
        def number(match: re.Match[str]) -> str:
            depth = int(match.group(1)) - 1
            source = self._levels[abstract].get(depth)
            style = "decimal" if source is None else _setting(source, "numFmt") or "decimal"
            return _numeral(counts.get(depth, 1), style)

        return re.sub(r"%([1-9])", number, _setting(level, "lvlText") or "%1.")


def _numeral(number: int, style: str) -> str:
    if style in ("lowerLetter", "upperLetter") and number > 0:
        letter = chr(ord("a") + (number - 1) % 26) * min(20, (number + 25) // 26)
        return letter if style == "lowerLetter" else letter.upper()
    if style in ("lowerRoman", "upperRoman") and 0 < number < _ROMAN_END:
        return _roman(number) if style == "upperRoman" else _roman(number).lower()
    return str(number)


def _roman(number: int) -> str:
    symbols = zip(
        (1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1),
        ["M", "CM", "D", "CD", "C", "XC", "L", "XL", "X", "IX", "V", "IV", "I"],
        strict=True,
    )
    text = ""
    for worth, symbol in symbols:
        count, number = divmod(number, worth)
        text += symbol * count
    return text


def _setting(level: etree._Element, name: str) -> str | None:
    item = child(level, name)
    return None if item is None else value(item, "val")


def _number_reference(properties: etree._Element) -> tuple[str, int] | None:
    reference = child(properties, "numPr")
    if reference is None:
        return None
    return _setting(reference, "numId") or "", min(8, _integer(_setting(reference, "ilvl")))


def _outline_level(properties: etree._Element) -> int | None:
    setting = _setting(properties, "outlineLvl")
    return None if setting is None else _integer(setting) + 1


def _style_id(properties: etree._Element) -> str:
    return _setting(properties, "pStyle") or ""


def _integer(text: str | None, default: int = 0) -> int:
    return int(text) if text and re.fullmatch(r"\d{1,6}", text) else default
