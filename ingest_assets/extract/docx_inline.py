"""The text inside one Word paragraph, as the accepted document shows it.

What does not belong here: blocks, styles and numbering. Works for both namespaces of the format
(transitional and strict) by local names.
"""

from lxml import etree

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
        "rt",
        "commentReference",
        "annotationRef",
        "fldData",
        "tblPr",
        "separator",
        "continuationSeparator",
    ]
)
_FIXED = {"tab": "\t", "ptab": "\t", "cr": "\n", "noBreakHyphen": "-", "softHyphen": ""}
_FALSE = frozenset(("0", "false", "off", "none"))


def local(element: etree._Element) -> str:
    """Return the element's name without its namespace ("" for what is no element)."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def child(element: etree._Element, name: str) -> etree._Element | None:
    """Return the first child of that local name."""
    return next((item for item in element if local(item) == name), None)


def value(element: etree._Element, name: str) -> str | None:
    """Return an attribute by local name."""
    return next((str(text) for key, text in element.items() if str(key).rpartition("}")[2] == name), None)


def flag(properties: etree._Element, name: str) -> bool:
    """Tell whether an on/off property is there and not switched off."""
    item = child(properties, name)
    return item is not None and (value(item, "val") or "1").lower() not in _FALSE


class Inline:
    """Reads one paragraph: `text`, and `boxes`, the text boxes anchored in it (as containers of blocks)."""

    def __init__(self, paragraph: etree._Element) -> None:
        self.boxes: list[etree._Element] = []
        self._parts: list[str] = []
        self._read(paragraph)
        self.text = "".join(self._parts)

    def _read(self, element: etree._Element) -> None:
        for item in element:
            name = local(item)
            if name == "t":
                self._parts.append(item.text or "")
            elif name in _FIXED:
                self._parts.append(_FIXED[name])
            elif name == "br":
                self._parts.append("\n")
            elif name == "AlternateContent":
                self._read_alternatives(item)
            elif name == "txbxContent":
                self.boxes.append(item)
            elif name not in _LEFT_OUT and not (name == "r" and _is_hidden(item)):
                self._read(item)

    def _read_alternatives(self, element: etree._Element) -> None:
        """Read the first alternative that has text: Word writes the same box twice."""
        for alternative in element:
            before = (len(self._parts), len(self.boxes))
            self._read(alternative)
            if (len(self._parts), len(self.boxes)) != before:
                return


def _is_hidden(run: etree._Element) -> bool:
    properties = child(run, "rPr")
    return properties is not None and flag(properties, "vanish")
