"""What HTML elements mean to a reader: block or inline, shown or hidden, content or page furniture.

What does not belong here: walking the tree and collecting text (html.py).
"""

import re

from selectolax.lexbor import LexborHTMLParser, LexborNode

from ingest_assets.extract.assemble import LINE, PARAGRAPH

HEADING_LEVELS = {f"h{level}": level for level in range(1, 7)}
VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"]
)
_NEVER_SHOWN = frozenset(
    [
        "head",
        "script",
        "style",
        "template",
        "noscript",
        "noframes",
        "iframe",
        "object",
        "embed",
        "audio",
        "video",
        "canvas",
        "datalist",
        "select",
        "rp",
        "title",
        "metadata",
        "defs",
        "desc",
        "annotation",
        "annotation-xml",
        "nav",
    ]
)
_PARAGRAPHS = frozenset(
    [
        "p",
        "pre",
        "table",
        "ul",
        "ol",
        "dl",
        "blockquote",
        "section",
        "article",
        "main",
        "header",
        "footer",
        "aside",
        "nav",
        "figure",
        "hr",
        "form",
        "fieldset",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hgroup",
        "address",
        "details",
        "menu",
        "center",
        "body",
    ]
)
_LINES = frozenset(
    [
        "div",
        "li",
        "dt",
        "dd",
        "tr",
        "thead",
        "tbody",
        "tfoot",
        "caption",
        "summary",
        "figcaption",
        "legend",
        "option",
        "optgroup",
        "html",
        "dialog",
        "search",
        "frameset",
        "dir",
        "td",
        "th",
    ]
)
_FURNITURE = frozenset(("header", "footer", "aside"))
_CONTENT = frozenset(("main", "article", "section"))
_REACH = 40  # elements between a table and what makes it a layout, so that hostile depth stays linear
_HIDING_STYLE = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_BLOCK_STYLE = re.compile(r"(?:^|;)\s*display\s*:\s*(?:block|flex|grid|list-item|table)\b", re.IGNORECASE)


class Context:
    """Knows where in the page the walk is, and what an element there does to the text."""

    def __init__(self, parser: LexborHTMLParser, *, furniture: bool) -> None:
        self._furniture = furniture or parser.css_first("main, article, [role=main]") is None
        self._layout = _layout_tables(parser)
        self._content_depth = 0
        self._cells: list[bool] = []  # one per open table: is the walk in a row that became one line
        self._first_cell = True
        self._lists: list[int | None] = []  # next number of each open list; None for bullets
        self._pre_depth = 0

    @property
    def preformatted(self) -> bool:
        """Tell whether line ends and blanks count here."""
        return self._pre_depth > 0

    @property
    def line_break(self) -> str:
        """Return what a forced line end is here: rows of a table stay one line."""
        return " " if self._cells and self._cells[-1] else "\n"

    def is_shown(self, node: LexborNode) -> bool:
        """Tell whether a reader sees this element, and it is not page furniture."""
        tag = node.tag or "-"
        if tag in _NEVER_SHOWN or not node.is_element_node:
            return False
        if tag in _FURNITURE and not self._furniture and self._content_depth == 0:
            return tag == "header" and node.css_first("h1") is not None
        attributes = node.attributes
        if not attributes:
            return tag != "dialog"
        if attributes.get("hidden", "until-found") != "until-found" or attributes.get("role") == "navigation":
            return False
        if tag == "dialog" and "open" not in attributes:
            return False
        style = attributes.get("style")
        return not (style and _HIDING_STYLE.search(style))

    def gap(self, node: LexborNode) -> str | None:
        """Return what separates this element from its neighbours; None for inline ones."""
        tag = node.tag or ""
        if self._cells and self._cells[-1]:
            return LINE if tag in ("tr", "table", "caption") else None
        if tag in _PARAGRAPHS:
            # Inside a list everything continues the item.
            return LINE if tag in ("p", "ul", "ol") and self._lists else PARAGRAPH
        if tag in _LINES:
            return LINE
        return LINE if _BLOCK_STYLE.search(node.attributes.get("style") or "") else None

    def enter(self, node: LexborNode) -> str:
        """Note that the walk went in; return the text that opens the element."""
        tag = node.tag or ""
        self._content_depth += tag in _CONTENT
        self._pre_depth += tag in ("pre", "textarea", "listing", "xmp")
        if tag == "table":
            self._cells.append(node.mem_id not in self._layout)
        elif tag in ("ul", "ol", "menu", "dir"):
            self._lists.append(_number(node, "start") if tag == "ol" else None)
        elif tag == "tr":
            self._first_cell = True
        return self._opening(tag)

    def leave(self, node: LexborNode) -> str:
        """Note that the walk went out; return the text that closes the element."""
        tag = node.tag or ""
        self._content_depth -= tag in _CONTENT
        self._pre_depth -= tag in ("pre", "textarea", "listing", "xmp")
        if tag == "table":
            self._cells.pop()
            self._first_cell = False
        elif tag in ("ul", "ol", "menu", "dir"):
            self._lists.pop()
        if tag == "rt":
            return ")"
        return " " if self._in_row_block(tag) else ""

    def _opening(self, tag: str) -> str:
        if tag in ("td", "th") and self._cells and self._cells[-1]:
            first, self._first_cell = self._first_cell, False
            return "" if first else " | "
        if tag == "rt":
            return "("
        return " " if self._in_row_block(tag) else ""

    def marker(self, node: LexborNode) -> str:
        """Return what a reader sees before a list item."""
        if node.tag != "li":
            return ""
        indent = "  " * (len(self._lists) - 1)
        if not self._lists or self._lists[-1] is None:
            return indent + "- "
        number = _number(node, "value", self._lists[-1])
        self._lists[-1] = number + 1
        return f"{indent}{number}. "

    def _in_row_block(self, tag: str) -> bool:
        return bool(self._cells) and self._cells[-1] and (tag in _PARAGRAPHS or tag in _LINES)


def _number(node: LexborNode, name: str, default: int = 1) -> int:
    value = (node.attributes.get(name) or "").strip()
    return int(value) if re.fullmatch(r"-?\d{1,9}", value) else default


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
