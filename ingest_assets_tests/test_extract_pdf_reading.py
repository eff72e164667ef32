"""What a reader sees on the pages of a PDF, in the order of reading: columns, tables, titles, fields, notes.

What does not belong here: files that are broken (test_extract_pdf_damage.py).
"""

import random

import pytest

from ingest_assets.errors import DocumentRejected, Reason
from ingest_assets.extract import extract
from ingest_assets.extract.pdf_running import without_running_lines
from ingest_assets.extract.pdf_tidy import join_accents, join_across_pages, join_broken_words
from ingest_assets.records import Extracted
from ingest_assets.settings import ExtractSettings
from ingest_assets_tests.pdf_files import DRAW_PICTURE, build, lines, pages, picture, placed

SETTINGS = ExtractSettings(min_characters=1)
LEFT = [(60.0, 700.0 - 16 * row, f"Left column line {row} goes down the page") for row in range(20)]
RIGHT = [(320.0, 700.0 - 16 * row, f"Right column line {row} goes down as well") for row in range(20)]


def read(objects: dict[int, bytes]) -> Extracted:
    """Build and extract."""
    return extract(build(objects), "a.pdf", SETTINGS)


def reason(objects: dict[int, bytes]) -> Reason:
    """Build, extract and return why that was refused."""
    with pytest.raises(DocumentRejected) as rejected:
        read(objects)
    return rejected.value.reason


def texts(*columns: list[tuple[float, float, str]]) -> str:
    """Return the lines of columns one after the other."""
    return "\n".join(text for column in columns for _, _, text in column)


# Order


def test_lines_that_were_written_in_any_order_are_read_from_the_top() -> None:
    """From the bottom up, and shuffled."""
    assert read(pages(placed(*reversed(LEFT)))).text == texts(LEFT)
    mixed = random.Random(3).sample(LEFT, len(LEFT))
    assert read(pages(placed(*mixed))).text == texts(LEFT)


def test_columns_are_read_from_the_left_under_their_title_and_above_their_foot() -> None:
    """Whichever the file has first."""
    assert read(pages(placed(*LEFT, *RIGHT))).text == texts(LEFT, RIGHT)
    title = (60.0, 760.0, "A title that is set across both of the columns of this page")
    foot = (60.0, 200.0, "A foot note that is set across both of the columns of the page")
    assert read(pages(placed(*RIGHT, *LEFT, foot, title))).text == texts([title], LEFT, RIGHT, [foot])


def test_the_cells_of_a_row_stand_on_one_line() -> None:
    """Also where the file has a table column by column."""
    table = [["Item", "Spare pump", "Filter set"], ["Qty", "3", "12"], ["Price", "1,200.00", "45.50"]]
    cells = [
        (80.0 + 150 * column, 700.0 - 20 * row, cell)
        for column, entries in enumerate(table)
        for row, cell in enumerate(entries)
    ]
    rows = "Item Qty Price\nSpare pump 3 1,200.00\nFilter set 12 45.50"
    assert read(pages(placed(*cells))).text == rows
    assert read(pages(placed(*sorted(cells, key=lambda cell: (-cell[1], cell[0]))))).text == rows


@pytest.mark.parametrize("turn", [90, 180, 270])
def test_a_turned_page_is_read_like_any_other(turn: int) -> None:
    """Letters that lie on their side then, and letters that stand up then."""
    some = LEFT[:8]
    assert read(pages(placed(*some), page=b"/Rotate %d" % turn)).text == texts(some)
    matrix = {90: b"0 1 -1 0 612 0", 180: b"-1 0 0 -1 612 792", 270: b"0 -1 1 0 0 792"}[turn]
    shuffled = random.Random(5).sample(some, len(some))
    upright = b"q " + matrix + b" cm " + placed(*[(x, y - 200, text) for x, y, text in shuffled]) + b" Q"
    assert read(pages(upright, page=b"/Rotate %d" % turn)).text == texts(some)


def test_what_is_cropped_off_the_page_is_not_read() -> None:
    """Marks for the printer beside the page; nobody who opens it sees them."""
    content = placed((60, 700, "What a reader sees."), (60, 20, "Proof 7 of the printer"))
    assert read(pages(content, page=b"/CropBox[0 50 612 792]")).text == "What a reader sees."
    assert "Proof 7" in read(pages(content)).text
    assert reason(pages(placed((60, 20, "Proof 7 of the printer")), page=b"/CropBox[0 50 612 792]")) is (
        Reason.EMPTY_DOCUMENT
    )


# Titles


def test_large_lines_are_headings_where_there_is_no_outline() -> None:
    """Sizes are levels, a wrapped title is one, and what repeats or is a sentence is none."""
    content = [
        placed((60, 760, "Pump Station Handbook"), font=b"/F2 20"),
        placed(
            (60, 720, "1 Pumps"), (60, 500, "2 Valves of a kind that nobody"), (60, 484, "has seen"), font=b"/F2 14"
        ),
        placed(*[(60, 700 - 14 * row, f"Some text of the first chapter, line {row}.") for row in range(12)]),
        placed(*[(60, 460 - 14 * row, f"Some text of the second chapter, line {row}.") for row in range(12)]),
        placed((60, 240, "This sentence is large, and it is no heading."), (60, 200, "1,200.00"), font=b"/F2 14"),
    ]
    found = read(pages(b"".join(content)))
    assert [(heading.level, heading.title) for heading in found.headings] == [
        (1, "Pump Station Handbook"),
        (2, "1 Pumps"),
        (2, "2 Valves of a kind that nobody has seen"),
    ]
    assert [found.text[heading.char_start :][:6] for heading in found.headings] == ["Pump S", "1 Pump", "2 Valv"]
    assert read(pages(lines("All of this", "is of one size", "and has no heading."))).headings == ()


def test_running_titles_go_with_their_page_numbers_in_every_style() -> None:
    """Left and right pages, roman numbers, chapters, and a right half that changes."""

    def kept(style: list[str]) -> list[str]:
        bodies = [f"Body {chr(97 + n)} of the page.\nIt goes on{' and on' * n}." for n in range(len(style))]
        pages_ = [line.replace("BODY", body) for line, body in zip(style, bodies, strict=True)]
        return [page.replace(body, "BODY") for page, body in zip(without_running_lines(pages_), bodies, strict=True)]

    roman = ["i", "ii", "iii", "iv", "v", "vi", "vii", "viii"]
    assert kept([f"BODY\n{number}" for number in roman]) == ["BODY"] * 8
    assert kept([f"BODY\nPage {n} of 8" for n in range(1, 9)]) == ["BODY\nPage 1 of 8"] + ["BODY"] * 7
    sides = [f"{n}\tPump manual\nBODY" if n % 2 else f"Valves\t{n}\nBODY" for n in range(1, 9)]
    assert kept(sides) == ["Pump manual\nBODY", "Valves\nBODY"] + ["BODY"] * 6
    halves = [f"Pump manual\tPart {letter}\nBODY" for letter in "stuvwxyz"]
    assert kept(halves) == ["Pump manual Part s\nBODY"] + [f"Part {letter}\nBODY" for letter in "tuvwxyz"]
    chapters = [f"Chapter {1 + n // 4}: {'Pumps' if n < 4 else 'Filters'} {n}\nBODY" for n in range(8)]
    assert [index for index, page in enumerate(kept(chapters)) if page != "BODY"] == [0, 4]


def test_halves_of_a_running_title_are_told_apart_by_the_gap_between_them() -> None:
    """The file has them on one line."""
    contents = [
        placed((72, 760, "Pump manual"), (430, 760, f"Section {letter} of it"))
        + placed((72, 700, f"Body {letter} of the page,"), (72, 680, f"which goes on {letter * 3}."), (300, 40, "7"))
        for letter in "abcdefgh"
    ]
    text = read(pages(*contents)).text
    assert text.count("Pump manual") == 1
    assert all(f"Section {letter} of it\nBody {letter} of the page" in text for letter in "bcdefgh")


# Words


def test_words_are_whole_across_lines_and_pages() -> None:
    """With every hyphen that a typesetter has."""
    assert join_broken_words(["The main\u2010\r\ntenance plan"]) == ["The maintenance plan"]
    assert join_across_pages(["It has an interrup-", "tion of the flow."]) == ["It has an interruption", "of the flow."]
    assert join_across_pages(["Pages 12-", "14 and more."]) == ["Pages 12-", "14 and more."]
    assert join_across_pages(["A dash -", "and more."]) == ["A dash -", "and more."]


def test_accents_of_old_typesetters_stand_on_their_letters() -> None:
    """And marks that quote code stay marks."""
    assert join_accents(["comp\u00b4as M\u00a8uller di`ese na\u00a8\u0131ve"]) == ["compás Müller dièse naïve"]
    assert join_accents(["run `ls`echo`"]) == ["run `ls`echo`"]


# Fields and notes


def form(*fields: bytes, content: bytes = b"") -> dict[int, bytes]:
    """Return the objects of a page with these form fields or notes."""
    references = b" ".join(b"%d 0 R" % (60 + index) for index in range(len(fields)))
    objects = pages(content, catalogue=b"/AcroForm<</Fields[%s]>>" % references, page=b"/Annots[%s]" % references)
    return objects | {60 + index: field for index, field in enumerate(fields)}


def widget(left: int, bottom: int, rest: bytes) -> bytes:
    """Return a form field of 100 by 20 points."""
    return b"<</Type/Annot/Subtype/Widget/Rect[%d %d %d %d]/T(f%d)%s>>" % (
        left, bottom, left + 100, bottom + 20, left * 1000 + bottom, rest,
    )  # fmt: skip


def test_values_of_form_fields_stand_behind_their_labels() -> None:
    """A reader sees them; a password and a hidden field nobody does."""
    labels = placed(
        (72, 700, "Full name:"), (72, 660, "City:"), (260, 660, "Zip:"), (95, 622, "I agree"), (72, 580, "Colour"),
        (72, 540, "Password:"),
    )  # fmt: skip
    objects = form(
        widget(160, 694, b"/FT/Tx/V(Ada Lovelace)"),
        widget(120, 654, b"/FT/Tx/V(Halden)"),
        widget(300, 654, b"/FT/Tx/V(1771)"),
        b"<</Type/Annot/Subtype/Widget/Rect[72 620 86 634]/T(agree)/FT/Btn/V/Yes/AS/Yes/AP<</N<</Yes 8 0 R>>>>>>",
        widget(160, 574, b"/FT/Ch/Ff 131072/Opt[[(r)(Red)][(b)(Blue)]]/V(b)"),
        widget(160, 534, b"/FT/Tx/Ff 8192/V(hunter2)"),
        widget(400, 300, b"/FT/Tx/V(unseen)/F 2"),
        widget(400, 100, b"/FT/Tx/V(Signed in Halden)"),
        content=labels,
    )
    assert read(objects).text == (
        "Full name: Ada Lovelace\nCity: Halden Zip: 1771\n[x] I agree\nColour Blue\nPassword:\nSigned in Halden"
    )


def test_notes_on_a_page_are_read_and_a_page_of_notes_alone_too() -> None:
    """Typed notes and comments; not what a highlight repeats, and not what is hidden."""
    notes = [
        b"<</Type/Annot/Subtype/FreeText/Rect[72 600 300 640]/Contents(Typed: deposit paid on Monday.)/DA(/F1 9 Tf)>>",
        b"<</Type/Annot/Subtype/Text/Rect[72 500 90 520]/Contents(Ask the owner about it.)>>",
        b"<</Type/Annot/Subtype/Highlight/Rect[72 690 200 710]/Contents(signed by both)>>",
        b"<</Type/Annot/Subtype/FreeText/Rect[72 400 300 440]/Contents(Hidden.)/F 2>>",
    ]
    text = read(form(*notes, content=placed((72, 700, "The lease is signed by both parties.")))).text
    assert text == "The lease is signed by both parties.\n\nTyped: deposit paid on Monday.\n\nAsk the owner about it."
    assert read(form(*notes[:1])).text == "Typed: deposit paid on Monday."


# What is no text


def test_a_stamp_on_a_scan_is_no_text_and_a_sentence_over_a_picture_is() -> None:
    """Numbers and names of scanners are put on pages whose text nobody can search."""
    resources = b"/XObject<</Im 8 0 R>>"
    grey = {8: picture([b"\x90" * 20] * 20, 20)}
    stamped = pages(*[DRAW_PICTURE + lines(f"Page {n} of 2") for n in (1, 2)], resources=resources)
    assert reason(stamped | grey) is Reason.NO_TEXT_LAYER
    sentence = "Call the duty engineer before opening valve seven."
    assert read(pages(DRAW_PICTURE + lines(sentence), resources=resources) | grey).text == sentence
    hidden = DRAW_PICTURE + lines("Lease of unit 14").replace(b"BT ", b"BT 3 Tr ")
    assert read(pages(hidden, resources=resources) | grey).text == "Lease of unit 14"


def test_scanned_pages_in_a_document_are_named_with_what_they_show() -> None:
    """A reader of the index knows what is not in it."""
    contents = [lines(f"Typed text of leaf {n}") for n in range(10)]
    contents[3], contents[7] = DRAW_PICTURE, b""
    found = read(pages(*contents, resources=b"/XObject<</Im 8 0 R>>") | {8: picture([b"\x90" * 20] * 20, 20)})
    [warning] = found.warnings
    assert (warning.code, warning.pages) == ("pages_without_text", (4, 8))
    assert "2 of 10 pages have no text; 1 of them show a picture" in warning.detail


def test_placeholders_of_other_documents_are_refused() -> None:
    """A dynamic form and a portfolio show a page that says to get another program."""
    wait = lines("Please wait... If this message is not eventually replaced, your viewer may not show the document.")
    assert reason(pages(wait, catalogue=b"/AcroForm<</Fields[]/XFA[]>>")) is Reason.UNSUPPORTED_TYPE
    assert read(pages(lines("A real page."), catalogue=b"/AcroForm<</Fields[]/XFA[]>>")).text == "A real page."
    files = b"/Names<</EmbeddedFiles<</Names[(a)<</Type/Filespec/F(a)>>(b)<</Type/Filespec/F(b)>>]>>>>"
    cover = pages(lines("Open this PDF portfolio in another program."), catalogue=files + b"/Collection<</View/T>>")
    assert reason(cover) is Reason.UNSUPPORTED_TYPE
    invoice = read(pages(lines("Invoice 4711"), catalogue=files))
    assert [(warning.code, warning.detail) for warning in invoice.warnings] == [
        ("attachments_not_read", "2 files are attached to the PDF and are not read.")
    ]
