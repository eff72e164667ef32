"""Recognises the letters of a rendered PDF page with Tesseract.

What does not belong here: deciding which pages need it (pdf_text.py). The engine is a program of the machine: what is
missing is a problem of the surroundings and stops the run, it never becomes a document's dead letter.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from ingest_assets.errors import EnvironmentProblem

HYPHEN = "\ufffe"  # what pdfium writes for a hyphen at a line end, so that words are joined alike
_DOTS_PER_INCH = 300.0  # what Tesseract was trained for
_POINTS_PER_INCH = 72.0
_PIXEL_LIMIT = 25_000_000  # of a rendered page: A3 in 300 dots per inch has 17 million
_PICTURE_LIMIT = 150_000_000  # pixels of a picture inside the page, which pdfium decodes whole
_DEPTH = 5  # forms within forms
_NOISE = 20.0  # confidence below which a word is a speck
_NO_TEXT = 45.0  # mean confidence below which a page shows no letters at all
_SHORTEST_PART = 2  # letters before a hyphen at a line end


@dataclass(frozen=True, slots=True)
class Recognised:
    """What was recognised on one page."""

    text: str  # lines end with CRLF, paragraphs with two; HYPHEN for a hyphen at a line end
    confidence: float  # 0..100, mean over the letters; low where there are none


@dataclass(frozen=True, slots=True)
class Engine:
    """Tesseract, as this machine has it."""

    module: Any
    has_orientation: bool  # it can find out which way is up


@cache
def require_engine(languages: str) -> Engine:
    """Return the engine; asks the machine once for each set of languages.

    Raises EnvironmentProblem where the extra, the program or a language is not installed; the message says which.
    """
    try:
        import pytesseract  # noqa: PLC0415 - an extra, needed only when `extract.ocr` is set
    except ImportError as error:
        raise EnvironmentProblem(
            "extract.ocr needs the `ocr` extra: install ingest-assets[ocr], or set extract.ocr to false."
        ) from error
    try:
        installed = set(pytesseract.get_languages())
    except (pytesseract.TesseractNotFoundError, pytesseract.TesseractError, OSError) as error:
        raise EnvironmentProblem(
            "extract.ocr needs the program tesseract on the PATH: install it (Debian: apt-get install tesseract-ocr), "
            "or set extract.ocr to false."
        ) from error
    missing = [name for name in languages.split("+") if name not in installed]
    if missing:
        packages = " ".join(f"tesseract-ocr-{name.replace('_', '-')}" for name in missing)
        raise EnvironmentProblem(
            f"Tesseract has no language {', '.join(missing)}: install it (Debian: apt-get install {packages}), "
            "or change extract.ocr_languages."
        )
    return Engine(pytesseract, "osd" in installed)


def recognise(page: pdfium.PdfPage, languages: str) -> Recognised:
    """Render a page and recognise its text; a page whose pictures are too large to be drawn has none."""
    engine = require_engine(languages)
    if _largest_picture(page) > _PICTURE_LIMIT:
        return Recognised("", 0.0)
    width, height = page.get_size()
    scale = min(_DOTS_PER_INCH / _POINTS_PER_INCH, math.sqrt(_PIXEL_LIMIT / max(1.0, width * height)))
    bitmap = page.render(scale=scale, grayscale=True)
    try:
        image = bitmap.to_pil()
        mode = 1 if engine.has_orientation else 3  # Tesseract's numbers for finding the layout
        found = engine.module.image_to_data(
            image,
            lang=languages,
            config=f"--psm {mode} --dpi {round(scale * _POINTS_PER_INCH)}",
            output_type=engine.module.Output.DICT,
        )
    finally:
        bitmap.close()
    return _recognised(found)


def _recognised(found: Mapping[str, list[Any]]) -> Recognised:
    lines: dict[tuple[int, int, int], list[str]] = {}
    letters, weighted = 0, 0.0
    for index, text in enumerate(found["text"]):
        word, confidence = str(text).strip(), float(found["conf"][index])
        if word and confidence >= _NOISE:
            place = (found["block_num"][index], found["par_num"][index], found["line_num"][index])
            lines.setdefault(place, []).append(word)
            letters += len(word)
            weighted += confidence * len(word)
    pieces: list[str] = []
    previous: tuple[int, int, int] | None = None
    for place, words in lines.items():
        if previous is not None:
            pieces.append("\r\n" if place[:2] == previous[:2] else "\r\n\r\n")
        line = " ".join(words)
        is_broken = line.endswith("-") and len(words[-1]) > _SHORTEST_PART and words[-1][-2].isalpha()
        pieces.append(line[:-1] + HYPHEN if is_broken else line)
        previous = place
    confidence = weighted / letters if letters else 0.0
    return Recognised("".join(pieces), confidence) if confidence >= _NO_TEXT else Recognised("", confidence)


def _largest_picture(page: pdfium.PdfPage) -> int:
    """Return the pixels of the largest picture on a page."""
    largest = 0
    for item in page.get_objects(filter=[pdfium_c.FPDF_PAGEOBJ_IMAGE], max_depth=_DEPTH):
        width, height = item.get_px_size()
        largest = max(largest, width * height)
    return largest
