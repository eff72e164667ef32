"""Proves that forms drawn within forms stay bounded: ten that draw the next one ten times are ten thousand million.

What does not belong here: the size of a single stream (pdf_guard.py).
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pypdf.generic import DictionaryObject, IndirectObject, StreamObject

from ingest_assets.extract.pdf_guard import CONTENT_LIMIT_BYTES, stream_filters, too_large, unpacked

DRAWS_LIMIT = 20  # of one page or form, below which nothing is looked at
_EXPANDED_LIMIT_BYTES = 4 * CONTENT_LIMIT_BYTES
# Letters that lie on each other are compared with each other: of a form that draws itself pdfium makes 30 layers.
_ENDLESS_LIMIT_BYTES = 200_000
_DEPTH = 30  # forms within forms, of which pdfium draws some more; one that draws itself goes as deep as it may
_DRAW = re.compile(rb"/([^\s/<>\[\](){}%]+)\s+Do\b")


@dataclass(frozen=True, slots=True)
class _Content:
    size_bytes: int = 0
    drawn: tuple[tuple[IndirectObject, int], ...] = ()  # (form or picture, how often)
    forms: DictionaryObject = field(default_factory=DictionaryObject)  # what can be drawn, by name


class Nesting:
    """The forms of one document."""

    def __init__(self, written: Mapping[int, Sequence[tuple[bytes, list[str]]]]) -> None:
        self._written = written  # (body, filters) of forms as they stand in the file, by object number
        self._contents: dict[int, _Content] = {}
        self._sizes: dict[tuple[int, int], int] = {}
        self._is_endless = False  # some form draws itself, by way of others or not

    def check(self, page: DictionaryObject, content: bytes) -> None:
        """Raise DocumentRejected (`too_large`) where a page with all the forms it draws grows beyond its bound."""
        size_bytes = self._expanded(_read(content, page, DictionaryObject()), _DEPTH)
        if size_bytes > (_ENDLESS_LIMIT_BYTES if self._is_endless else _EXPANDED_LIMIT_BYTES):
            raise too_large("A page")

    def _expanded(self, content: _Content, depth: int) -> int:
        """Return the bytes of a content with everything it draws; one that draws itself ends at the depth."""
        size_bytes = content.size_bytes
        self._is_endless = self._is_endless or (not depth and bool(content.drawn))
        for reference, count in content.drawn if depth else ():
            known = (reference.idnum, depth)
            if known not in self._sizes:
                self._sizes[known] = self._expanded(self._form(reference, content.forms), depth - 1)
            size_bytes += count * self._sizes[known]
        return size_bytes

    def _form(self, reference: IndirectObject, inherited: DictionaryObject) -> _Content:
        if reference.idnum not in self._contents:
            form = reference.get_object()
            bodies = list(self._written.get(reference.idnum, ()))
            if isinstance(form, StreamObject) and form.get("/Subtype") == "/Form":
                bodies.append((bytes(form._data), stream_filters(form)))  # noqa: SLF001 - get_data() would inflate it without our bounds
            holder = form if isinstance(form, DictionaryObject) else DictionaryObject()
            read = [_read(unpacked(body, filters), holder, inherited) for body, filters in bodies]
            found = max(read, key=_weight, default=_Content())
            self._contents[reference.idnum] = found
        return self._contents[reference.idnum]


def _read(content: bytes, holder: DictionaryObject, inherited: DictionaryObject) -> _Content:
    forms = _forms(holder) if "/Resources" in holder else inherited
    counts = Counter("/" + match[1].decode("latin-1") for match in _DRAW.finditer(content))
    named = [(forms.raw_get(name), count) for name, count in counts.items() if name in forms]
    drawn = tuple((reference, count) for reference, count in named if isinstance(reference, IndirectObject))
    return _Content(len(content), drawn, forms)


def _forms(holder: DictionaryObject) -> DictionaryObject:
    resources = holder.get("/Resources")
    resources = resources.get_object() if resources is not None else None
    forms = resources.get("/XObject") if isinstance(resources, DictionaryObject) else None
    forms = forms.get_object() if forms is not None else None
    return forms if isinstance(forms, DictionaryObject) else DictionaryObject()


def _weight(content: _Content) -> tuple[int, int]:
    return sum(count for _, count in content.drawn), content.size_bytes
