"""Scanned pages with the real engine (`make ocr`), and what is said where the engine is missing.

What does not belong here: which pages count as scans (test_extract_pdf_reading.py).
"""

import json
import subprocess
import sys
from pathlib import Path

import pypdfium2 as pdfium
import pytest

from ingest_assets.errors import DocumentRejected, EnvironmentProblem, Reason
from ingest_assets.extract import extract
from ingest_assets.records import Extracted
from ingest_assets.settings import ExtractSettings
from ingest_assets_tests.pdf_files import DRAW_PICTURE, build, lines, packed_stream, pages, picture, placed

SETTINGS = ExtractSettings(ocr=True)
PICTURED = b"/XObject<</Im 8 0 R>>"
LEASE = ("Lease agreement for unit fourteen", "The deposit is paid in full by the ten-", "ant on the first of May.")


def scan(*texts: str) -> bytes:
    """Return a picture of a page with these lines."""
    content = placed(*[(72, 700 - 40 * row, text) for row, text in enumerate(texts)], font=b"/F1 20")
    document = pdfium.PdfDocument(build(pages(content)))
    pixels = document[0].render(scale=2, grayscale=True).to_numpy()
    document.close()
    return picture([row.tobytes() for row in pixels], pixels.shape[1])


# Strokes of letters, in a box of 30 by 50: left, bottom, width, height.
STROKES = {
    "T": [(0, 42, 30, 8), (11, 0, 8, 50)],
    "H": [(0, 0, 8, 50), (22, 0, 8, 50), (0, 21, 30, 8)],
    "E": [(0, 0, 8, 50), (0, 42, 30, 8), (0, 21, 24, 8), (0, 0, 30, 8)],
    "L": [(0, 0, 8, 50), (0, 0, 30, 8)],
    "I": [(11, 0, 8, 50)],
    "F": [(0, 0, 8, 50), (0, 42, 30, 8), (0, 21, 24, 8)],
    " ": [],
}


def drawn(*texts: str) -> bytes:
    """Return page content that draws these letters as rectangles."""
    return b"".join(
        b"%d %d %d %d re f\n" % (80 + 42 * column + left, 650 - 90 * row + bottom, width, height)
        for row, text in enumerate(texts)
        for column, letter in enumerate(text)
        for left, bottom, width, height in STROKES[letter]
    )


def read(objects: dict[int, bytes], settings: ExtractSettings = SETTINGS) -> Extracted:
    """Build and extract."""
    return extract(build(objects), "a.pdf", settings)


def warned(found: Extracted) -> dict[str, tuple[int, ...]]:
    """Return the pages of each warning."""
    return {warning.code: warning.pages for warning in found.warnings}


@pytest.mark.ocr
def test_a_scan_is_read_and_says_so() -> None:
    """Words that a line end broke are whole, and the pages and the confidence are named."""
    found = read(pages(DRAW_PICTURE, resources=PICTURED) | {8: scan(*LEASE)})
    assert " ".join(found.text.split()) == (
        "Lease agreement for unit fourteen The deposit is paid in full by the tenant on the first of May."
    )
    assert warned(found) == {"recognised": (1,)}
    assert "1 of 1 pages was recognised, with a mean confidence of 9" in found.warnings[0].detail


@pytest.mark.ocr
def test_only_pages_that_need_it_are_recognised() -> None:
    """Typed pages keep their text, blank ones stay blank, and a stamp does not hide the scan under it."""
    contents = [lines("Typed text of the first leaf."), DRAW_PICTURE, b"", DRAW_PICTURE + lines("Page 4 of 4")]
    found = read(pages(*contents, resources=PICTURED) | {8: scan(*LEASE)})
    assert warned(found) == {"recognised": (2, 4), "pages_without_text": (3,)}
    spans = [found.text[page.char_start : page.char_end] for page in found.pages]
    assert spans[0] == "Typed text of the first leaf."
    assert "unit fourteen" in spans[1]
    assert "unit fourteen" in spans[3]
    assert "Page 4" in spans[3]


@pytest.mark.ocr
@pytest.mark.parametrize("turn", [90, 180])
def test_a_scan_that_lies_on_its_side_is_read(turn: int) -> None:
    """Nobody turns the paper in the tray."""
    found = read(pages(DRAW_PICTURE, resources=PICTURED, page=b"/Rotate %d" % turn) | {8: scan(*LEASE * 4)})
    assert found.text.count("Lease agreement for unit fourteen") == 4


@pytest.mark.ocr
def test_letters_that_are_drawn_as_shapes_or_have_no_map_are_recognised() -> None:
    """There is no picture at all on such a page, or its text is noise."""
    shapes = drawn("THE LIFT", "FELL HILL", "LEFT FILE")
    with pytest.raises(DocumentRejected) as rejected:
        read(pages(shapes), ExtractSettings())
    assert rejected.value.reason is Reason.NO_TEXT_LAYER
    assert read(pages(shapes)).text.split() == ["THE", "LIFT", "FELL", "HILL", "LEFT", "FILE"]


@pytest.mark.ocr
def test_a_page_that_shows_no_letters_stays_without_text() -> None:
    """A photograph is not filled with specks that look like letters."""
    noise = bytes((x * 7919 + y * 104_729) % 251 for y in range(200) for x in range(150))
    with pytest.raises(DocumentRejected) as rejected:
        read(pages(DRAW_PICTURE, resources=PICTURED) | {8: picture([noise], 150)})
    assert rejected.value.reason in (Reason.NO_TEXT_LAYER, Reason.EMPTY_DOCUMENT)


@pytest.mark.ocr
def test_a_picture_that_would_fill_the_memory_is_not_drawn() -> None:
    """Three thousand million pixels, in a few bytes; and a page as large as a field."""
    head = b"/Type/XObject/Subtype/Image/Width 60000/Height 60000/ColorSpace/DeviceGray/BitsPerComponent 8"
    bomb = pages(DRAW_PICTURE, resources=PICTURED) | {8: packed_stream(b"\0", head)}
    with pytest.raises(DocumentRejected) as rejected:
        read(bomb)
    assert rejected.value.reason is Reason.NO_TEXT_LAYER
    field = pages(b"0 0 m 900 900 l S")
    field[20] = field[20].replace(b"612 792", b"14000000 14000000")
    with pytest.raises(DocumentRejected) as rejected:
        read(field)
    assert rejected.value.reason is Reason.NO_TEXT_LAYER


@pytest.mark.ocr
def test_a_language_that_is_not_installed_is_named() -> None:
    """It is the machine's fault, not the document's."""
    with pytest.raises(EnvironmentProblem, match=r"no language xyz: install it .*tesseract-ocr-xyz"):
        read(pages(lines("Typed text of a page.")), ExtractSettings(ocr=True, ocr_languages="eng+xyz"))


def test_without_an_engine_the_command_says_what_to_install(tmp_path: Path) -> None:
    """The run stops; no document is given up for it."""
    (tmp_path / "a.pdf").write_bytes(build(pages(lines("Typed text of a page."))))
    environment = {"PATH": str(tmp_path), "INGEST_EXTRACT__OCR": "true", "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "ingest_assets", "extract", "a.pdf", "--json"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "install" in json.loads(done.stdout)["error"]
    assert "ocr" in json.loads(done.stdout)["error"]
