"""HTML: what a reader sees, in reading order, in blocks.

What does not belong here: charsets (html_charset.py), walking the tree (html_walk.py), and what is around the
main content (html_main.py).
"""

import re

import regex
from selectolax.lexbor import LexborHTMLParser

from ingest_assets.errors import DocumentRejected, Reason
from ingest_assets.extract.html_charset import decode_html
from ingest_assets.extract.html_main import Surroundings
from ingest_assets.extract.html_properties import page_properties
from ingest_assets.extract.html_rules import VOID
from ingest_assets.extract.html_walk import Walk
from ingest_assets.extract.normalise import visible_length
from ingest_assets.extract.sniff import Kind
from ingest_assets.records import Extracted

_XHTML = re.compile(r"\s*<\?xml|<!doctype[^>]+xhtml|<html[^>]+www\.w3\.org/1999/xhtml", re.IGNORECASE)
_SELF_CLOSED = regex.compile(r"<([A-Za-z][\w:.-]*+)((?:\s(?:[^<>\"'/]|/(?!>)|\"[^\"<]*+\"|'[^'<]*+')*+)?)/>")
TAG_LIMIT = 2_000_000  # "<" in one page: its tree takes many times the memory of its text
_MINIMUM_CONTENT = 200  # characters; with less than this the main content was not found, and the page is read whole


def extract_html(data: bytes, *, main_content: bool = False) -> Extracted:
    """Return the visible text with headings; title, description and other declarations as properties.

    With main_content, menus, banners, footers, asides and lists of links are left out.
    Raises DocumentRejected: `too_large`, and as `decode_html` does.
    """
    source = decode_html(data)
    if source.count("<") > TAG_LIMIT:
        raise DocumentRejected(Reason.TOO_LARGE, f"The page has more than {TAG_LIMIT} tags.")
    if _XHTML.search(source[:2000]):
        source = _as_html(source)
    parser = LexborHTMLParser(source, scripting=True)
    properties = page_properties(parser)
    if main_content:
        extracted = Walk(parser, Surroundings(parser)).run().build(Kind.HTML.value, properties)
        if visible_length(extracted.text, _MINIMUM_CONTENT) >= _MINIMUM_CONTENT:
            return extracted
    return Walk(parser).run().build(Kind.HTML.value, properties)


def _as_html(source: str) -> str:
    """Spell XHTML so that an HTML parser reads it: no self-closed elements, no CDATA."""
    source = _SELF_CLOSED.sub(
        lambda tag: tag[0] if tag[1].lower() in VOID else f"<{tag[1]}{tag[2]}></{tag[1]}>", source
    )
    kept: list[str] = []
    position = 0
    while (start := source.find("<![CDATA[", position)) >= 0 and (end := source.find("]]>", start)) >= 0:
        kept += [source[position:start], source[start + 9 : end].replace("&", "&amp;").replace("<", "&lt;")]
        position = end + 3
    return "".join(kept) + source[position:]
