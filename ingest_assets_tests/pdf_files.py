"""PDF files written by hand, so that a test says what is in them to the byte.

What does not belong here: assertions.
"""

import zlib
from collections.abc import Iterable

HELVETICA = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"
HELVETICA_BOLD = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica-Bold/Encoding/WinAnsiEncoding>>"


def build(objects: dict[int, bytes]) -> bytes:
    """Return a PDF of these objects; 1 is the catalogue."""
    out, offsets = b"%PDF-1.7\n", {}
    for number, content in objects.items():
        offsets[number] = len(out)
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    xref = b"".join(
        b"%010d 00000 n \n" % offsets[n] if n in offsets else b"0000000000 65535 f \n" for n in range(max(objects) + 1)
    )
    info = b"/Info 9 0 R" if 9 in objects else b""
    tail = b"xref\n0 %d\n%strailer\n<</Size %d/Root 1 0 R%s>>\nstartxref\n%d\n%%%%EOF\n"
    return out + tail % (max(objects) + 1, xref, max(objects) + 1, info, len(out))


def build_compact(objects: dict[int, bytes]) -> bytes:
    """Return a PDF of these objects, those without a stream inside an object stream, as most producers write today."""
    inside = [number for number, content in objects.items() if b"stream" not in content]
    holder, table = max(objects) + 1, max(objects) + 2
    places, packed = b"", b""
    for number in inside:
        places += b"%d %d " % (number, len(packed))
        packed += objects[number] + b"\n"
    head = b"/Type/ObjStm/N %d/First %d/Filter/FlateDecode" % (len(inside), len(places))
    written = {number: content for number, content in objects.items() if number not in inside}
    written[holder] = stream(places + packed, head)
    out, entries = b"%PDF-1.7\n", {number: (2, holder, index) for index, number in enumerate(inside)}
    for number, content in written.items():
        entries[number] = (1, len(out), 0)
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    entries[table] = (1, len(out), 0)
    rows = [entries.get(number, (0, 0, 0)) for number in range(table + 1)]
    xref = b"".join(bytes([kind]) + place.to_bytes(4, "big") + index.to_bytes(2, "big") for kind, place, index in rows)
    end = b"/Type/XRef/Size %d/W[1 4 2]/Root 1 0 R/Filter/FlateDecode" % (table + 1)
    return out + b"%d 0 obj\n%s\nendobj\nstartxref\n%d\n%%%%EOF\n" % (table, stream(xref, end), len(out))


def stream(content: bytes, extra: bytes = b"/Filter/FlateDecode") -> bytes:
    """Return a stream object, deflated unless told otherwise."""
    return packed_stream(zlib.compress(content) if b"Flate" in extra else content, extra)


def packed_stream(packed: bytes, extra: bytes) -> bytes:
    """Return a stream object of bytes that the filters in `extra` undo."""
    return b"<<%s/Length %d>>\nstream\n%s\nendstream" % (extra, len(packed), packed)


def lines(*texts: str) -> bytes:
    """Return page content with one text line each."""
    shown = b"".join(b"(%s) Tj T*\n" % text.encode("cp1252") for text in texts)
    return b"BT /F1 11 Tf 14 TL 72 720 Td\n" + shown + b"ET"


def pages(*contents: bytes, **extra: bytes) -> dict[int, bytes]:
    """Return the objects of a PDF with these page contents, from number 20 on."""
    kids = b" ".join(b"%d 0 R" % (20 + 2 * index) for index in range(len(contents)))
    objects = {
        1: b"<</Type/Catalog/Pages 2 0 R%s>>" % extra.get("catalogue", b""),
        2: b"<</Type/Pages/Count %d/Kids[%s]>>" % (len(contents), kids),
        3: HELVETICA,
        4: HELVETICA_BOLD,
    }
    for index, content in enumerate(contents):
        number = 20 + 2 * index
        page = (
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]%s"
            b"/Resources<</Font<</F1 3 0 R/F2 4 0 R>>%s>>/Contents %d 0 R>>"
        )
        objects[number] = page % (extra.get("page", b""), extra.get("resources", b""), number + 1)
        objects[number + 1] = stream(content)
    return objects


def placed(*texts: tuple[float, float, str], font: bytes = b"/F1 11") -> bytes:
    """Return page content with each text at its place, in points from the lower left corner."""
    return b"".join(b"BT %s Tf %g %g Td (%s) Tj ET\n" % (font, x, y, text.encode("cp1252")) for x, y, text in texts)


def picture(rows: Iterable[bytes], width: int) -> bytes:
    """Return an image of grey pixels, one byte each."""
    data = b"".join(rows)
    head = b"/Type/XObject/Subtype/Image/Width %d/Height %d/ColorSpace/DeviceGray/BitsPerComponent 8/Filter/FlateDecode"
    return stream(data, head % (width, len(data) // width))


DRAW_PICTURE = b"q 612 0 0 792 0 0 cm /Im Do Q\n"
