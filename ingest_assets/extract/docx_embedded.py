"""Parts of a Word package that show their text in the document: charts, diagrams, and imported files (altChunk).

What does not belong here: parts made of Word's own blocks (docx.py). What an imported file says is read by the
reader of its format, one level deep.
"""

from email import message_from_bytes, policy
from email.message import EmailMessage

from lxml import etree

from ingest_assets.errors import DocumentRejected
from ingest_assets.extract.assemble import LINE, TextBuilder
from ingest_assets.extract.docx_xml import local
from ingest_assets.extract.html import extract_html
from ingest_assets.extract.package import Package
from ingest_assets.extract.plaintext import extract_text
from ingest_assets.extract.sniff import Kind, is_mime, sniff
from ingest_assets.records import Extracted

IMPORTED = "aFChunk"
DRAWN = frozenset(("chart", "diagramData"))


def read_drawn(package: Package, part: str) -> Extracted | None:
    """Return the words of a chart or a diagram, one line each; None where it has none."""
    root = package.xml(part)
    builder = TextBuilder()
    lines = [] if root is None else [_line(item) for item in root.iter() if local(item) in ("p", "tx", "cat")]
    for line in dict.fromkeys(lines):
        builder.add(line, gap=LINE)
    found = builder.build(Kind.DOCX.value)
    return found if found.text else None


def read_imported(package: Package, part: str) -> Extracted | None:
    """Return the text of an imported web page or text file; None for what is not read."""
    data = package.read(part) or b""
    if is_mime(data):
        data = _page_of(data)
    try:
        kind = sniff(data, part)
        if kind is Kind.HTML:
            return extract_html(data)
        return extract_text(data) if kind is Kind.TEXT else None
    except DocumentRejected:
        return None


def _line(item: etree._Element) -> str:
    """Return the text directly in a paragraph, or the cached values of a chart's name or categories."""
    if local(item) == "p":
        return "".join(part.text or "" for part in item.iter() if local(part) == "t")
    return ", ".join(part.text or "" for part in item.iter() if local(part) == "v")


def _page_of(data: bytes) -> bytes:
    """Return the first page of a saved web page (MHT), in UTF-8 with its mark."""
    try:
        for part in message_from_bytes(data, policy=policy.default).walk():
            if isinstance(part, EmailMessage) and part.get_content_type() == "text/html":
                return b"\xef\xbb\xbf" + str(part.get_content()).encode("utf-8", "ignore")
    except (LookupError, ValueError, TypeError, AttributeError):  # what its parser lets out on damaged messages
        return b""
    return b""
