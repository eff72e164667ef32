"""One pass over a page's tree that collects text into blocks.

What does not belong here: what elements mean (html_rules.py). The tree is walked without recursion, so depth costs
nothing; only pages inside the page (srcdoc, shadow roots) are walked by a walk of their own.
"""

import re
from collections.abc import Container, Iterator
from textwrap import dedent

from selectolax.lexbor import LexborHTMLParser, LexborNode

from ingest_assets.extract import html_rules as rules
from ingest_assets.extract.assemble import LINE, PARAGRAPH, TextBuilder
from ingest_assets.extract.data_uris import without_long_data
from ingest_assets.extract.sniff import Kind

_BLANKS = re.compile(r"[ \t\n\r\f]+")
_TIDY_BREAKS = re.compile(r" *\n *")
_TIDY_BLANKS = re.compile(r" {2,}")
_DEEPEST_PAGE = 3  # of pages inside pages


class Walk:
    """Collects what a reader sees of one page; elements in `left_out` are passed by with all inside them."""

    def __init__(self, parser: LexborHTMLParser, left_out: Container[LexborNode] = (), depth: int = 0) -> None:
        self._root = parser.body or parser.root
        self._left_out = left_out
        self._depth = depth
        self._builder = TextBuilder()
        self._buffer: list[str] = []
        self._gap = LINE
        self._marker = ""
        self._link_end = -1  # length of the buffer where a link just ended
        self._context = rules.Context(parser)

    def run(self) -> TextBuilder:
        """Walk the whole page once."""
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
            if node.is_text_node or (self._context.is_shown(node) and node not in self._left_out):
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
        gap = self._context.gap(node)
        if gap:
            self._flush(gap)
        self._marker = self._context.marker(node) or self._marker
        if tag == "br":
            self._append(self._context.line_break)
        elif tag == "a" and self._link_end == len(self._buffer):
            self._append(" ")  # two links side by side are two words
        elif tag in rules.PAGES_INSIDE:
            self._page_inside(rules.page_inside(node))
        self._append(self._context.enter(node))

    def _leave(self, node: LexborNode) -> None:
        gap = self._context.gap(node)
        if gap:
            self._flush(gap, rules.HEADING_LEVELS.get(node.tag or ""))
        self._append(self._context.leave(node))
        if node.tag == "a":
            self._link_end = len(self._buffer)

    def _append(self, text: str) -> None:
        if text:
            self._buffer.append(text)

    def _text(self, text: str) -> None:
        text = without_long_data(text)
        self._append(text if self._context.preformatted else _BLANKS.sub(" ", text))

    def _page_inside(self, source: str) -> None:
        self._flush(PARAGRAPH)
        if source.strip() and self._depth < _DEEPEST_PAGE:
            page = LexborHTMLParser(source, scripting=True)
            self._builder.add_extracted(Walk(page, depth=self._depth + 1).run().build(Kind.HTML.value))

    def _flush(self, gap: str = LINE, level: int | None = None) -> None:
        joined = "".join(self._buffer)
        self._buffer.clear()
        self._link_end = -1
        if self._context.in_row:
            joined = joined.strip(" |\n\t")  # empty cells at the edges of a row leave their separators behind
        if joined.strip():
            if self._context.preformatted:
                joined = dedent(joined.strip("\n"))
            else:
                joined = _TIDY_BLANKS.sub(" ", _TIDY_BREAKS.sub("\n", joined)).strip(" \n")
            self._builder.add(joined, gap=self._gap, marker=self._marker, level=level)
            self._gap, self._marker = LINE, ""
        if gap == PARAGRAPH:
            self._gap = PARAGRAPH
