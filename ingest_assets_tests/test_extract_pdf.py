"""PDF: pages, outline, tidy text, and the reason for everything that cannot be read whole.

What does not belong here: case files (test_extract_cases.py).
"""

import zlib

import pytest

from ingest_assets.errors import DocumentRejected, Reason
from ingest_assets.extract import extract
from ingest_assets.extract.pdf_running import without_running_lines
from ingest_assets.extract.pdf_tidy import join_broken_words
from ingest_assets.records import Extracted
from ingest_assets.settings import ExtractSettings
from ingest_assets_tests.pdf_files import build, lines, pages, stream

SETTINGS = ExtractSettings(min_characters=1)


def read(objects: dict[int, bytes]) -> Extracted:
    """Build and extract."""
    return extract(build(objects), "a.pdf", SETTINGS)


def reason(objects: dict[int, bytes]) -> Reason:
    """Build, extract and return why that was refused."""
    with pytest.raises(DocumentRejected) as rejected:
        read(objects)
    return rejected.value.reason


def test_every_page_knows_its_place_and_pages_without_text_are_named() -> None:
    """Numbers are a reader's, spans are exact."""
    found = read(pages(lines("First page."), b"", lines("Third page.", "Its end.")))
    assert found.text == "First page.\n\nThird page.\nIts end."
    assert [found.text[page.char_start : page.char_end] for page in found.pages] == [
        "First page.",
        "",
        "Third page.\nIts end.",
    ]
    assert [page.number for page in found.pages] == [1, 2, 3]
    assert [(warning.code, warning.pages) for warning in found.warnings] == [("pages_without_text", (2,))]


def test_the_outline_gives_headings_where_their_titles_stand() -> None:
    """A title that is not on its page stands at the page's start."""
    objects = pages(lines("Some text.", "2 The  pump", "More."), lines("Other."), catalogue=b"/Outlines 10 0 R")
    objects |= {
        10: b"<</First 11 0 R/Last 12 0 R/Count 2>>",
        11: b"<</Title(2 The pump)/Parent 10 0 R/Next 12 0 R/First 13 0 R/Last 13 0 R/Count 1/Dest[20 0 R/Fit]>>",
        12: b"<</Title(Nowhere)/Parent 10 0 R/Prev 11 0 R/Dest[22 0 R/Fit]>>",
        13: b"<</Title(More.)/Parent 11 0 R/Dest[20 0 R/Fit]>>",
    }
    found = read(objects)
    assert [(heading.level, heading.title) for heading in found.headings] == [
        (1, "2 The pump"),
        (2, "More."),
        (1, "Nowhere"),
    ]
    starts = [found.text[heading.char_start :].split("\n")[0] for heading in found.headings]
    assert starts == ["2 The pump", "More.", "Other."]


def test_document_information_becomes_properties() -> None:
    """Blank entries do not."""
    found = read(pages(lines("Text.")) | {9: b"<</Title(A title)/Author(N. N.)/Subject( )>>"})
    assert found.properties == {"title": "A title", "author": "N. N."}


def test_running_lines_are_said_once() -> None:
    """Headers and page numbers do not repeat into every chunk."""
    contents = [
        lines("Pump manual", f"Body {'abcdefg'[n]} of the page.", "It goes on.", f"Page {n + 1} of 7") for n in range(7)
    ]
    text = read(pages(*contents)).text
    assert text.count("Pump manual") == 1
    assert text.count("of 7") == 1
    assert all(f"Body {letter} of the page." in text for letter in "abcdefg")


def test_lines_whose_numbers_mean_something_are_no_running_lines() -> None:
    """A ledger looks alike on every page and is the content."""
    ledger = [f"Ledger page {n}\nBalance {n * 37} crowns" for n in range(1, 9)]
    assert all(f"Balance {n * 37} crowns" in page for n, page in enumerate(without_running_lines(ledger), start=1))
    alone = [f"Page {n}" for n in range(1, 9)]
    assert without_running_lines(alone) == alone


def test_words_broken_at_line_ends_are_whole_again() -> None:
    """A hyphen that belongs to the word stays."""
    text = read(pages(lines("The main-", "tenance of the well-", "known North-", "South line."))).text
    assert text == "The maintenance of the well-known North-South line."
    assert join_broken_words(["co\ufffeoperate", "They co-operate."])[0] == "co-operate"


def test_a_font_without_a_character_map_is_garbled() -> None:
    """What comes out are glyph numbers, which look like letters."""
    objects = pages(b"BT /F1 12 Tf 72 720 Td <00270048005900470057004C005200510003004400530056> Tj ET")
    objects[3] = b"<</Type/Font/Subtype/Type0/BaseFont/ABCDEF+Own/Encoding/Identity-H/DescendantFonts[4 0 R]>>"
    objects[4] = (
        b"<</Type/Font/Subtype/CIDFontType2/BaseFont/ABCDEF+Own/DW 500/FontDescriptor 5 0 R"
        b"/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>>>"
    )
    objects[5] = (
        b"<</Type/FontDescriptor/FontName/ABCDEF+Own/Flags 4/FontBBox[0 0 9 9]"
        b"/ItalicAngle 0/Ascent 9/Descent 0/CapHeight 9/StemV 8>>"
    )
    assert reason(objects) is Reason.GARBLED_TEXT


def test_lost_pages_make_the_document_corrupt() -> None:
    """Half a document is never indexed as a whole one."""
    missing = pages(lines("One."), lines("Two."))
    del missing[22]
    assert reason(missing) is Reason.CORRUPT
    gone = pages(lines("One."), lines("Two."))
    del gone[23]
    assert reason(gone) is Reason.CORRUPT
    cut = pages(lines("One."), lines(*["Two is a long page."] * 40))
    cut[23] = cut[23].replace(b"endstream", b"").replace(zlib.compress(b"")[-4:], b"")[:90] + b"\nendstream"
    assert reason(cut) is Reason.CORRUPT


def test_bombs_outside_of_page_content_are_found_too() -> None:
    """In a form that the page draws."""
    objects = pages(lines("Text.") + b" /X Do", resources=b"/XObject<</X 8 0 R>>")
    objects[8] = stream(b"0 0 m " * 14_000_000, b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Filter/FlateDecode")
    assert reason(objects) is Reason.TOO_LARGE


def test_a_flood_of_pages_is_too_large() -> None:
    """The same page named a hundred thousand times costs a few kilobytes."""
    objects = pages(lines("Text."))
    objects[2] = b"<</Type/Pages/Count 100000/Kids[%s]>>" % (b"20 0 R " * 100_000)
    assert reason(objects) is Reason.TOO_LARGE


def test_an_unencrypted_neighbour_of_everything_still_opens() -> None:
    """Junk before and behind, under any text name."""
    data = build(pages(lines("Readable text.")))
    assert extract(b"HTTP/1.1 200 OK\r\n\r\n" + data, "a.pdf", SETTINGS).text == "Readable text."
    assert extract(data + b"\0" * 3000, "a", SETTINGS).text == "Readable text."
