"""Where single letters of a PDF page stand, and rows that pdfium takes apart at them.

What does not belong here: the order of lines (pdf_order.py).
"""

from itertools import pairwise

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

LINE_END = "\r\n"  # as pdfium writes it
_BLANK = ("", " ")  # beside a letter that is alone in its line or its word
_JOINED = " \u200b"  # as long as what it replaces; of the two a reader sees the space

Box = tuple[float, float, float, float]  # left, right, bottom, top, in points from the page's lower left corner


def letter_box(text_page: pdfium.PdfTextPage, position: int) -> Box | None:
    """Return the box of the letter at a position of the page's text, as high as its font, None where there is none."""
    index = pdfium_c.FPDFText_GetCharIndexFromTextIndex(text_page, position)
    box = pdfium_c.FS_RECTF()
    if not pdfium_c.FPDFText_GetLooseCharBox(text_page, index, box):
        return None
    return box.left, box.right, box.bottom, box.top


def with_whole_rows(text_page: pdfium.PdfTextPage, text: str) -> str:
    """Return the text without the line ends that pdfium puts beside single letters of a row; positions stay.

    A cell that holds one digit is the usual case.
    """
    if not text.isascii() and max(text) > "\uffff":  # positions of pdfium count those twice
        return text
    lines = text.split(LINE_END)
    ends, position = [LINE_END] * len(lines), 0
    for index, (line, below) in enumerate(pairwise(lines)):
        position += len(line)
        if line and below and (line[-2:-1] in _BLANK or below[1:2] in _BLANK):
            before, behind = letter_box(text_page, position - 1), letter_box(text_page, position + len(LINE_END))
            if before is not None and behind is not None and _is_beside(before, behind):
                ends[index] = _JOINED
        position += len(LINE_END)
    ends[-1] = ""
    return "".join(line + end for line, end in zip(lines, ends, strict=True)) if _JOINED in ends else text


def _is_beside(before: Box, behind: Box) -> bool:
    """Tell whether a letter stands right of another, on the same line."""
    shared = min(before[3], behind[3]) - max(before[2], behind[2])
    return behind[0] > before[1] and shared > min(before[3] - before[2], behind[3] - behind[2]) / 2
