"""Files that hurt whoever reads them: they never end, take all memory, or take long; a few kilobytes or megabytes each.

What does not belong here: files that are merely damaged, which are cases.
"""

import zipfile
import zlib
from io import BytesIO

OFFICE = "http://schemas.openxmlformats.org"
RESOURCES = b"/Resources<</Font<</F1 3 0 R>>/XObject<</X 8 0 R>>>>"


def endless_pdf() -> bytes:
    """Return a PDF whose one form draws itself two hundred thousand times."""
    return _pdf(b"/X Do", b"/X Do " * 200_000)


def growing_pdf() -> bytes:
    """Return a PDF of two kilobytes whose page shows a form with two hundred lines two thousand times."""
    form = b"BT /F1 11 Tf 14 TL 72 720 Td\n" + b"(Text that comes again and again) Tj T*\n" * 200 + b"ET"
    return _pdf(b"/X Do " * 2000, form)


def slow_html() -> bytes:
    """Return an honest page of nine hundred thousand paragraphs, which takes many seconds."""
    return b"<html><body>" + b"<p>word</p>" * 900_000


def long_docx(paragraphs: int = 20_000) -> bytes:
    """Return an honest document whose XML needs some forty megabytes of memory."""
    word = f"{OFFICE}/wordprocessingml/2006/main"
    body = "".join(f"<w:p><w:r><w:t>Line {number}</w:t></w:r></w:p>" for number in range(paragraphs))
    main = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    relation = f"{OFFICE}/officeDocument/2006/relationships/officeDocument"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{OFFICE}/package/2006/content-types">'
        f'<Override PartName="/word/document.xml" ContentType="{main}"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{OFFICE}/package/2006/relationships">'
        f'<Relationship Id="a" Type="{relation}" Target="word/document.xml"/></Relationships>',
        "word/document.xml": f'<w:document xmlns:w="{word}"><w:body>{body}</w:body></w:document>',
    }
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _pdf(page: bytes, form: bytes) -> bytes:
    objects = {
        1: b"<</Type/Catalog/Pages 2 0 R>>",
        2: b"<</Type/Pages/Count 1/Kids[4 0 R]>>",
        3: b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
        4: b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]%s/Contents 5 0 R>>" % RESOURCES,
        5: _stream(b"BT /F1 11 Tf 72 720 Td (A page) Tj ET " + page, b""),
        8: _stream(form, b"/Type/XObject/Subtype/Form/BBox[0 0 612 792]" + RESOURCES),
    }
    out, offsets = b"%PDF-1.7\n", {}
    for number, content in objects.items():
        offsets[number] = len(out)
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    entries = [b"%010d 00000 n \n" % offsets[n] if n in offsets else b"0000000000 65535 f \n" for n in range(9)]
    tail = b"xref\n0 9\n%strailer\n<</Size 9/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n"
    return out + tail % (b"".join(entries), len(out))


def _stream(content: bytes, extra: bytes) -> bytes:
    packed = zlib.compress(content)
    return b"<<%s/Filter/FlateDecode/Length %d>>\nstream\n%s\nendstream" % (extra, len(packed), packed)
