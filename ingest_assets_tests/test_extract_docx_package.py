"""DOCX packages as other programs write them, and broken or hostile ones, each with its reason.

What does not belong here: what the document says (test_extract_docx_content.py).
"""

import io
import struct
import zipfile
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import pytest

from ingest_assets.errors import DocumentRejected, Reason
from ingest_assets_tests.test_extract_docx import R, p, package, part, read

A = "http://schemas.openxmlformats.org/drawingml/2006/main"


def parts_of(document: bytes) -> dict[str, bytes]:
    """Return the parts of a package by name."""
    with zipfile.ZipFile(BytesIO(document)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(parts: Mapping[str, bytes | str], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip of these parts."""
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def changed(**changes: bytes | str | None) -> dict[str, bytes | str]:
    """Return the parts of a simple document, some replaced or (None) taken out; `types` and `rels` are short names."""
    names = {"types": "[Content_Types].xml", "rels": "_rels/.rels", "document": "word/document.xml"}
    parts: dict[str, bytes | str] = dict(parts_of(package(p("Body text."))))
    for name, content in changes.items():
        del parts[names[name]]
        if content is not None:
            parts[names[name]] = content
    return parts


def relations(target: str, kind: str = "officeDocument") -> str:
    """Return a relations part with one relation."""
    return (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        f'<Relationship Id="a" Type="{R}/{kind}" Target="{target}"/></Relationships>'
    )


def reason(data: bytes) -> Reason:
    """Return why a package is refused."""
    with pytest.raises(DocumentRejected) as rejected:
        read(data)
    return rejected.value.reason


class _Pipe(io.RawIOBase):
    """A file that cannot seek, so that zipfile writes data descriptors."""

    def __init__(self) -> None:
        self.written = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self.written += data
        return len(data)


def test_a_package_written_to_a_pipe_is_read() -> None:
    """Sizes stand behind the data then."""
    pipe = _Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in changed().items():
            archive.writestr(name, content)
    assert read(bytes(pipe.written)).text == "Body text."


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_every_compression_is_read(method: int) -> None:
    """Word writes deflate; others do not."""
    assert read(packed(changed(), method)).text == "Body text."


def test_names_and_targets_are_read_as_they_come() -> None:
    """Backslashes, absolute and dotted targets, percent signs, other letters' case, other folders."""
    parts = changed()
    backslashes = {name.replace("/", "\\"): content for name, content in parts.items()}
    assert read(packed(backslashes)).text == "Body text."
    for target in ("/word/document.xml", "./word/../word/document.xml", "Word/Document.XML", "word\\document.xml"):
        assert read(packed(changed(rels=relations(target)))).text == "Body text."
    moved = changed(document=None, rels=relations("doc%20s/main%20file.xml"))
    moved["doc s/main file.xml"] = parts["word/document.xml"]
    assert read(packed(moved)).text == "Body text."


def test_a_document_is_known_by_its_root_whatever_is_declared() -> None:
    """Macro files, templates, generic and missing declarations; Word's own text is what counts."""
    for declared in (None, "<Types/>", "<Types", "\x00"):
        assert read(packed(changed(types=declared))).text == "Body text."
    for kind in ("ms-word.document.macroEnabled.main+xml", "ms-word.template.macroEnabledTemplate.main+xml"):
        types = f'<Types><Override PartName="/word/document.xml" ContentType="application/vnd.{kind}"/></Types>'
        assert read(packed(changed(types=types))).text == "Body text."
    assert read(packed(changed(rels=None))).text == "Body text."


def test_other_packages_are_unsupported_types() -> None:
    """A workbook, slides, an OpenDocument text, an archive; whatever they are called."""
    workbook = changed(document="<workbook/>")
    slides = {"_rels/.rels": relations("ppt/presentation.xml"), "ppt/presentation.xml": "<p:presentation xmlns:p='x'/>"}
    for parts in (workbook, slides, {"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": "<o/>"},
                  {"a.txt": "text"}, {}):  # fmt: skip
        assert reason(packed(parts)) is Reason.UNSUPPORTED_TYPE


def test_damaged_packages_are_corrupt() -> None:
    """Cut off, flipped, without the document, with broken XML."""
    whole = packed(changed())
    assert reason(whole[: len(whole) // 2]) is Reason.CORRUPT
    assert reason(packed(changed(document=None))) is Reason.CORRUPT
    for content in ("", "<w:document", part("document", ""), b"\xff\xfe\x00", part("document", "&nothing;")):
        assert reason(packed(changed(document=content))) is Reason.CORRUPT
    stored = bytearray(packed(changed(), zipfile.ZIP_STORED))
    place = stored.index(b"Body text.")
    stored[place] ^= 1
    assert reason(bytes(stored)) is Reason.CORRUPT


def test_a_password_on_the_zip_is_encrypted() -> None:
    """Not corrupt: the content is fine."""
    data = bytearray(packed(changed()))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = data.find(signature)
        while place >= 0:
            data[place + offset] |= 1
            place = data.find(signature, place + 4)
    assert reason(bytes(data)) is Reason.ENCRYPTED


def test_of_duplicated_parts_the_last_counts() -> None:
    """As for every reader of zips."""
    buffer = BytesIO(packed(changed()))
    with zipfile.ZipFile(buffer, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("word/document.xml", part("document", f"<w:body>{p('Second.')}</w:body>"))
    assert read(buffer.getvalue()).text == "Second."


def test_a_broken_ornament_does_not_spoil_the_letter() -> None:
    """Styles, numbering and properties adorn the text; notes are text."""
    assert read(package(p("text"), styles="<w", numbering="\x00")).text == "text"
    assert reason(package(p("text"), footnotes="<w")) is Reason.CORRUPT


def test_bombs_are_too_large_however_they_are_built() -> None:
    """One long text, many parts that count together, a declared size that lies, a flood of entries, deep nesting."""
    assert reason(package(p("x" * 70_000_000))) is Reason.TOO_LARGE
    adorned = part("styles", f"<w:style>{'y' * 9_000_000}</w:style>" * 6)
    assert reason(package(p("x"), styles=adorned, numbering=adorned)) is Reason.TOO_LARGE
    assert reason(package("<w:sdt>" * 3000 + "</w:sdt>" * 3000)) is Reason.TOO_LARGE
    assert reason(package(p("x")) + b"PK\x01\x02" * 20_001) is Reason.TOO_LARGE
    lying = bytearray(package(p("x" * 70_000_000)))
    place = lying.index(b"PK\x01\x02", lying.index(b"word/document.xml", lying.index(b"PK\x01\x02")) - 60)
    lying[place + 24 : place + 28] = struct.pack("<I", 100)
    assert reason(bytes(lying)) in (Reason.TOO_LARGE, Reason.CORRUPT)


def test_a_wide_table_takes_no_time() -> None:
    """Rows, cells, styles and deleted ends by the ten thousand."""
    chain = "".join(f'<w:style w:styleId="s{n}"><w:basedOn w:val="s{n + 1}"/></w:style>' for n in range(3000))
    body = p("x", '<w:pStyle w:val="s0"/><w:rPr><w:del/></w:rPr>') * 30_000
    assert len(read(package(body, styles=part("styles", chain))).text) == 30_000


# Other parts that show text


def drawing(relation: str, kind: str) -> str:
    """Return a paragraph with a chart or a diagram."""
    names = {
        "chart": f'<c:chart xmlns:c="c" r:id="{relation}"/>',
        "diagramData": f'<d:relIds xmlns:d="d" r:dm="{relation}"/>',
    }
    return f"<w:p><w:r><w:t>Before</w:t><w:drawing>{names[kind]}</w:drawing></w:r></w:p>"


def test_charts_and_diagrams_say_their_words_where_they_stand() -> None:
    """Titles, series, categories, boxes of a diagram."""
    text = f'<a:p xmlns:a="{A}"><a:r><a:t>{{}}</a:t></a:r></a:p>'
    points = "".join(f"<d:pt><d:t>{text.format(words)}</d:t></d:pt>" for words in ("Intake", "Outlet"))
    diagram = f'<d:dataModel xmlns:d="d">{points}</d:dataModel>'
    chart = (
        f'<c:chartSpace xmlns:c="c"><c:title><c:tx><c:rich>{text.format("Flow by month")}</c:rich></c:tx></c:title>'
        "<c:ser><c:tx><c:pt><c:v>Pump 1</c:v></c:pt></c:tx>"
        "<c:cat><c:pt><c:v>May</c:v></c:pt><c:pt><c:v>June</c:v></c:pt></c:cat>"
        "<c:val><c:pt><c:v>17.25</c:v></c:pt></c:val></c:ser></c:chartSpace>"
    )
    body = drawing("rdiagramData", "diagramData") + drawing("rchart", "chart") + p("after")
    assert read(package(body, diagramData=diagram, chart=chart)).text == (
        "Before\n\nIntake\nOutlet\n\nBefore\n\nFlow by month\nPump 1\nMay, June\n\nafter"
    )


MHT = (
    'MIME-Version: 1.0\nContent-Type: multipart/related; boundary="b"\n\n--b\n'
    'Content-Type: text/html; charset="utf-8"\n'
    "Content-Transfer-Encoding: quoted-printable\n\n<html><p>caf=C3=A9</p></html>\n--b--\n"
)


@pytest.mark.parametrize(
    ("imported", "text"),
    [
        ("<html><body><h2>Inside</h2><p>caf\u00e9</p></body></html>", "Inside\n\ncafé"),
        ("plain text", "plain text"),
        (MHT, "café"),
        (MHT.replace("utf-8", "no-such"), None),
        ("{\\rtf1 x}", None),
        ("PK\x03\x04", None),
    ],
)
def test_imported_files_are_read_in_their_place_or_named_as_left_out(imported: str, text: str | None) -> None:
    """What is not read is said, never silently missing."""
    found = read(package(p("before") + '<w:altChunk r:id="raFChunk"/>' + p("after"), aFChunk=imported))
    assert found.text == "\n\n".join(filter(None, ["before", text, "after"]))
    assert [warning.code for warning in found.warnings] == ([] if text else ["parts_left_out"])
    assert [heading.title for heading in found.headings] == (["Inside"] if text and "Inside" in text else [])
    assert all(found.text[heading.char_start :].startswith(heading.title) for heading in found.headings)


def test_page_margins_come_once_unless_they_are_page_numbers() -> None:
    """Short names are text; "Page 3 of 7" in any language is not."""
    for number in ("Page 3 of 7", "Seite 3 von 7", "3", "第3页 共7页", "– 3 –"):
        assert read(package(p("Body"), footer=part("ftr", p(number)))).text == "Body"
    assert read(package(p("Body"), header=part("hdr", p("ACME AG")), footer=part("ftr", p("ACME AG")))).text == (
        "Body\n\nACME AG"
    )
