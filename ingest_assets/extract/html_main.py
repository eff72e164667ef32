"""What is around a page's main content: menus, banners, footers, asides, cookie notices, lists of links.

What does not belong here: what a browser hides (html_rules.py, html_hidden.py). The rule is ours, small and
predictable: elements and roles that say so, names of cookie notices, and blocks that are nearly all links.
"""

import re

from selectolax.lexbor import LexborHTMLParser, LexborNode

_TAGS = frozenset(("nav", "aside", "footer", "header", "menu", "dialog"))
_ROLES = frozenset(
    ["navigation", "banner", "contentinfo", "complementary", "search", "menu", "menubar", "toolbar", "alertdialog"]
)
_CONTENT = frozenset(("main", "article"))
_NOTICE = re.compile(
    r"(?:^|[\s_-])(?:cookies?|consent|gdpr|onetrust|cookie(?:bar|banner|notice|consent))(?:$|[\s_-])", re.IGNORECASE
)
_BLOCKS = frozenset(("ul", "ol", "div", "section", "table", "p", "form"))
_NOTICE_BLOCKS = _BLOCKS | {"dialog", "aside"}
_LINKS_MINIMUM = 3
_LINK_SHARE = 0.75  # of a block's characters


class Surroundings:
    """Elements around the main content, found in one pass."""

    def __init__(self, parser: LexborHTMLParser) -> None:
        self._outside: set[int] = set()
        self._walk(parser.body or parser.root)

    def __contains__(self, node: object) -> bool:
        """Tell whether the element is around the content."""
        return getattr(node, "mem_id", None) in self._outside

    def _walk(self, root: LexborNode | None) -> None:
        """Judge every element when it is left; without recursion, because pages may be as deep as they like."""
        open_elements = [_Open(root, None)] if root is not None else []
        node = root.child if root is not None else None
        while open_elements:
            if node is None:
                done = open_elements.pop()
                self._judge(done)
                node = done.node.next if open_elements else None
                continue
            if node.is_text_node:
                open_elements[-1].characters += len("".join((node.text_content or "").split()))
                node = node.next
                continue
            open_elements.append(_Open(node, open_elements[-1]))
            node = node.child

    def _judge(self, done: "_Open") -> None:
        if done.around is not None:
            done.around.take(done)
        if done.is_outside() or (not done.is_content and done.is_links()):
            self._outside.add(done.node.mem_id)


class _Open:
    """One element on the way down, with what was counted inside it."""

    def __init__(self, node: LexborNode, around: "_Open | None") -> None:
        self.node = node
        self.around = around
        self.tag = node.tag or ""
        self.is_content: bool = (
            (around is not None and around.is_content) or self.tag in _CONTENT or _role(node) == "main"
        )
        self.characters = self.linked = self.links = 0
        self.has_title = self.tag == "h1"

    def take(self, inner: "_Open") -> None:
        """Add what was counted in a child."""
        is_link = inner.tag == "a"
        self.characters += inner.characters
        self.linked += inner.characters if is_link else inner.linked
        self.links += 1 if is_link else inner.links
        self.has_title = self.has_title or inner.has_title

    def is_outside(self) -> bool:
        """Tell whether the element says itself that it is around the content."""
        if _role(self.node) in _ROLES:
            return not self.has_title
        if self.tag in ("header", "footer"):
            return not self.is_content and not self.has_title
        if self.tag in _TAGS:
            return True
        attributes = self.node.attributes
        names = f"{attributes.get('id') or ''} {attributes.get('class') or ''}"
        return self.tag in _NOTICE_BLOCKS and not self.has_title and _NOTICE.search(names) is not None

    def is_links(self) -> bool:
        """Tell whether the block is nearly all links."""
        return (
            self.tag in _BLOCKS
            and self.links >= _LINKS_MINIMUM
            and self.linked >= _LINK_SHARE * self.characters
            and not self.has_title
        )


def _role(node: LexborNode) -> str:
    return (node.attributes.get("role") or "").strip().lower()
