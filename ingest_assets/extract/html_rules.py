"""What HTML elements mean to a reader: block or inline, shown or hidden, list, row, form or formula.

What does not belong here: walking the tree and collecting text (html_walk.py), and rules of style sheets
(html_hidden.py).
"""

import re

from selectolax.lexbor import LexborHTMLParser, LexborNode

from ingest_assets.extract.assemble import LINE, PARAGRAPH
from ingest_assets.extract.html_hidden import HidingRules
from ingest_assets.extract.html_inline import closing, opening
from ingest_assets.extract.numerals import numeral

HEADING_LEVELS = {f"h{level}": level for level in range(1, 7)}
VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"]
)
PAGES_INSIDE = frozenset(("iframe", "template"))
_NEVER_SHOWN = frozenset((
    "head", "script", "style", "noscript", "noframes", "object", "embed", "audio", "video", "canvas", "datalist", "rp",
    "title", "metadata", "defs", "desc", "symbol", "annotation", "annotation-xml",
))  # fmt: skip
_PARAGRAPHS = frozenset((
    "p", "pre", "table", "ul", "ol", "dl", "blockquote", "section", "article", "main", "header", "footer", "aside",
    "nav", "figure", "hr", "form", "fieldset", "h1", "h2", "h3", "h4", "h5", "h6", "hgroup", "address", "details",
    "menu", "center", "body", "listing", "xmp", "plaintext",
))  # fmt: skip
_LINES = frozenset((
    "div", "li", "dt", "dd", "tr", "thead", "tbody", "tfoot", "caption", "summary", "figcaption", "legend", "html",
    "dialog", "search", "frameset", "dir", "td", "th", "text", "foreignobject",
))  # fmt: skip
_LISTS = frozenset(("ul", "ol", "menu", "dir"))
_PREFORMATTED = frozenset(("pre", "textarea", "listing", "xmp", "plaintext"))
_NUMBER_STYLES = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
_DEEPEST_INDENT = 8  # lists; without an end, lists in lists would take the square of their depth
_REACH = 40  # elements between a table and what makes it a layout, so that hostile depth stays linear
_HIDING_STYLE = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse))", re.IGNORECASE)
_SHOWING_STYLE = re.compile(r"(?:^|;)\s*display\s*:\s*(?!none)[a-z]", re.IGNORECASE)
_BLOCK_STYLE = re.compile(r"(?:^|;)\s*display\s*:\s*(?:block|flex|grid|list-item|table)\b(?!-)", re.IGNORECASE)
_PRE_STYLE = re.compile(r"(?:^|;)\s*white-space\s*:\s*(?:pre|break-spaces)\b", re.IGNORECASE)


def page_inside(node: LexborNode) -> str:
    """Return the source of the page that an iframe or a shadow root shows in its place; "" where it shows none."""
    attributes = node.attributes
    if node.tag == "iframe":
        return attributes.get("srcdoc") or ""
    html = node.html or ""
    return html[html.find(">") + 1 : html.rfind("<")] if "shadowrootmode" in attributes else ""


class Context:
    """Knows where in the page the walk is, and what an element there does to the text."""

    def __init__(self, parser: LexborHTMLParser) -> None:
        self._hiding = HidingRules(parser)
        self._layout = _layout_tables(parser)
        self._cells: list[bool] = []  # one per open table: is the walk in a row that became one line
        self._first_cell = True
        self._lists: list[tuple[int | None, str, int]] = []  # (next number or None, its style, step) of open lists
        self._pre_depth = 0
        self._styled, self._style = 0, ""  # the element whose inline style was read last
        self._chosen: set[int] = set()  # options that their list shows

    @property
    def preformatted(self) -> bool:
        """Tell whether line ends and blanks count here."""
        return self._pre_depth > 0

    @property
    def in_row(self) -> bool:
        """Tell whether the walk is inside a table whose rows become lines."""
        return bool(self._cells) and self._cells[-1]

    @property
    def line_break(self) -> str:
        """Return what a forced line end is here: rows of a table stay one line."""
        return " " if self.in_row else "\n"

    def is_shown(self, node: LexborNode) -> bool:
        """Tell whether a reader sees this element."""
        tag = node.tag or "-"
        if tag in _NEVER_SHOWN or not node.is_element_node:
            return False
        attributes = node.attributes
        if tag in PAGES_INSIDE and not ("srcdoc" in attributes or "shadowrootmode" in attributes):
            return False
        if (tag == "option" and node.mem_id not in self._chosen) or (tag == "dialog" and "open" not in attributes):
            return False
        if "popover" in attributes or attributes.get("hidden", "until-found") != "until-found":
            return False
        self._styled, self._style = node.mem_id, attributes.get("style") or ""
        style = self._style
        if style and _HIDING_STYLE.search(style):
            return tag == "body"  # a script shows it again
        return bool(style and _SHOWING_STYLE.search(style)) or not self._hiding.hide(node)

    def gap(self, node: LexborNode) -> str | None:
        """Return what separates this element from its neighbours; None for inline ones."""
        tag = node.tag or ""
        if self.in_row:
            return LINE if tag in ("tr", "table", "caption") else None
        if tag in _PARAGRAPHS:
            # Inside a list everything continues the item.
            return LINE if tag in ("p", "ul", "ol") and self._lists else PARAGRAPH
        if tag in _LINES:
            return LINE
        return LINE if _BLOCK_STYLE.search(self._style_of(node)) else None

    def enter(self, node: LexborNode) -> str:
        """Note that the walk went in; return the text that opens the element."""
        tag = node.tag or ""
        self._pre_depth += self._is_preformatted(node)
        if tag == "table":
            self._cells.append(node.mem_id not in self._layout)
        elif tag in _LISTS:
            self._lists.append(_numbering(node) if tag == "ol" else (None, "", 1))
        elif tag == "tr":
            self._first_cell = True
        elif tag == "select":
            self._chosen = _chosen_options(node)
        if tag in ("td", "th") and self.in_row:
            first, self._first_cell = self._first_cell, False
            return "" if first else " | "
        return " " if self._in_row_block(tag) else opening(node)

    def leave(self, node: LexborNode) -> str:
        """Note that the walk went out; return the text that closes the element."""
        tag = node.tag or ""
        self._pre_depth -= self._is_preformatted(node)
        if tag == "table":
            self._cells.pop()
            self._first_cell = False
        elif tag in _LISTS:
            self._lists.pop()
        return " " if self._in_row_block(tag) else closing(node)

    def marker(self, node: LexborNode) -> str:
        """Return what a reader sees before a list item."""
        if node.tag != "li" or self.in_row:
            return ""
        indent = "  " * min(_DEEPEST_INDENT, len(self._lists) - 1)
        number, style, step = self._lists[-1] if self._lists else (None, "", 1)
        if number is None:
            return indent + "- "
        number = _number(node, "value", number)
        self._lists[-1] = (number + step, style, step)
        return f"{indent}{numeral(number, style)}. "

    def _is_preformatted(self, node: LexborNode) -> bool:
        return node.tag in _PREFORMATTED or _PRE_STYLE.search(self._style_of(node)) is not None

    def _style_of(self, node: LexborNode) -> str:
        """Return the inline style; asked several times in a row for one element, and reading attributes is slow."""
        if self._styled != node.mem_id:
            self._styled, self._style = node.mem_id, node.attributes.get("style") or ""
        return self._style

    def _in_row_block(self, tag: str) -> bool:
        return self.in_row and (tag in _PARAGRAPHS or tag in _LINES)


def _numbering(node: LexborNode) -> tuple[int, str, int]:
    style = _NUMBER_STYLES.get(node.attributes.get("type") or "", "decimal")
    if "reversed" not in node.attributes:
        return _number(node, "start"), style, 1
    item, count = node.child, 0
    while item is not None:
        count += item.tag == "li"
        item = item.next
    return _number(node, "start", count), style, -1


def _number(node: LexborNode, name: str, default: int = 1) -> int:
    value = (node.attributes.get(name) or "").strip()
    return int(value) if re.fullmatch(r"-?[0-9]{1,9}", value) else default


def _chosen_options(select: LexborNode) -> set[int]:
    """Return the ids of what a closed list shows: the chosen option; of an open list all."""
    options = select.css("option")
    size = select.attributes.get("size") or ""
    if "multiple" in select.attributes or size not in ("", "0", "1"):
        return {option.mem_id for option in options}
    chosen = [option for option in options if "selected" in option.attributes]
    return {option.mem_id for option in chosen[-1:] or options[:1]}


def _layout_tables(parser: LexborHTMLParser) -> set[int]:
    """Return the ids of tables that only place things on the page: their cells are blocks, not columns."""
    placed = parser.css("table table, table h1, table h2, table h3, table ul, table ol, table form")
    layout = {_enclosing_table(node) for node in placed}
    layout -= {_enclosing_table(node) for node in parser.css("table th")}
    return layout | {node.mem_id for node in parser.css("table[role=presentation]")}


def _enclosing_table(node: LexborNode) -> int:
    """Return the id of the table around a node; 0 where it is too far away to matter."""
    parent = node.parent
    for _ in range(_REACH):
        if parent is None:
            break
        if parent.tag == "table":
            return parent.mem_id
        parent = parent.parent
    return 0
