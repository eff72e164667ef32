"""A pypdf reader that does no more work than is asked of it, and says nothing.

What does not belong here: what the objects mean (pdf_structure.py).
"""

import inspect
import logging
import re
from collections.abc import Callable, Iterable
from io import BytesIO
from itertools import count as count_from
from itertools import repeat

import regex
from pypdf import PdfReader
from pypdf.generic import (
    ArrayObject,
    DictionaryObject,
    EncodedStreamObject,
    IndirectObject,
    NameObject,
    NullObject,
    NumberObject,
    PdfObject,
    StreamObject,
    read_object,
)

_KEPT_BYTES = 64 * 1024 * 1024  # of inflated object streams
_TRAILERS_SHARE = 2  # of the file's bytes that are read for its trailers, where its table is lost
# A dictionary of nothing but names, numbers, references and arrays of these two: what most pages are.
_PLAIN = regex.compile(
    rb"\s*+<<(?:\s*+/[A-Za-z]++\s*+(?:/[A-Za-z]++|-?+[\d.]++(?:\s++\d++\s++R\b)?+|\[[-\d.\sR]*+\]))*+\s*+>>"
)
_ENTRY = re.compile(rb"/([A-Za-z]++)\s*+(/[A-Za-z]++|\[[^]]*+\]|[^/>]++)")
_REFERENCES = regex.compile(rb"\[?+(?:\s*+\d{1,9}\s++\d{1,5}\s++R\b)*+\s*+\]?+\s*+")
_REFERENCE = re.compile(rb"(\d+)\s+(\d+)")
_TYPE, _COUNT, _PAGE, _NODE = (NameObject(name) for name in ("/Type", "/Count", "/Page", "/Pages"))
_PAGE_KEYS = [(key, NameObject(f"/{key.decode()}")) for key in (b"Contents", b"Resources", b"Annots")]
_TREE_KEYS = [(key, NameObject(f"/{key.decode()}")) for key in (b"Kids", b"Parent")]
_NODE_KEYS = frozenset([b"Type", b"Count", b"Kids", b"Parent"])  # one that has others hands them down
_COUNTED = re.compile(rb"\d{1,9}\s*")
# The head of a stream that is nothing but packed: what the content of most pages is, and streams of objects.
_PACKED = regex.compile(
    rb"\s*+(\d{1,9})\s++(\d{1,5})\s++obj\s*+<<((?:\s*+/[A-Z][A-Za-z]*+\s*+(?:/[A-Za-z]++|\d{1,9}+))*+)\s*+>>"
    rb"\s*+stream\r?\n"
)
_PACKED_ENTRY = re.compile(rb"/([A-Za-z]++)\s*+(/[A-Za-z]++|\d++)")
_PACKED_END = re.compile(rb"\s*+endstream\b")
_PACKED_KEYS = (frozenset([b"Filter", b"Length"]), frozenset([b"Filter", b"Length", b"Type", b"N", b"First"]))
_IN_USE, _COMPRESSED = 1, 2  # kinds of entries, of ISO 32000-1 table 18
_PARTS, _LONGEST = 3, 8  # of an entry, and bytes of one of its numbers
_FILTER, _FLATE = NameObject("/Filter"), NameObject("/FlateDecode")
_FIRST, _OBJECTS = NameObject("/First"), NameObject("/ObjStm")

# Their warnings quote what they found in the file.
for _name in ("pypdf", "pypdfium2"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)


class LazyReader(PdfReader):
    """Reads single objects of an object stream, where pypdf parses all of it to give one; plain objects at a glance."""

    def __init__(self, stream: BytesIO) -> None:
        self._unpacked: dict[int, tuple[BytesIO, dict[int, int]]] = {}
        self._unpacked_bytes = 0
        self._file = stream
        self._data = stream.getbuffer()
        super().__init__(stream)

    def get_object(self, indirect_reference: int | IndirectObject) -> PdfObject | None:
        """Return an object of the file, None for one that is missing."""
        found = self._read_packed(indirect_reference) if isinstance(indirect_reference, IndirectObject) else None
        return super().get_object(indirect_reference) if found is None else found

    def _read_packed(self, reference: IndirectObject) -> StreamObject | None:
        """Return a stream that is nothing but packed and ends where it says, None for any other object."""
        number, generation = reference.idnum, reference.generation
        start = self.xref.get(generation, {}).get(number)
        is_known = (generation, number) in self.resolved_objects or number in self.xref_objStm
        if start is None or is_known or self.is_encrypted or self.xref_free_entry.get(generation, {}).get(number):
            return None
        head = _PACKED.match(self._data, start)
        if head is None or (int(head[1]), int(head[2])) != (number, generation):
            return None
        entries = _PACKED_ENTRY.findall(head[3])
        values = dict(entries)
        holds_objects = values.get(b"Type") == b"/ObjStm"
        if values.keys() != _PACKED_KEYS[holds_objects] or len(values) != len(entries):
            return None
        try:
            end = head.end() + int(values[b"Length"])
            first = int(values.get(b"First", 0))
        except ValueError:  # a name
            return None
        if values[b"Filter"] != b"/FlateDecode" or not _PACKED_END.match(self._data, end):
            return None
        found = EncodedStreamObject()
        found._data = bytes(self._data[head.end() : end])  # noqa: SLF001 - set_data() would pack it once more
        found[_FILTER] = _FLATE
        if holds_objects:
            found[_TYPE], found[_FIRST] = _OBJECTS, NumberObject(first)
        self.cache_indirect_object(generation, number, found)
        return found

    def _find_pdf_trailers(self, data: bytes) -> Iterable[int]:  # type: ignore[override]  # of the class, where it has no file
        """Yield the places of trailers, the newest first: each that never ends is read to the end of the file."""
        allowed_bytes = _TRAILERS_SHARE * len(data)
        for position in reversed(list(super()._find_pdf_trailers(data))):
            yield position
            allowed_bytes -= self._file.tell() - position
            if allowed_bytes < 0:
                return

    def _read_xref_subsections(
        self,
        idx_pairs: list[int],
        get_entry: Callable[[int], int | tuple[int, ...]],
        used_before: Callable[[int, int | tuple[int, ...]], bool],
    ) -> None:
        """Read the entries of a packed table at once, where pypdf reads its numbers one by one."""
        given = inspect.getclosurevars(get_entry).nonlocals
        widths: list[int] = given.get("entry_sizes", [])
        table: BytesIO = given.get("stream_data", BytesIO())
        packed = table.getvalue() if self._is_usual(widths) else b""
        # Of an entry of another kind pypdf reads the first byte only, and goes on with the second.
        if not packed or max(packed[:: sum(widths)]) > _COMPRESSED:
            super()._read_xref_subsections(idx_pairs, get_entry, used_before)
            return
        size, compressed, position = sum(widths), self.xref_objStm, 0
        for start, count in self._pairs(idx_pairs):
            entries = packed[position : position + count * size]
            position += len(entries)
            places, others = _column(entries, size, 1, widths[1]), _column(entries, size, 1 + widths[1], widths[2])
            for number, kind, place, other in zip(count_from(start), entries[::size], places, others, strict=False):
                if kind == _IN_USE:
                    known = self.xref.setdefault(other, {})
                    if number not in known and number not in compressed:
                        known[number] = place
                elif kind == _COMPRESSED and number not in compressed and number not in self.xref.get(0, {}):
                    compressed[number] = (place, other)

    @staticmethod
    def _is_usual(widths: list[int]) -> bool:
        """Tell whether entries have a kind of one byte and two numbers that fit into eight."""
        return len(widths) == _PARTS and widths[0] == 1 and all(0 <= width <= _LONGEST for width in widths[1:])

    def _get_object_from_stream(self, indirect_reference: IndirectObject) -> PdfObject:
        number = indirect_reference.idnum
        holder = self.xref_objStm[number][0]
        if holder in self.xref_objStm:  # a stream inside a stream is no PDF; pypdf finds the circles
            return super()._get_object_from_stream(indirect_reference)
        stream, offsets = self._unpack(holder)
        if number not in offsets:
            return NullObject()
        found: PdfObject | None = self._read_plain(stream.getbuffer(), offsets[number])
        if found is None:
            stream.seek(offsets[number])
            found = read_object(stream, self)
        self.cache_indirect_object(0, number, found)
        return found

    def _read_plain(self, data: memoryview, offset: int) -> DictionaryObject | None:
        """Return a node of the page tree, and what is asked of a page; None for all else: pypdf reads it whole."""
        plain = _PLAIN.match(data, offset)
        entries = _ENTRY.findall(plain[0]) if plain is not None else []
        values = dict(entries)
        kind = values.get(b"Type")
        if len(values) != len(entries) or not (
            kind == b"/Page" or (kind == b"/Pages" and values.keys() <= _NODE_KEYS and b"Count" in values)
        ):
            return None
        found = DictionaryObject({_TYPE: _PAGE if kind == b"/Page" else _NODE})
        if kind == b"/Pages":
            if not _COUNTED.fullmatch(values[b"Count"]):
                return None
            found[_COUNT] = NumberObject(int(values[b"Count"]))
        for key, name in _PAGE_KEYS if kind == b"/Page" else _TREE_KEYS:
            if key in values:
                is_array = values[key].startswith(b"[")
                references = [IndirectObject(int(a), int(b), self) for a, b in _REFERENCE.findall(values[key])]
                if not _REFERENCES.fullmatch(values[key]) or not (references or is_array):
                    return None
                found[name] = ArrayObject(references) if is_array else references[0]
        return found

    def _unpack(self, holder: int) -> tuple[BytesIO, dict[int, int]]:
        if holder not in self._unpacked:
            packed = IndirectObject(holder, 0, self).get_object()
            if not isinstance(packed, StreamObject) or packed.get("/Type") != "/ObjStm":
                raise TypeError
            data, first = packed.get_data(), packed["/First"]
            if not isinstance(first, NumberObject) or not 0 <= first <= len(data):
                raise TypeError
            if self._unpacked_bytes + len(data) > _KEPT_BYTES:
                self._unpacked.clear()
                self._unpacked_bytes = 0
            numbers = [int(word) for word in data[:first].split()]
            places = dict(zip(numbers[::2], (first + offset for offset in numbers[1::2]), strict=False))
            self._unpacked[holder] = BytesIO(data), places
            self._unpacked_bytes += len(data)
        return self._unpacked[holder]


def _column(entries: bytes, size: int, start: int, width: int) -> Iterable[int]:
    """Return a number of every entry: `width` bytes from `start` on, the most significant first.

    The last entry may be cut.
    """
    if not width:
        return repeat(0)
    whole = len(entries) // size * size
    numbers: Iterable[int] = entries[start:whole:size]
    for place in range(start + 1, start + width):
        numbers = [number << 8 | byte for number, byte in zip(numbers, entries[place:whole:size], strict=True)]
    if whole == len(entries):
        return numbers
    return [*numbers, int.from_bytes(entries[whole:][start : start + width], "big")]
