"""Numbers of Word's list items: counted as Word counts, spelled as the level says.

What does not belong here: which paragraph belongs to which list (docx_styles.py). A missing or broken numbering
part means bullets, never an error.
"""

import re

from lxml import etree

from ingest_assets.extract.docx_xml import child, flag, integer, local, setting, value
from ingest_assets.extract.numerals import numeral


class Numbering:
    """Counts numbered paragraphs as Word does: per abstract list, deeper levels afresh under each number."""

    def __init__(self, root: etree._Element | None) -> None:
        self._levels: dict[str, dict[int, etree._Element]] = {}
        self._abstract: dict[str, str] = {}
        self._overrides: dict[tuple[str, int], etree._Element] = {}
        self._counts: dict[str, dict[int, int]] = {}
        self._restarted: set[tuple[str, int]] = set()
        for item in root if root is not None else ():
            if local(item) == "num":
                self._read_list(item)
        self._read_abstract_lists(root)

    def depth_of_style(self, number_id: str, style_id: str) -> int:
        """Return the level that the list ties to a paragraph style; 0 where it ties none."""
        levels = self._levels.get(self._abstract.get(number_id, ""), {})
        return next((depth for depth, level in levels.items() if setting(level, "pStyle") == style_id), 0)

    def marker(self, number_id: str, depth: int) -> str:
        """Return the marker of the next paragraph of that list at that depth, with a blank behind it."""
        if number_id == "0":
            return ""
        abstract = self._abstract.get(number_id, "")
        level = self._level(number_id, abstract, depth)
        indent = "  " * depth
        kind = "bullet" if level is None else setting(level, "numFmt") or "decimal"
        if level is None or kind == "bullet":
            return f"{indent}- "
        self._count(number_id, abstract, depth, level)
        label = "" if kind == "none" else self._label(number_id, abstract, level)
        return f"{indent}{label} " if label.strip() else ""

    def _read_list(self, item: etree._Element) -> None:
        number_id = value(item, "numId") or ""
        self._abstract[number_id] = setting(item, "abstractNumId") or ""
        for override in item:
            if local(override) == "lvlOverride":
                self._overrides[number_id, integer(value(override, "ilvl"))] = override

    def _read_abstract_lists(self, root: etree._Element | None) -> None:
        links: dict[str, str] = {}  # name of a list style -> the abstract list that defines it
        linked: dict[str, str] = {}  # abstract list -> name of the list style it borrows
        for item in root if root is not None else ():
            if local(item) != "abstractNum":
                continue
            abstract = value(item, "abstractNumId") or ""
            self._levels[abstract] = {integer(value(lvl, "ilvl")): lvl for lvl in item if local(lvl) == "lvl"}
            if defined := setting(item, "styleLink"):
                links[defined] = abstract
            if borrowed := setting(item, "numStyleLink"):
                linked[abstract] = borrowed
        for abstract, style in linked.items():
            if style in links and not self._levels[abstract]:
                self._levels[abstract] = self._levels[links[style]]

    def _level(self, number_id: str, abstract: str, depth: int) -> etree._Element | None:
        override = self._overrides.get((number_id, depth))
        own = None if override is None else child(override, "lvl")
        return self._levels.get(abstract, {}).get(depth) if own is None else own

    def _count(self, number_id: str, abstract: str, depth: int, level: etree._Element) -> None:
        counts = self._counts.setdefault(abstract, {})
        override = self._overrides.get((number_id, depth))
        start = None if override is None else setting(override, "startOverride")
        if start is not None and (number_id, depth) not in self._restarted:
            self._restarted.add((number_id, depth))
            counts[depth] = integer(start) - 1
        counts[depth] = counts.get(depth, integer(setting(level, "start"), 1) - 1) + 1
        for deeper in [known for known in counts if known > depth]:
            below = self._level(number_id, abstract, deeper)
            if below is None or setting(below, "lvlRestart") != "0":
                del counts[deeper]

    def _label(self, number_id: str, abstract: str, level: etree._Element) -> str:
        counts = self._counts[abstract]

        def number(match: re.Match[str]) -> str:
            depth = int(match.group(1)) - 1
            source = self._level(number_id, abstract, depth)
            start = 1 if source is None else integer(setting(source, "start"), 1)
            style = "decimal" if source is None or flag(level, "isLgl") else setting(source, "numFmt") or "decimal"
            return numeral(counts.get(depth, start), style)

        return re.sub(r"%([1-9])", number, setting(level, "lvlText") or "")
