"""HTML inside Markdown: what a reader of the rendered page sees of it.

What does not belong here: whole pages (html.py). Only tags of HTML's own names go; `<host>` and the like are text.
Code spans and escaped tags are examples, and stay.
"""

import re
from html import unescape

import regex

from ingest_assets.extract.normalise import one_line

_CODE_SPAN_LIMIT = 2000  # characters in which a code span must close, so that hostile ticks stay linear
_HEADING_LIMIT = 1000  # as above, of an HTML heading
_INLINE = (
    "a|abbr|acronym|b|bdi|bdo|big|cite|code|data|del|dfn|em|font|i|ins|kbd|label|mark|nobr|picture|q|samp|small|source"
    "|span|strike|strong|sub|sup|time|tt|u|var|wbr"
)
_BLOCK = (
    "address|article|aside|blockquote|center|dd|details|div|dl|dt|figcaption|figure|footer|form|header|hr|li|main|nav|ol"
    "|p|pre|section|summary|table|tbody|tfoot|thead|tr|ul|br|video|audio|iframe|object|embed|svg|g|path"
)
_START = regex.compile(
    r"(?P<indented>(?<=\n\n)(?: {4}|\t)[^\n]*+(?:\n(?: {4}|\t)[^\n]*+)*+)"
    r"|(?P<reference>&(?:#[0-9]{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]{1,31});)"
    rf"|\\[\\<&`]|(?P<code>`+)|(?P<comment><!--)|<(?P<hidden>script|style|template)\b[^<>]{{0,2000}}>"
    rf"|<(?P<heading>h[1-6])\b[^<>]{{0,2000}}>|</?(?:(?P<inline>{_INLINE}|h[1-6])|(?P<block>{_BLOCK})|(?P<cell>td|th)"
    r"|(?P<picture>img))(?=[\s/>])[^<>]{0,4000}>",
    regex.IGNORECASE,
)
_TAG = re.compile(r"<[^<>]{1,4000}>")
_ALTERNATIVE = re.compile(r"\balt\s*=\s*(?:\"([^\"]*)\"|'([^']*)')", re.IGNORECASE)


def without_markup(text: str) -> str:
    """Return Markdown without HTML tags, comments and scripts; an HTML heading becomes one of Markdown."""
    if "<" not in text and "&" not in text:
        return text
    kept: list[str] = []
    absent: set[str] = set()
    position = 0
    while match := _START.search(text, position):
        shown, end = _shown(text, match, absent)
        kept += [text[position : match.start()], shown]
        position = end
    return "".join(kept) + text[position:]


def _shown(text: str, match: regex.Match[str], absent: set[str]) -> tuple[str, int]:
    """Return (what a reader sees of this piece, where the text goes on)."""
    kind = match.lastgroup
    if kind in ("comment", "hidden", "heading"):
        return _closed(text, match, kind, absent)
    if kind == "code":
        close = text.find(match.group(), match.end(), match.end() + _CODE_SPAN_LIMIT)
        end = match.end() if close < 0 else close + len(match.group())
        return text[match.start() : end], end
    if kind == "picture":
        found = _ALTERNATIVE.search(match.group())
        return (f" {found[1] or found[2] or ''} " if found else ""), match.end()
    if kind == "reference":
        return unescape(match.group()), match.end()
    return {"inline": "", "block": "\n", "cell": " "}.get(kind or "", match.group()), match.end()


def _closed(text: str, match: regex.Match[str], kind: str, absent: set[str]) -> tuple[str, int]:
    """Judge a piece that ends with a mark of its own; without it, the opening is text or a lost tag."""
    mark = "-->" if kind == "comment" else f"</{match.group(kind).lower()}"
    close = -1
    if kind == "heading":
        close = text[match.end() : match.end() + _HEADING_LIMIT].lower().find(mark)
        close += match.end() if close >= 0 else 0
    elif mark not in absent:
        found = re.compile(mark, re.IGNORECASE).search(text, match.end())
        close = found.start() if found else -1
        absent.update([mark] if close < 0 else [])  # further on it is not there either
    if close < 0:
        return (match.group() if kind == "comment" else ""), match.end()
    end = close + 3 if kind == "comment" else text.find(">", close, close + 100) + 1 or len(text)
    title = one_line(_TAG.sub("", text[match.end() : close])) if kind == "heading" else ""
    return (f"\n\n{'#' * int(match.group(kind)[1])} {title}\n\n" if title else ""), end
