"""Mends the frame of a damaged PDF, where its objects are still there: a lost trailer, a page tree that miscounts.

What does not belong here: damaged objects, which stay lost and are named as lost pages (pdf_judge.py).
"""

import re
from io import BytesIO

from pypdf.generic import DictionaryObject, NameObject, NumberObject

_TAIL = re.compile(rb"\btrailer\b|/Type\s*/XRef\b")
_END_BYTES = 2048  # that hold the way to the trailer of a whole file
_CATALOGUE = re.compile(rb"(?<!\d)(\d{1,9})\s+(\d{1,5})\s+obj\b(?:(?!endobj).){0,600}?/Type\s*/Catalog\b", re.DOTALL)


def with_trailer(data: bytes) -> bytes:
    """Return the file with a trailer that names its last catalogue, where the end was cut off and nothing else was."""
    if b"startxref" in data[-_END_BYTES:] or _TAIL.search(data):
        return data
    found = None
    for found in _CATALOGUE.finditer(data):  # noqa: B007 - the last one counts
        pass
    if found is None:
        return data
    return data + b"\ntrailer\n<</Root %s %s R>>\nstartxref\n0\n%%%%EOF\n" % (found[1], found[2])


def recounted(data: bytes, tree: DictionaryObject, count: int) -> bytes:
    """Return the file with a root of its page tree that counts its pages right; readers find the last one."""
    reference = getattr(tree, "indirect_reference", None)  # a tree inside the catalogue has none
    if reference is None:
        return data
    mended = DictionaryObject(tree)
    mended[NameObject("/Count")] = NumberObject(count)
    written = BytesIO()
    mended.write_to_stream(written)
    head = b"\n%d %d obj\n" % (reference.idnum, reference.generation)
    return data + head + written.getvalue() + b"\nendobj\nstartxref\n0\n%%EOF\n"
