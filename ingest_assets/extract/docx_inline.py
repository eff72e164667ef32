"""The text inside one Word paragraph, as the accepted document shows it.

What does not belong here: blocks, styles and numbering, equations (docx_math.py), symbol fonts (docx_symbols.py).
"""

import re
from collections.abc import Callable
from typing import Protocol

from lxml import etree

from ingest_assets.extract.docx_math import math_text
from ingest_assets.extract.docx_symbols import in_symbol_font, symbol
from ingest_assets.extract.docx_xml import child, integer, local, setting, value

_LEFT_OUT = frozenset(
    [
        "del",
        "moveFrom",
        "pPr",
        "rPr",
        "instrText",
        "delInstrText",
        "delText",
        "sdtPr",
        "sdtEndPr",
        "commentReference",
        "annotationRef",
        "fldData",
        "tblPr",
        "separator",
        "continuationSeparator",
        "rubyPr",
    ]
)
_FIXED = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "softHyphen": ""}
_LINE_ENDS = re.compile(r"[\t\r\n]+")  # in the XML they are only its layout
_POWER = re.compile(r"[-+−]?\d")


class Hiding(Protocol):
    """Tells whether a run is hidden text."""

    def __call__(self, run_properties: etree._Element | None, paragraph_properties: etree._Element | None, /) -> bool:
        """Judge by the properties of a run and of its paragraph."""


class Inline:
    """Reads one paragraph, or goes on reading into the one before it whose end was deleted.

    `text`; `boxes`, the text boxes anchored in it (as containers of blocks); `objects`, the relation ids of
    charts and diagrams.
    """

    def __init__(self, paragraph: etree._Element, is_hidden: Hiding, before: "Inline | None" = None) -> None:
        self.properties = child(paragraph, "pPr")
        self.boxes: list[etree._Element] = [] if before is None else before.boxes
        self.objects: list[str] = [] if before is None else before.objects
        self._parts: list[str] = [] if before is None else before._parts  # noqa: SLF001 - of the same class
        self._fields: list[tuple[int, int] | None] = []  # where each open field began; None once its result began
        self._is_hidden = is_hidden
        self._readers: dict[str, Callable[[etree._Element], None]] = {
            "AlternateContent": self._read_alternatives,
            "fldChar": self._read_field,
            "sym": self._read_symbol,
            "ruby": self._read_ruby,
            "oMath": self._read_math,
            "txbxContent": self.boxes.append,
            "relIds": self._read_object,
            "chart": self._read_object,
        }
        self._read(paragraph)

    @property
    def text(self) -> str:
        """What a reader sees in the paragraph."""
        return "".join(self._parts)

    def _read(self, element: etree._Element, font: str = "") -> None:
        for item in element:
            name = local(item)
            if name == "t":
                self._parts.append(in_symbol_font(_LINE_ENDS.sub(" ", item.text or ""), font))
            elif name in _FIXED:
                self._parts.append(_FIXED[name])
            elif name == "r":
                self._read_run(item, font)
            elif name in self._readers:
                self._readers[name](item)
            elif name not in _LEFT_OUT:
                self._read(item, font)

    def _read_run(self, run: etree._Element, font: str) -> None:
        properties = child(run, "rPr")
        if self._is_hidden(properties, self.properties):
            return
        start = len(self._parts)
        if properties is not None:
            fonts = child(properties, "rFonts")
            font = font if fonts is None else value(fonts, "ascii") or font
        self._read(run, font)
        if properties is not None and setting(properties, "vertAlign") == "superscript":
            self._raise_number(start)

    def _raise_number(self, start: int) -> None:
        """Keep a power apart from its base: 10 and a raised 6 are not 106."""
        raised = "".join(self._parts[start:])
        before = next((part for part in reversed(self._parts[:start][-9:]) if part), "")
        if before[-1:].isdigit() and _POWER.match(raised):
            self._parts.insert(start, "^")

    def _read_alternatives(self, element: etree._Element) -> None:
        """Read the first alternative that has something: Word writes the same box twice."""
        for alternative in element:
            before = (len(self._parts), len(self.boxes), len(self.objects))
            self._read(alternative)
            if (len(self._parts), len(self.boxes), len(self.objects)) != before:
                return

    def _read_field(self, mark: etree._Element) -> None:
        kind = value(mark, "fldCharType")
        if kind == "begin":
            self._fields.append((len(self._parts), len(self.boxes)))
            self._parts.append(_chosen(mark))
            return
        began = self._fields.pop() if self._fields else None
        if began is not None:  # what was read so far is the field's instruction, with the fields inside it
            choice = self._parts[began[0]]
            del self._parts[began[0] :], self.boxes[began[1] :]
            if kind == "end":
                self._parts.append(choice)
        if kind == "separate":
            self._fields.append(None)

    def _read_symbol(self, item: etree._Element) -> None:
        code = value(item, "char") or ""
        if re.fullmatch(r"[0-9A-Fa-f]{1,4}", code):
            self._parts.append(symbol(int(code, 16), value(item, "font") or ""))

    def _read_ruby(self, item: etree._Element) -> None:
        base, above = child(item, "rubyBase"), child(item, "rt")
        for part, opening, closing in ((base, "", ""), (above, "(", ")")):
            if part is not None:
                self._parts.append(opening)
                self._read(part)
                self._parts.append(closing)

    def _read_math(self, item: etree._Element) -> None:
        self._parts.append(math_text(item))

    def _read_object(self, item: etree._Element) -> None:
        relation = value(item, "dm") or value(item, "id")
        if relation:
            self.objects.append(relation)


def _chosen(field: etree._Element) -> str:
    """Return the chosen entry of a drop-down form field."""
    data = child(field, "ffData")
    entries = None if data is None else child(data, "ddList")
    if entries is None:
        return ""
    texts = [value(item, "val") or "" for item in entries if local(item) == "listEntry"]
    place = integer(setting(entries, "result") or setting(entries, "default"))
    return texts[place] if place < len(texts) else ""
