"""A pypdf reader that does no more work than is asked of it, and says nothing.

What does not belong here: what the objects mean (pdf_structure.py).
"""

import logging
from io import BytesIO

from pypdf import PdfReader
from pypdf.generic import IndirectObject, NullObject, NumberObject, PdfObject, StreamObject, read_object

_KEPT_BYTES = 64 * 1024 * 1024  # of inflated object streams

# Their warnings quote what they found in the file.
for _name in ("pypdf", "pypdfium2"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)


class LazyReader(PdfReader):
    """Reads single objects of an object stream, where pypdf parses all of it to give one."""

    def __init__(self, stream: BytesIO) -> None:
        self._unpacked: dict[int, tuple[BytesIO, dict[int, int]]] = {}
        self._unpacked_bytes = 0
        super().__init__(stream)

    def _get_object_from_stream(self, indirect_reference: IndirectObject) -> PdfObject:
        number = indirect_reference.idnum
        holder = self.xref_objStm[number][0]
        if holder in self.xref_objStm:  # a stream inside a stream is no PDF; pypdf finds the circles
            return super()._get_object_from_stream(indirect_reference)
        stream, offsets = self._unpack(holder)
        if number not in offsets:
            return NullObject()
        stream.seek(offsets[number])
        found = read_object(stream, self)
        self.cache_indirect_object(0, number, found)
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
