"""PDF files that are broken, locked or hostile: what can be proven whole is read, the rest is refused in bounded space.

What does not belong here: what a sound file says (test_extract_pdf.py, test_extract_pdf_reading.py).
"""

import base64
import io
import re
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pypdf import PdfReader, PdfWriter

from ingest_assets.errors import DocumentRejected, Reason
from ingest_assets.extract import extract
from ingest_assets.extract.pdf_reader import LazyReader
from ingest_assets.records import Extracted
from ingest_assets.settings import ExtractSettings
from ingest_assets_tests.pdf_files import build, build_compact, lines, packed_stream, pages, stream

SETTINGS = ExtractSettings(min_characters=1)
TEXT = "Call the duty engineer before opening valve seven."
FORM = b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]"
BOMB = zlib.compress(b"0 0 m " * 14_000_000, 9)


def read(data: bytes) -> Extracted:
    """Extract."""
    return extract(data, "a.pdf", SETTINGS)


def reason(data: bytes) -> Reason:
    """Extract and return why that was refused."""
    with pytest.raises(DocumentRejected) as rejected:
        read(data)
    return rejected.value.reason


def ledger(count: int) -> dict[int, bytes]:
    """Return the objects of so many pages, whose texts differ."""
    return pages(*[lines(f"Ledger page {n}", f"Balance {n * 37} crowns") for n in range(1, count + 1)])


def all_balances(text: str, count: int) -> bool:
    """Tell whether every page of a ledger is there."""
    return all(f"Balance {n * 37} crowns" in text for n in range(1, count + 1))


def encrypted(user: str, algorithm: str) -> bytes:
    """Return a PDF that is locked with an owner password and this user password."""
    writer = PdfWriter(PdfReader(io.BytesIO(build(pages(lines(TEXT))))))
    writer.encrypt(user, "owner", algorithm=algorithm)
    target = io.BytesIO()
    writer.write(target)
    return target.getvalue()


@pytest.mark.parametrize("algorithm", ["RC4-40", "RC4-128", "AES-128", "AES-256-R5", "AES-256"])
def test_a_restricted_file_opens_and_a_locked_one_says_so(algorithm: str) -> None:
    """An empty user password is none, in every kind of encryption."""
    assert read(encrypted("", algorithm)).text == TEXT
    assert reason(encrypted("secret", algorithm)) is Reason.ENCRYPTED


def test_an_encryption_of_somebody_else_is_encrypted() -> None:
    """By certificates, or by a program of its own."""
    for handler in (
        b"/Filter/Adobe.PubSec/SubFilter/adbe.pkcs7.s4/V 2/Length 128",
        b"/Filter/FOPN_fLock/V 1/Length 40",
    ):
        data = build(pages(lines(TEXT)) | {8: b"<<" + handler + b">>"})
        assert reason(data.replace(b"/Root 1 0 R", b"/Root 1 0 R/Encrypt 8 0 R/ID[(0123)(0123)]")) is Reason.ENCRYPTED


def test_a_broken_frame_around_whole_objects_is_mended() -> None:
    """A reader's program opens all of these without a word."""
    sound = build(ledger(6))
    end = sound.rindex(b"startxref")
    broken = {
        "no end": sound[: sound.rindex(b"xref\n0")],
        "no startxref": sound[:end],
        "startxref nowhere": sound[:end] + b"startxref\n99999999\n%%EOF",
        "line ends": sound.replace(b"\n", b"\r\n"),
        "offsets": re.sub(rb"(\d{10}) 00000 n", lambda match: b"%010d 00000 n" % (int(match[1]) + 3), sound),
        "twice": sound + sound,
        "page after page": sound + b"<html>Not found</html>" * 50,
        "too few counted": sound.replace(b"/Count 6", b"/Count 2"),
        "too many counted": sound.replace(b"/Count 6", b"/Count 9"),
        "negative count": sound.replace(b"/Count 6", b"/Count -1"),
        "lengths too short": re.sub(rb"/Length (\d+)", lambda match: b"/Length %d" % (int(match[1]) // 2), sound),
        "lengths too long": re.sub(rb"/Length (\d+)", b"/Length 999999", sound),
        "no lengths": re.sub(rb"/Length (\d+)", b"", sound),
    }
    for name, data in broken.items():
        found = read(data)
        assert (len(found.pages), all_balances(found.text, 6)) == (6, True), name


def test_a_few_lost_pages_are_named_and_many_refuse_the_document() -> None:
    """Half a document is never indexed as a whole one, and a page of thirty does not cost the other twenty-nine."""
    objects = ledger(30)
    del objects[20 + 2 * 6]
    objects[21 + 2 * 9] = objects[21 + 2 * 9][:60] + b"\0" * 40 + b"\nendstream"
    found = read(build(objects))
    assert [(warning.code, warning.pages) for warning in found.warnings] == [("lost_pages", (7, 10))]
    assert found.text.count("Balance") == 28
    for index in range(12, 16):
        del objects[20 + 2 * index]
    assert reason(build(objects)) is Reason.CORRUPT
    whole = build(ledger(30))
    assert reason(whole[: len(whole) // 2]) is Reason.CORRUPT


def test_circles_end() -> None:
    """In the outline, the fields, the contents, the parents and the forms."""
    objects = pages(lines(TEXT), catalogue=b"/Outlines 10 0 R/AcroForm<</Fields[12 0 R]>>")
    objects |= {
        10: b"<</First 11 0 R/Last 11 0 R/Count 1>>",
        11: b"<</Title(Loop)/Parent 10 0 R/Next 11 0 R/First 11 0 R/Dest[20 0 R/Fit]>>",
        12: b"<</T(a)/FT/Tx/Kids[12 0 R]/Parent 12 0 R>>",
    }
    objects[20] = objects[20].replace(b"/Parent 2 0 R", b"/Parent 20 0 R")
    assert read(build(objects)).text == TEXT
    mutual = pages(lines(TEXT) + b" /A Do", resources=b"/XObject<</A 8 0 R>>")
    mutual[8] = stream(b"/B Do", FORM + b"/Resources<</XObject<</B 9 0 R>>>>")
    mutual[9] = stream(b"/A Do", FORM + b"/Resources<</XObject<</A 8 0 R>>>>")
    assert read(build(mutual)).text == TEXT
    own = pages(lines(TEXT))
    own[21] = b"[21 0 R]"
    assert reason(build(own)) is Reason.CORRUPT


@pytest.mark.parametrize(
    ("filters", "packed"),
    [
        (b"/FlateDecode", BOMB),
        (b"[/ASCII85Decode/FlateDecode]", base64.a85encode(BOMB) + b"~>"),
        (b"[/AHx/Fl]", BOMB.hex().encode() + b">"),
        (b"/Run#4cengthDecode", b"\x81 " * 700_000 + b"\x80"),
        (b"[/FlateDecode/RunLengthDecode]", zlib.compress(b"\x81 " * 700_000 + b"\x80")),
    ],
    ids=["flate", "base 85", "hexadecimal", "run length", "run length in flate"],
)
def test_a_bomb_is_found_under_every_wrapping(filters: bytes, packed: bytes) -> None:
    """As content of a page, and as a form that a page draws."""
    objects = pages(lines(TEXT))
    objects[21] = packed_stream(packed, b"/Filter" + filters)
    assert reason(build(objects)) is Reason.TOO_LARGE
    if b"Run" not in filters:
        drawn = pages(lines(TEXT) + b" /X Do", resources=b"/XObject<</X 8 0 R>>")
        drawn[8] = packed_stream(packed, FORM + b"/Filter" + filters)
        assert reason(build(drawn)) is Reason.TOO_LARGE


def test_a_bomb_behind_an_encryption_is_found() -> None:
    """Nothing can be inflated before it is decrypted."""
    objects = pages(lines(TEXT) + b" /X Do", resources=b"/XObject<</X 8 0 R>>")
    objects[8] = packed_stream(BOMB, FORM + b"/Filter/FlateDecode")
    writer = PdfWriter(PdfReader(io.BytesIO(build(objects))))
    writer.encrypt("", "owner", algorithm="AES-256")
    target = io.BytesIO()
    writer.write(target)
    assert reason(target.getvalue()) is Reason.TOO_LARGE


def test_forms_that_draw_each_other_tenfold_are_a_bomb_too() -> None:
    """A thousand bytes of nine forms become a thousand million letters."""
    objects = pages(lines(TEXT) + b" /A Do", resources=b"/XObject<</A 100 0 R>>")
    for number in range(100, 109):
        objects[number] = stream(b"/A Do " * 10, FORM + b"/Resources<</XObject<</A %d 0 R>>>>" % (number + 1))
    objects[109] = stream(b"BT /F1 1 Tf (x) Tj ET", FORM + b"/Resources<</Font<</F1 3 0 R>>>>")
    assert reason(build(objects)) is Reason.TOO_LARGE
    inherited = dict(objects)
    page, _, resources = objects[20].partition(b"/Resources")
    resources, _, rest = resources.partition(b"/Contents")
    inherited[20] = page + b"/Contents" + rest
    inherited[2] = objects[2][: -len(b">>")] + b"/Resources" + resources + b">>"
    assert reason(build(inherited)) is Reason.TOO_LARGE
    assert reason(build_compact(inherited)) is Reason.TOO_LARGE
    objects[101] = stream(b"BT /F1 1 Tf (x) Tj ET", FORM + b"/Resources<</Font<</F1 3 0 R>>>>")
    assert TEXT in read(build(objects)).text


def test_one_stream_drawn_many_times_counts_many_times() -> None:
    """In the list of contents of a page."""
    objects = pages(lines(TEXT))
    objects[20] = objects[20].replace(b"/Contents 21 0 R", b"/Contents[%s]" % (b"8 0 R " * 300))
    objects[8] = stream(b"BT /F1 9 Tf (some words here) Tj ET " * 30_000)
    assert reason(build(objects)) is Reason.TOO_LARGE


def test_pages_without_anything_on_them_are_an_empty_document() -> None:
    """Nobody has to look for a scan that is not there."""
    assert reason(build(pages(b"", b""))) is Reason.EMPTY_DOCUMENT
    nested = pages()
    nested[2] = b"<</Type/Pages/Count 0/Kids[8 0 R]>>"
    nested[8] = b"<</Type/Pages/Count 0/Kids[]/Parent 2 0 R>>"
    assert reason(build(nested)) is Reason.EMPTY_DOCUMENT


def test_letters_scaled_beyond_every_number_are_read() -> None:
    """Damage repeats what scales a page until the size of its letters is no number."""
    scaled = b"999999999 0 0 999999999 0 0 cm " * 8
    found = read(build(pages(lines(TEXT), scaled + lines("Keep clear of the gate"))))
    assert [found.text[page.char_start : page.char_end] for page in found.pages] == [TEXT, "Keep clear of the gate"]


def test_a_compact_file_says_the_same() -> None:
    """Pages that stand in an object stream, with arrays and notes, are read and judged like any other."""
    objects = pages(lines(TEXT), lines("Second page"), lines("Third page"))
    for number in (20, 22, 24):
        resources = objects[number].partition(b"/Resources")[2].rpartition(b"/Contents")[0]
        objects[number + 100] = resources
        objects[number] = objects[number].replace(resources, b" %d 0 R" % (number + 100))
    objects[22] = objects[22].replace(b"/Contents 23 0 R", b"/Contents[23 0 R 25 0 R]/Annots[8 0 R]")
    objects[8] = b"<</Type/Annot/Subtype/FreeText/Rect[72 600 300 620]/DA(/F1 9 Tf)/Contents(Check the seal first)>>"
    found, usual = read(build_compact(objects)), read(build(objects))
    assert (found.text, found.pages) == (usual.text, usual.pages)
    assert "Check the seal first" in found.text
    objects[8] = b"<</Type/Annot/Subtype/Link/Rect[72 600 300 620]>>"
    objects[25] = packed_stream(BOMB, b"/Filter/FlateDecode")
    assert reason(build_compact(objects)) is Reason.TOO_LARGE
    objects[25] = packed_stream(b"no stream that unpacks", b"/Filter/FlateDecode")
    assert reason(build_compact(objects)) is Reason.CORRUPT


def test_a_form_that_draws_itself_many_times_is_refused() -> None:
    """One form is enough for a picture that has no end; one that draws itself once ends by itself."""
    drawn = pages(lines(TEXT) + b"/X Do", resources=b"/XObject<</X 8 0 R>>")
    form = b"/Type/XObject/Subtype/Form/BBox[0 0 612 792]/Resources<</XObject<</X 8 0 R>>>>"
    drawn[8] = packed_stream(b"/X Do ", form)
    assert TEXT in read(build(drawn)).text
    drawn[8] = packed_stream(b"/X Do " * 3_000, form)
    assert reason(build(drawn)) is Reason.TOO_LARGE
    drawn[8] = packed_stream(b"/X Do " * 3_000, form.partition(b"/Resources")[0])  # has those of the page
    assert reason(build(drawn)) is Reason.TOO_LARGE


def test_a_large_form_that_draws_itself_once_is_refused() -> None:
    """Its letters lie on each other in many layers, and pdfium takes minutes to tell them apart."""
    drawn = pages(lines(TEXT) + b"/X Do", resources=b"/XObject<</X 8 0 R>>")
    form = FORM + b"/Resources<</Font<</F1 3 0 R>>/XObject<</X 8 0 R>>>>"
    drawn[8] = stream(b"BT /F1 12 Tf 72 500 Td" + b"(x) Tj" * 50 + b" ET /X Do", form)
    assert TEXT in read(build(drawn)).text
    drawn[8] = stream(b"BT /F1 12 Tf 72 500 Td" + b"(x) Tj" * 2_000 + b" ET /X Do", form)
    assert reason(build(drawn)) is Reason.TOO_LARGE


def test_a_form_that_draws_itself_behind_the_length_it_gives_is_refused() -> None:
    """Readers go on to the end of the stream, and so does what bounds them."""
    drawn = pages(lines(TEXT) + b"/X Do", resources=b"/XObject<</X 8 0 R>>")
    form = FORM + b"/Resources<</Font<</F1 3 0 R>>/XObject<</X 8 0 R>>>>"
    whole = stream(b"BT /F1 12 Tf 72 500 Td (x) Tj ET" + b" /X Do" * 3, form)
    drawn[8] = re.sub(rb"/Length \d+", b"/Length 40", whole)
    assert reason(build(drawn)) is Reason.TOO_LARGE


def test_one_form_that_draws_another_very_often_is_refused() -> None:
    """Two small streams are enough for more text than any page has."""
    drawn = pages(lines(TEXT) + b"/X Do", resources=b"/XObject<</X 8 0 R>>")
    form = b"/Type/XObject/Subtype/Form/BBox[0 0 612 792]/Resources<</Font<</F1 3 0 R>>/XObject<</Y 9 0 R>>>>"
    drawn[8] = packed_stream(b"/Y Do " * 20_000, form)
    drawn[9] = packed_stream(lines(TEXT) * 500, form)
    assert reason(build(drawn)) is Reason.TOO_LARGE


def test_a_lost_table_with_many_trailers_without_an_end_is_given_up() -> None:
    """Damage repeats the start of a trailer, and each would be read to the end of the file."""
    table = b"xref\n0 3\n0000000000 65535 f \n0000000015 00000 n \n0000000060 00000 n \n"
    endless = (b"obj\n<</Type/Pages\n" + table + b"trailer\n<</Size 3/R") * 1_000
    head = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<</Type/Catalog/Pages 2 0 R>>\nendobj\n2 0 "
    assert reason(head + endless + b"oot 1 0 R>>\nstartxref\n99\n%%EOF\n") is Reason.CORRUPT


def table_of(reader: type[PdfReader], data: bytes) -> object:
    """Return where a reader believes the objects of a file to be, or the kind of error it ends with."""
    try:
        found = reader(io.BytesIO(data))
    except Exception as error:  # noqa: BLE001 - the two readers must fail alike, whatever it is
        return type(error)
    return {generation: places for generation, places in found.xref.items() if places}, found.xref_objStm


@given(
    widths=st.tuples(st.sampled_from([0, 1, 1, 1, 2]), st.integers(0, 4), st.sampled_from([0, 1, 2, 9])),
    sections=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=3),
    entries=st.lists(st.sampled_from([0, 1, 2, 3, 200]), max_size=60).map(bytes),
)
def test_a_packed_table_says_the_same_read_at_once_as_number_by_number(
    widths: tuple[int, int, int], sections: list[tuple[int, int]], entries: bytes
) -> None:
    """Whatever its widths, with entries that lie, repeat or are missing."""
    head = (
        b"%PDF-1.5\n1 0 obj\n<</Type/Catalog/Pages 2 0 R>>\nendobj\n2 0 obj\n<</Type/Pages/Kids[]/Count 0>>\nendobj\n"
    )
    index = " ".join(f"{start} {count}" for start, count in sections) or "0 5"
    own = f"/Type/XRef/Size 9/W[{widths[0]} {widths[1]} {widths[2]}]/Index[{index}]/Root 1 0 R".encode()
    data = head + b"9 0 obj\n" + stream(entries, own) + b"\nendobj\nstartxref\n%d\n%%%%EOF\n" % len(head)
    assert table_of(LazyReader, data) == table_of(PdfReader, data)
