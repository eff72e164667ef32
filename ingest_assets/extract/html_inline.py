"""What inline elements add to the text around them: quotes, readings, form values, pictures' texts, formulas.

What does not belong here: blocks, lists and tables (html_rules.py).
"""

import re

from selectolax.lexbor import LexborNode

_FORM_CONTROLS = frozenset(("button", "select", "option", "textarea", "meter", "progress"))
_VALUES_NOT_SHOWN = frozenset(("hidden", "password", "checkbox", "radio", "file", "range", "color"))
_ALTERNATIVE_LIMIT = 2000  # characters of a picture's text
_PIXEL = frozenset(("0", "1", "0px", "1px"))
# Children of a formula that are not simply read one after the other: what stands before the second, third …
_FORMULAS = {
    "mfrac": ("", "/"), "msup": ("", "^"), "msub": ("", "_"), "msubsup": ("", "_", "^"), "mover": ("", "^"),
    "munder": ("", "_"), "munderover": ("", "_", "^"), "mtr": ("", ", "), "mtable": ("", "; "),
}  # fmt: skip
_GROUPED = frozenset(("mrow", "mfrac"))  # in parentheses inside a formula
_POWER = re.compile(r"[-+−]?\d")


def opening(node: LexborNode) -> str:
    """Return the text that opens an element; forms and pictures never glue to their neighbours."""
    tag = node.tag or ""
    if tag in _FORM_CONTROLS:
        return " "
    if tag == "img":
        return _picture(node)
    if tag == "input":
        return _value(node)
    if tag == "sup":
        return _power_sign(node)
    if tag == "msqrt":
        return "√("
    return {"rt": "(", "q": "“"}.get(tag, "") or _formula_sign(node, tag)


def closing(node: LexborNode) -> str:
    """Return the text that closes an element."""
    tag = node.tag or ""
    if tag in _FORM_CONTROLS:
        return " "
    if tag in _GROUPED and _is_grouped(node):
        return ")"
    return {"rt": ")", "q": "”", "msqrt": ")"}.get(tag, "")


def _picture(node: LexborNode) -> str:
    attributes = node.attributes
    if (attributes.get("width") or "") in _PIXEL or (attributes.get("height") or "") in _PIXEL:
        return ""
    text = (attributes.get("alt") or "").strip()[:_ALTERNATIVE_LIMIT]
    return f" {text} " if text else ""


def _value(node: LexborNode) -> str:
    attributes = node.attributes
    kind = (attributes.get("type") or "text").lower()
    shown = "" if kind in _VALUES_NOT_SHOWN else attributes.get("alt" if kind == "image" else "value") or ""
    return f" {shown} "


def _power_sign(node: LexborNode) -> str:
    """Keep a power apart from its base: 10 and a raised 6 are not 106."""
    before, inside = node.prev, node.child
    if before is None or inside is None or not before.is_text_node or not inside.is_text_node:
        return ""
    is_power = (before.text_content or "")[-1:].isdigit() and _POWER.match(inside.text_content or "")
    return "^" if is_power else ""


def _formula_sign(node: LexborNode, tag: str) -> str:
    parent = node.parent
    signs = _FORMULAS.get(parent.tag or "") if parent is not None else None
    group = "(" if tag in _GROUPED and _is_grouped(node) else ""
    if signs is None:
        return group
    place = 0
    before = node.prev
    while before is not None and place < len(signs) - 1:
        place += bool(before.is_element_node)
        before = before.prev
    return (signs[place] if parent is not None else "") + group


def _is_grouped(node: LexborNode) -> bool:
    """Tell whether a part of a formula would run into its neighbours."""
    parent = node.parent
    if parent is None or parent.tag not in ("mfrac", "msup", "msub", "msubsup"):
        return False
    first = node.child
    return node.tag == "mfrac" or (first is not None and first.next is not None)
