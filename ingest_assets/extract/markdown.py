"""Markdown: the source text itself, with its headings found and its noise (inline data, HTML tags) removed.

What does not belong here: rendering. The text stays Markdown, because people search for what they wrote.
Front matter lives in frontmatter.py, HTML in markdown_html.py. Only blocks that may hold a heading are parsed: the
rest of a large file would cost minutes.
"""

import re
from collections.abc import Iterator
from itertools import islice, pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

from ingest_assets.extract.charset import decode_text
from ingest_assets.extract.data_uris import without_data
from ingest_assets.extract.frontmatter import split_front_matter
from ingest_assets.extract.markdown_html import without_markup
from ingest_assets.extract.normalise import normalise, one_line
from ingest_assets.extract.sniff import Kind
from ingest_assets.records import Extracted, Heading

_BLOCKS = MarkdownIt("commonmark").disable(["inline", "text_join"])
_INLINE = MarkdownIt("commonmark")
_DATA_DEFINITION = re.compile(r"^ {0,3}\[[^\]\n]{1,200}\]:[ \t]*<?data:[^\n]*\n?", re.MULTILINE | re.IGNORECASE)
_FENCE = re.compile(r"^[ \t]*(?:[-*+][ \t]+|\d{1,9}[.)][ \t]+)?(`{3,}(?=[^`\n]*$)|~{3,})", re.MULTILINE)
_BLOCK = re.compile(r"[^\n]+(?:\n[^\n]+)*")
_CANDIDATE = re.compile(r"^ {0,3}(?:#{1,6}(?:[ \t]|$)|=+[ \t]*$|-+[ \t]*$)", re.MULTILINE)
_HEADING_LIMIT = 20_000
_LINES_LIMIT = 200_000  # lines of blocks that may hold a heading: parsing takes a second for twenty thousand
_TITLE_LIMIT = 500  # characters; the inline grammar is quadratic on hostile titles


def extract_markdown(data: bytes) -> Extracted:
    """Return the Markdown source with headings; front matter becomes properties and leaves the text.

    Raises DocumentRejected as `decode_text` does.
    """
    properties, body = split_front_matter(normalise(decode_text(data)))
    text = normalise(
        "".join(part if is_code else without_markup(part) for _, part, is_code in _parts(_without_data(body)))
    )
    headings = tuple(islice(_headings(text), _HEADING_LIMIT))
    if headings and "title" not in properties and headings[0].level == 1:
        properties["title"] = headings[0].title
    return Extracted(text, Kind.MARKDOWN.value, headings=headings, properties=properties)


def _parts(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield (start, part, is it fenced code) so that the parts make up the text; an open fence runs to the end."""
    position = 0
    while fence := _FENCE.search(text, position):
        mark = fence.group(1)
        closing = re.compile(rf"^[ \t]*{re.escape(mark[0])}{{{len(mark)},}}[ \t]*$", re.MULTILINE)
        close = closing.search(text, fence.end())
        end = close.end() if close else len(text)
        yield position, text[position : fence.start()], False
        yield fence.start(), text[fence.start() : end], True
        position = end
    yield position, text[position:], False


def _headings(text: str) -> Iterator[Heading]:
    lines_left = _LINES_LIMIT
    for start, block in _candidates(text):
        lines_left -= block.count("\n") + 1
        if lines_left < 0:
            return
        yield from _block_headings(block, start)


def _candidates(text: str) -> Iterator[tuple[int, str]]:
    """Yield (start, block) of every block outside code that may hold a heading."""
    for start, part, is_code in _parts(text):
        if not is_code and _CANDIDATE.search(part):
            for block in _BLOCK.finditer(part):
                if _CANDIDATE.search(block.group()):
                    yield start + block.start(), block.group()


def _block_headings(block: str, start: int) -> Iterator[Heading]:
    starts = [start]
    for line in block.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    for opening, content in pairwise(_BLOCKS.parse(block)):
        if opening.type == "heading_open" and opening.level == 0 and opening.map is not None:
            title = _plain(content)
            if title:
                yield Heading(int(opening.tag[1:]), title, starts[opening.map[0]])


def _plain(content: Token) -> str:
    if content.content.replace(" ", "").isalnum():
        return one_line(content.content[:_TITLE_LIMIT])
    children = _INLINE.parseInline(content.content[:_TITLE_LIMIT])[0].children or []
    shown = (child.content or " " * child.type.endswith("break") for child in children if child.type != "html_inline")
    return one_line("".join(shown))


def _without_data(text: str) -> str:
    return without_data(_DATA_DEFINITION.sub("", text) if "data:" in text.lower() else text)
