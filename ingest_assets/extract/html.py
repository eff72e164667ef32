"""HTML: what a reader sees, in reading order, in blocks.

What does not belong here: charsets (html_charset.py) and what is a block, hidden or navigation
(html_rules.py). The tree is walked without recursion, so depth costs nothing.
"""

import re
from collections.abc import Iterator

from selectolax.lexbor import LexborHTMLParser, LexborNode

from ingest_assets.errors import DocumentRejected, Reason
from ingest_assets.extract import html_rules as rules
from ingest_assets.extract.assemble import LINE, PARAGRAPH, TextBuilder
from ingest_assets.extract.html_charset import decode_html
from ingest_assets.extract.normalise import visible_length
from ingest_assets.extract.sniff import Kind
from ingest_assets.records import Extracted

_XHTML = re.compile(r"\s*<\?xml|<!doctype[^>]+xhtml|<html[^>]+www\.w3\.org/1999/xhtml", re.IGNORECASE)
_SELF_CLOSED = re.compile(r"<([A-Za-z][\w:.-]*)((?:\s[^<>]*)?)/>")
_CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
_BLANKS = re.compile(r"[ \t\n\r\f]+")
_TIDY_BREAKS = re.compile(r" *\n *")
_TIDY_BLANKS = re.compile(r" {2,}")
TAG_LIMIT = 2_000_000  # "<" in one page: its tree takes many times the memory of its text
_MINIMUM_CONTENT = 200  # characters; less than this after leaving out page furniture, and it is kept


def extract_html(data: bytes) -> Extracted:
    """Return the visible text with headings; title, description, author and language as properties.

    Navigation is left out, and page headers, footers and asides where the page marks its main content.
    Raises DocumentRejected: `too_large`, and as `decode_html` does.
    """
    source = decode_html(data)
    if source.count("<") > TAG_LIMIT:
        raise DocumentRejected(Reason.TOO_LARGE, f"The page has more than {TAG_LIMIT} tags.")
    if _XHTML.search(source[:2000]):
        source = _as_html(source)
    parser = LexborHTMLParser(source, scripting=True)
    properties = _properties(parser)
    extracted = _Walk(parser, furniture=False).run().build(Kind.HTML.value, properties)
    if visible_length(extracted.text, _MINIMUM_CONTENT) < _MINIMUM_CONTENT:
        extracted = _Walk(parser, furniture=True).run().build(Kind.HTML.value, properties)
    return extracted


def _as_html(source: str) -> str:
    """Spell XHTML so that an HTML parser reads it: no self-closed elements, no CDATA."""
    source = _SELF_CLOSED.sub(
        lambda tag: tag[0] if tag[1].lower() in rules.VOID else f"<{tag[1]}{tag[2]}></{tag[1]}>", source
    )
    return _CDATA.sub(lambda match: match[1].replace("&", "&amp;").replace("<", "&lt;"), source)


def _properties(parser: LexborHTMLParser) -> dict[str, str]:
    properties = {}
    title = parser.css_first("head title")
    if title is not None:
        properties["title"] = title.text()
    for meta in parser.css("meta[name][content]")[:200]:
        name = (meta.attributes.get("name") or "").lower()
        if name in ("description", "author", "keywords", "date"):
            properties.setdefault(name, meta.attributes.get("content") or "")
    root = parser.css_first("html")
    if root is not None and root.attributes.get("lang"):
        properties["language"] = root.attributes["lang"] or ""
    return properties


class _Walk:
    """One pass over the tree that collects text into blocks."""

    def __init__(self, parser: LexborHTMLParser, *, furniture: bool) -> None:
        self._root = parser.body or parser.root
        self._builder = TextBuilder()
        self._buffer: list[str] = []
        self._gap = LINE
        self._marker = ""
        self._context = rules.Context(parser, furniture=furniture)

    def run(self) -> TextBuilder:
        for node, entering in self._events():
            if entering:
                self._enter(node)
            else:
                self._leave(node)
        self._flush()
        return self._builder

    def _events(self) -> Iterator[tuple[LexborNode, bool]]:
        """Yield every shown node on the way in, and every element on the way out."""
        stack: list[LexborNode] = []
        node: LexborNode | None = self._root
        while node is not None or stack:
            if node is None:
                parent = stack.pop()
                yield parent, False
                node = parent.next if stack else None
                continue
            if node.is_text_node or self._context.is_shown(node):
                yield node, True
                if not node.is_text_node:
                    stack.append(node)
                    node = node.child
                    continue
            node = node.next if stack else None

    def _enter(self, node: LexborNode) -> None:
        if node.is_text_node:
            self._text(node.text_content or "")
            return
        tag = node.tag or ""
        if tag == "br":
            self._buffer.append(self._context.line_break)
        gap = self._context.gap(node)
        if gap:
            self._flush(gap)
        self._marker = self._context.marker(node) or self._marker
        self._buffer.append(self._context.enter(node))

    def _leave(self, node: LexborNode) -> None:
        gap = self._context.gap(node)
        if gap:
            self._flush(gap, rules.HEADING_LEVELS.get(node.tag or ""))
        self._buffer.append(self._context.leave(node))

    def _text(self, text: str) -> None:
        self._buffer.append(text if self._context.preformatted else _BLANKS.sub(" ", text))

    def _flush(self, gap: str = LINE, level: int | None = None) -> None:
        joined = "".join(self._buffer)
        self._buffer.clear()
        if joined.strip(" |\n\t"):
            if not self._context.preformatted:
                joined = _TIDY_BLANKS.sub(" ", _TIDY_BREAKS.sub("\n", joined)).strip(" \n")
                # Empty cells at the edges of a row leave their separators behind.
                joined = joined.strip(" |\n") if joined.startswith("|") or joined.endswith("|") else joined
            self._builder.add(joined, gap=self._gap, marker=self._marker, level=level)
            self._gap, self._marker = LINE, ""
        if gap == PARAGRAPH:
            self._gap = PARAGRAPH
