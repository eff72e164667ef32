"""Proves that forms drawn within forms stay bounded: ten that draw the next one ten times are ten thousand million.

What does not belong here: the size of a single stream (pdf_guard.py).
"""

import re

from pypdf.generic import DictionaryObject, IndirectObject, StreamObject

from ingest_assets.extract.pdf_guard import CONTENT_LIMIT_BYTES, stream_filters, too_large, unpacked

DRAWS_LIMIT = 20  # of one page or form, below which nothing is looked at
_EXPANDED_LIMIT_BYTES = 4 * CONTENT_LIMIT_BYTES
_DEPTH = 30  # pdfium draws no deeper
_DRAW = re.compile(rb"/([^\s/<>\[\](){}%]+)\s+Do\b")


def check_nesting(page: DictionaryObject, content: bytes) -> None:
    """Raise DocumentRejected (`too_large`) where a page with all the forms it draws grows beyond its bound."""
    if _expanded(content, page, {}, frozenset(), 0) > _EXPANDED_LIMIT_BYTES:
        raise too_large("A page")


def _expanded(
    content: bytes, holder: DictionaryObject, known: dict[int, int], above: frozenset[int], depth: int
) -> int:
    """Return the bytes of a content with everything it draws."""
    size = len(content)
    forms = _forms(holder)
    counts: dict[str, int] = {}
    for match in _DRAW.finditer(content):
        name = "/" + match[1].decode("latin-1")
        counts[name] = counts.get(name, 0) + 1
    for name, count in counts.items():
        reference = forms.raw_get(name) if name in forms else None
        if not isinstance(reference, IndirectObject) or reference.idnum in above or depth > _DEPTH:
            continue
        if reference.idnum not in known:
            form = reference.get_object()
            known[reference.idnum] = 0
            if isinstance(form, StreamObject) and form.get("/Subtype") == "/Form":
                inner = unpacked(bytes(form._data), stream_filters(form))  # noqa: SLF001 - get_data() would inflate it without our bounds
                known[reference.idnum] = _expanded(inner, form, known, above | {reference.idnum}, depth + 1)
        size += count * known[reference.idnum]
    return size


def _forms(holder: DictionaryObject) -> DictionaryObject:
    resources = holder.get("/Resources")
    resources = resources.get_object() if resources is not None else None
    forms = resources.get("/XObject") if isinstance(resources, DictionaryObject) else None
    forms = forms.get_object() if forms is not None else None
    return forms if isinstance(forms, DictionaryObject) else DictionaryObject()
