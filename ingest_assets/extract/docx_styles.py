"""Styles of a Word document: which paragraphs are headings, hidden, or items of which list.

What does not belong here: text, and counting (docx_numbering.py). Missing or broken style parts mean plain
paragraphs, never an error.
"""

import re

from lxml import etree

from ingest_assets.extract.docx_numbering import Numbering
from ingest_assets.extract.docx_xml import child, flag, integer, local, setting, value

_HEADING_NAME = re.compile(r"heading ([1-9])$", re.IGNORECASE)
_HEADING_ID = re.compile(r"heading([1-9])$", re.IGNORECASE)
_DEEPEST = 9  # heading level; the next one means body text
_DEPTH_LIMIT = 20  # of basedOn chains, which may be circular
_DEEPEST_ITEM = 8  # of list levels, counted from 0


class Styles:
    """Answers questions about a paragraph's or run's properties."""

    def __init__(self, styles: etree._Element | None, numbering: etree._Element | None) -> None:
        self._styles = (
            {value(item, "styleId") or "": item for item in styles if local(item) == "style"}
            if styles is not None
            else {}
        )
        self._numbering = Numbering(numbering)
        self._levels: dict[str, int | None] = {}
        self._hidden: dict[str, bool] = {}

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
        number_id, depth = _number_reference(properties)
        for style in self._chain(_style_id(properties)):
            style_properties = child(style, "pPr")
            if number_id is None and style_properties is not None:
                number_id, style_depth = _number_reference(style_properties)
                if number_id is not None and style_depth is None:
                    style_depth = self._numbering.depth_of_style(number_id, value(style, "styleId") or "")
                depth = style_depth if depth is None else depth
        return "" if number_id is None else self._numbering.marker(number_id, min(_DEEPEST_ITEM, depth or 0))

    def hides(self, run_properties: etree._Element | None, paragraph_properties: etree._Element | None) -> bool:
        """Tell whether a run is hidden text, by itself or by its character or paragraph style."""
        if run_properties is not None:
            if child(run_properties, "vanish") is not None:
                return flag(run_properties, "vanish")
            if self._style_hides(setting(run_properties, "rStyle") or ""):
                return True
        return paragraph_properties is not None and self._style_hides(_style_id(paragraph_properties))

    def _style_hides(self, style_id: str) -> bool:
        if style_id and style_id not in self._hidden:
            said = (child(style, "rPr") for style in self._chain(style_id))
            settings = (item for item in said if item is not None and child(item, "vanish") is not None)
            self._hidden[style_id] = any(flag(item, "vanish") for item in list(settings)[:1])
        return self._hidden.get(style_id, False)

    def _chain(self, style_id: str) -> list[etree._Element]:
        chain: list[etree._Element] = []
        while style_id in self._styles and len(chain) < _DEPTH_LIMIT:
            style = self._styles[style_id]
            chain.append(style)
            style_id = setting(style, "basedOn") or ""
        return chain

    def _style_level(self, style_id: str) -> int | None:
        for style in self._chain(style_id):
            properties = child(style, "pPr")
            outline = None if properties is None else _outline_level(properties)
            if outline is not None:
                return outline if outline <= _DEEPEST else None
            name = setting(style, "name") or ""
            if match := _HEADING_NAME.match(name):
                return int(match.group(1))
            if name.lower() == "title":
                return 1
        if style_id in self._styles:
            return None
        match = _HEADING_ID.match(style_id)
        return int(match.group(1)) if match else (1 if style_id.lower() == "title" else None)


def _number_reference(properties: etree._Element) -> tuple[str | None, int | None]:
    """Return (list, level), each None where the properties do not say it."""
    reference = child(properties, "numPr")
    if reference is None:
        return None, None
    depth = setting(reference, "ilvl")
    return setting(reference, "numId"), None if depth is None else integer(depth)


def _outline_level(properties: etree._Element) -> int | None:
    outline = setting(properties, "outlineLvl")
    return None if outline is None else integer(outline) + 1


def _style_id(properties: etree._Element) -> str:
    return setting(properties, "pStyle") or ""
