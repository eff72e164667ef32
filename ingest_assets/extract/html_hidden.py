"""What the page's own style rules hide, as far as that can be told without a browser.

What does not belong here: `hidden` and `style` attributes (html_rules.py). Only rules with one plain selector (tag,
class, id) hide; any rule that could show an element keeps it. Files of styles are never fetched.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from selectolax.lexbor import LexborHTMLParser, LexborNode

_SHEET_LIMIT = 1_000_000  # characters of style rules in one page
_RULES_LIMIT = 20_000
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_DECLARATION = re.compile(r"(?:^|;)\s*(display|visibility)\s*:\s*([a-z-]+)\s*(!\s*important)?", re.IGNORECASE)
_SIMPLE = re.compile(r"(?:[a-z][\w-]*|\*)?(?:[.#][\w-]+)*", re.IGNORECASE)
_NAMES = re.compile(r"([.#]?)([\w-]+)")
_STATE = re.compile(
    r":(?:hover|focus|active|target|checked|before|after|visited|first-letter|first-line)|::", re.IGNORECASE
)
_PSEUDO = re.compile(r":[\w-]+(?:\([^()]*\))?|\[[^\]]*\]")
_COMBINATOR = re.compile(r"[\s>+~]+")
# Scripts take these rules back once they ran: pages hide themselves until they are ready.
_NEVER_HIDDEN = frozenset(("html", "body", "main", "article", "*", ""))


@dataclass(frozen=True, slots=True)
class _Rule:
    tag: str
    names: frozenset[str]  # ".class" and "#id"
    hides: bool
    rank: tuple[bool, bool, int, int]  # important, of unknown weight, specificity, order: the highest wins


class HidingRules:
    """The display rules of one page, looked up by element."""

    def __init__(self, parser: LexborHTMLParser) -> None:
        self._by_name: dict[str, list[_Rule]] = {}
        sheets = [node.text() for node in parser.css("style") if "print" not in (node.attributes.get("media") or "")]
        css = _COMMENT.sub("", "\n".join(sheets)[:_SHEET_LIMIT])
        rules = list(_rules(css)) if re.search(r"none|hidden", css, re.IGNORECASE) else []
        if any(rule.hides for rule in rules):
            for rule in rules[:_RULES_LIMIT]:
                self._by_name.setdefault(next(iter(sorted(rule.names)), rule.tag), []).append(rule)

    def hide(self, node: LexborNode) -> bool:
        """Tell whether the rule that wins for this element hides it."""
        if not self._by_name:
            return False
        attributes = node.attributes
        names = {f".{name}" for name in (attributes.get("class") or "").split()[:50]}
        if attributes.get("id"):
            names.add(f"#{attributes['id']}")
        tag = node.tag or ""
        found = (rule for name in (*names, tag, "*") for rule in self._by_name.get(name, ()))
        matching = [rule for rule in found if rule.names <= names and rule.tag in ("", "*", tag)]
        return bool(matching) and max(matching, key=lambda rule: rule.rank).hides


def _rules(css: str) -> Iterator[_Rule]:
    for order, (media, selectors, declarations) in enumerate(_blocks(css)):
        said = {match[1].lower(): match for match in _DECLARATION.finditer(declarations)}
        if not said or "@keyframes" in media or ("print" in media and "screen" not in media):
            continue
        hides = any(match[2].lower() in ("none", "hidden", "collapse") for match in said.values())
        is_important = any(match[3] for match in said.values())
        for selector in selectors.split(","):
            yield from _rule(selector.strip(), order, hides=hides, is_plain=not media, is_important=is_important)


def _rule(selector: str, order: int, *, hides: bool, is_plain: bool, is_important: bool) -> Iterator[_Rule]:
    is_simple = is_plain and _SIMPLE.fullmatch(selector) is not None
    if (hides and (not is_simple or selector.lower() in _NEVER_HIDDEN)) or _STATE.search(selector):
        return
    last = selector if is_simple else _COMBINATOR.split(_PSEUDO.sub("", selector).strip())[-1]
    parts = _NAMES.findall(last)
    tag = next((name.lower() for kind, name in parts if not kind), "*")
    names = frozenset(kind + name for kind, name in parts if kind)
    weight = sum(100 if name[0] == "#" else 10 for name in names) + (tag != "*")
    yield _Rule(tag, names, hides, (is_important, not is_simple, weight, order))


def _blocks(css: str) -> Iterator[tuple[str, str, str]]:
    """Yield (what stands around the rule, its selectors, its declarations)."""
    around: list[str] = []
    position = 0
    for brace in re.finditer(r"[{}]", css):
        text = css[position : brace.start()]
        position = brace.end()
        if brace.group() == "{":
            around.append(text.rpartition(";")[2].strip())
        elif around:
            selectors = around.pop()
            if not selectors.startswith("@"):
                yield " ".join(around[-3:]), selectors, text
