"""What lines of a PDF page look like: wide gaps inside them, the size and weight of their letters.

What does not belong here: what follows from it (pdf_running.py, pdf_headings.py).
"""

import ctypes
import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from ingest_assets.extract.pdf_letters import LINE_END, Letters
from ingest_assets.extract.pdf_running import GAP

_WIDE_SHARE = 0.05  # of the page's width: no space between words is as wide
_MOST_SPACES = 14  # of a running title
_SENTENCE_ENDS = (".", ",", ";", ":", "-", "\ufffe")
_BOLD_NAMES = (b"bold", b"black", b"heavy", b"demi", b"cmbx")
_NAME_BYTES = 96


@dataclass(frozen=True, slots=True)
class LineLook:
    """One line as it was set."""

    text: str
    size: float  # of its first letter, in points
    is_bold: bool


def mark_gaps(page: pdfium.PdfPage, letters: Letters, text: str) -> str:
    """Return the text with a tab for every wide gap in its first and its last line, where running titles stand."""
    if letters.text_page.has_pairs:
        return text
    wide = page.get_width() * _WIDE_SHARE
    last = text.rstrip().rfind(LINE_END) + len(LINE_END)
    first_end = text.find(LINE_END)
    spans = [(last, len(text))] if last > 1 else []
    spans.append((0, first_end if first_end >= 0 else len(text)))
    for start, end in spans:
        line = text[start:end]
        if 0 < line.count(" ") <= _MOST_SPACES and not line.endswith(_SENTENCE_ENDS):
            text = text[:start] + _gapped(letters, line, start, wide) + text[end:]
    return text


def _gapped(letters: Letters, line: str, start: int, wide: float) -> str:
    written = list(line)
    for position in range(1, len(written) - 1):
        if written[position] == " ":
            left = letters.box(start + position - 1)
            right = letters.box(start + position + 1) if left is not None else None
            if left is not None and right is not None and right[0] - left[1] > wide:
                written[position] = GAP
    return "".join(written)


def line_looks(text_page: pdfium.PdfTextPage, text: str) -> list[LineLook]:
    """Return the look of every line, judged by its first letter; weight counts where letters are larger than most."""
    found = [(line, index, _size(text_page, index)) for line, index in _first_letters(text_page, text)]
    if not found:
        return []
    usual = statistics.multimode(size for _, _, size in found)[0]
    is_bold_usual = next(_is_bold(text_page, index) for _, index, size in found if size == usual)
    return [
        LineLook(line, size, _is_bold(text_page, index) if size > usual else size == usual and is_bold_usual)
        for line, index, size in found
    ]


def _first_letters(text_page: pdfium.PdfTextPage, text: str) -> Iterator[tuple[str, int]]:
    position = 0
    for line in text.split(LINE_END):
        if line.strip():
            first = position + len(line) - len(line.lstrip())
            yield line, pdfium_c.FPDFText_GetCharIndexFromTextIndex(text_page, first)
        position += len(line) + len(LINE_END)


def _size(text_page: pdfium.PdfTextPage, index: int) -> float:
    size = float(pdfium_c.FPDFText_GetFontSize(text_page, index))
    matrix = pdfium_c.FS_MATRIX()
    if pdfium_c.FPDFText_GetMatrix(text_page, index, matrix):
        size *= math.hypot(matrix.c, matrix.d)
    return round(size, 1) if math.isfinite(size) else 0.0


def _is_bold(text_page: pdfium.PdfTextPage, index: int) -> bool:
    name, flags = ctypes.create_string_buffer(_NAME_BYTES), ctypes.c_int()
    pdfium_c.FPDFText_GetFontInfo(text_page, index, name, _NAME_BYTES, flags)
    font = name.value.lower()
    return any(word in font for word in _BOLD_NAMES)
