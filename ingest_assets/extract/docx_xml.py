"""Reads elements of WordprocessingML by local names, so that both namespaces of the format are the same.

What does not belong here: what the elements mean.
"""

import re

from lxml import etree

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


def setting(element: etree._Element, name: str) -> str | None:
    """Return the `val` of the first child of that local name."""
    item = child(element, name)
    return None if item is None else value(item, "val")


def flag(properties: etree._Element, name: str) -> bool:
    """Tell whether an on/off property is there and not switched off."""
    item = child(properties, name)
    return item is not None and (value(item, "val") or "1").lower() not in _FALSE


def integer(text: str | None, default: int = 0) -> int:
    """Return a small number as it is written, or the default for anything else."""
    return int(text) if text and re.fullmatch(r"[0-9]{1,6}", text) else default
