"""Equations of Word (OMML) on one line, as people type them: a/b, x^2, √(x).

What does not belong here: anything around the equation. Elements without a rule of their own are read through.
"""

from lxml import etree

from ingest_assets.extract.docx_xml import child, local, setting

_LEFT_OUT = frozenset(("del", "moveFrom", "ctrlPr", "rPr", "instrText", "delText"))
_SCRIPTS = {"sub": "_", "sup": "^", "lim": "_"}


def math_text(element: etree._Element) -> str:
    """Return the equation's text; two digits are never glued into another number."""
    name = local(element)
    if name == "t":
        return element.text or ""
    if name in _LEFT_OUT or name.endswith("Pr"):
        return ""
    if name in ("f", "rad", "d", "nary"):
        return _STRUCTURES[name](element)
    if name in ("m", "eqArr"):
        return "; ".join(math_text(row) for row in element if local(row) in ("mr", "e"))
    if name == "mr":
        return ", ".join(map(math_text, element))
    return "".join(_SCRIPTS.get(local(item), "") + _operand(item) for item in element)


def _operand(element: etree._Element) -> str:
    """Return a part of a structure, in parentheses where it would else run into its neighbours."""
    text = math_text(element)
    is_single = text.isalnum() or len(text) < 2  # noqa: PLR2004 - one character stands alone
    return text if is_single or local(element) not in ("num", "den", "sub", "sup", "lim") else f"({text})"


def _named(element: etree._Element, name: str) -> str:
    found = child(element, name)
    return "" if found is None else _operand(found)


def _fraction(element: etree._Element) -> str:
    return f"{_named(element, 'num')}/{_named(element, 'den')}"


def _root(element: etree._Element) -> str:
    return f"{_named(element, 'deg')}√({_named(element, 'e')})"


def _delimited(element: etree._Element) -> str:
    properties = child(element, "dPr")
    signs = {name: None if properties is None else setting(properties, name) for name in ("begChr", "sepChr", "endChr")}
    opening, between, closing = (
        default if sign is None else sign for sign, default in zip(signs.values(), "(|)", strict=True)
    )
    return opening + between.join(math_text(item) for item in element if local(item) == "e") + closing


def _nary(element: etree._Element) -> str:
    properties = child(element, "naryPr")
    sign = None if properties is None else setting(properties, "chr")
    scripts = "".join(f"{_SCRIPTS[name]}{text}" for name in ("sub", "sup") if (text := _named(element, name)))
    return f"{'∫' if sign is None else sign}{scripts} {_named(element, 'e')}"


_STRUCTURES = {"f": _fraction, "rad": _root, "d": _delimited, "nary": _nary}
