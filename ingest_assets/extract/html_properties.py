"""What a page says about itself in its head: title, description, author, dates, Open Graph.

What does not belong here: the visible text.
"""

from selectolax.lexbor import LexborHTMLParser

_NAMES = frozenset(("description", "author", "keywords", "date", "subject"))
_PREFIXES = ("og:", "article:", "dc.", "dcterms.")
_METAS_LIMIT = 200
_VALUE_LIMIT = 2000  # characters


def page_properties(parser: LexborHTMLParser) -> dict[str, str]:
    """Return title, language and what meta elements declare; of equal names the first counts."""
    properties: dict[str, str] = {}
    title = parser.css_first("head title")
    if title is not None:
        properties["title"] = title.text()[:_VALUE_LIMIT]
    for meta in parser.css("meta[content]")[:_METAS_LIMIT]:
        attributes = meta.attributes
        name = (attributes.get("property") or attributes.get("name") or "").strip().lower()
        content = attributes.get("content") or ""
        if (name in _NAMES or name.startswith(_PREFIXES)) and not content.startswith("data:"):
            properties.setdefault(name, content[:_VALUE_LIMIT])
    root = parser.css_first("html")
    if root is not None and root.attributes.get("lang"):
        properties["language"] = root.attributes["lang"] or ""
    return properties
