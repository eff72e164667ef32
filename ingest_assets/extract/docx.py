"""DOCX: what a reader of the accepted document sees, in reading order.

What does not belong here: opening packages (package.py), blocks (docx_blocks.py), styles and numbers
(docx_styles.py). Comments are left out; pages do not exist in the format.
"""

from collections.abc import Mapping

from lxml import etree

from ingest_assets.errors import DocumentRejected, Reason
from ingest_assets.extract.docx_blocks import Reader
from ingest_assets.extract.docx_embedded import DRAWN, IMPORTED, read_drawn, read_imported
from ingest_assets.extract.docx_styles import Styles
from ingest_assets.extract.docx_xml import child, local
from ingest_assets.extract.package import Package
from ingest_assets.extract.sniff import Kind
from ingest_assets.records import Extracted, ExtractWarning

_PROPERTIES = {
    "title": "title",
    "creator": "author",
    "subject": "subject",
    "keywords": "keywords",
    "description": "description",
}
_IMPORTS_LIMIT = 100  # imported files in one document


def extract_docx(data: bytes) -> Extracted:
    """Return the document's text with headings; core properties as properties.

    Raises DocumentRejected: `corrupt`, `too_large`, `encrypted`, and `unsupported_type` for other packages.
    """
    package = Package(data)
    name = _main_part(package)
    body = _body(package.xml(name))
    related = package.related(name)
    parts = dict(related.values())
    others = _OtherParts(package, related)
    styles = Styles(_if_whole(package, parts.get("styles", "")), _if_whole(package, parts.get("numbering", "")))
    reader = Reader(styles, others.open)
    reader.read(body)
    for kind in ("footnotes", "endnotes"):
        reader.read_notes(package.xml(parts.get(kind, "")))
    reader.read_margins([package.xml(part) for kind, part in related.values() if kind in ("header", "footer")])
    return reader.builder.build(Kind.DOCX.value, _properties(package), others.warnings())


class _OtherParts:
    """Opens charts, diagrams and imported files, each once, and remembers what could not be read."""

    def __init__(self, package: Package, related: Mapping[str, tuple[str, str]]) -> None:
        self._package = package
        self._related = dict(related)
        self._left_out = 0
        self._imports = 0

    def open(self, relation: str) -> Extracted | None:
        kind, part = self._related.pop(relation, ("", ""))
        if kind in DRAWN:
            return read_drawn(self._package, part)
        if kind != IMPORTED:
            return None
        self._imports += 1
        found = read_imported(self._package, part) if self._imports <= _IMPORTS_LIMIT else None
        self._left_out += found is None
        return found

    def warnings(self) -> list[ExtractWarning]:
        if not self._left_out:
            return []
        detail = f"{self._left_out} files that are imported into the document are of types that are not read."
        return [ExtractWarning("parts_left_out", detail)]


def _main_part(package: Package) -> str:
    """Return the name of the part that holds the document."""
    declared = [part for kind, part in package.related("").values() if kind == "officeDocument"]
    name = next((part for part in declared if package.has(part)), "word/document.xml")
    if package.has(name):
        return name
    if any(part.startswith("word/") for part in [*declared, *package.names()]):
        raise DocumentRejected(Reason.CORRUPT, "The package lacks its document part.")
    raise _other_package()


def _body(root: etree._Element | None) -> etree._Element:
    if root is None or local(root) != "document" or "wordprocessingml" not in str(root.tag):
        raise _other_package()
    body = child(root, "body")
    if body is None:
        raise DocumentRejected(Reason.CORRUPT, "The package has no document body.")
    return body


def _other_package() -> DocumentRejected:
    return DocumentRejected(Reason.UNSUPPORTED_TYPE, "The content is a package (zip) that holds no Word document.")


def _if_whole(package: Package, name: str) -> etree._Element | None:
    """Return a part that only adorns the text; a damaged one counts as missing."""
    try:
        return package.xml(name)
    except DocumentRejected as rejected:
        if rejected.reason is Reason.CORRUPT:
            return None
        raise


def _properties(package: Package) -> dict[str, str]:
    parts = [part for kind, part in package.related("").values() if kind == "core-properties"]
    root = _if_whole(package, next((part for part in parts if package.has(part)), "docProps/core.xml"))
    if root is None:
        return {}
    found = {local(item): item.text or "" for item in root}
    return {ours: found[theirs] for theirs, ours in _PROPERTIES.items() if theirs in found}
