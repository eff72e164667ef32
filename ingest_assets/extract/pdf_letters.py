"""Where single letters of a PDF page stand, and rows that pdfium takes apart at them.

What does not belong here: the order of lines (pdf_order.py).
"""

import re

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

LINE_END = "\r\n"  # as pdfium writes it
# A line end between two lines, beside a letter that is alone in its line or its word.
_LONELY = re.compile(r"\r\n(?:(?<=\A.\r\n)|(?<=[ \n].\r\n)|(?=.(?:[ ]|\r\n|\Z)))(?!\r\n|\Z)", re.DOTALL)
_JOINED = " \u200b"  # as long as what it replaces; of the two a reader sees the space

Box = tuple[float, float, float, float]  # left, right, bottom, top, in points from the page's lower left corner


def letter_box(text_page: pdfium.PdfTextPage, position: int) -> Box | None:
    """Return the box of the letter at a position of the page's text, as high as its font, None where there is none."""
    raw, box = text_page.raw, pdfium_c.FS_RECTF()
    index = pdfium_c.FPDFText_GetCharIndexFromTextIndex(raw, position)
    if not pdfium_c.FPDFText_GetLooseCharBox(raw, index, box):
        return None
    return box.left, box.right, box.bottom, box.top


def with_whole_rows(text_page: pdfium.PdfTextPage, text: str) -> str:
    """Return the text without the line ends that pdfium puts beside single letters of a row; positions stay.

    A cell that holds one digit is the usual case.
    """
    if not text.isascii() and max(text) > "\uffff":  # positions of pdfium count those twice
        return text
    parts, copied = [], 0
    for match in _LONELY.finditer(text):
        start, end = match.span()
        if text.startswith(LINE_END, start - len(LINE_END)):
            continue  # behind a blank line
        before = letter_box(text_page, start - 1)
        behind = letter_box(text_page, end) if before is not None else None
        if before is not None and behind is not None and _is_beside(before, behind):
            parts += [text[copied:start], _JOINED]
            copied = end
    return "".join([*parts, text[copied:]]) if parts else text


def _is_beside(before: Box, behind: Box) -> bool:
    """Tell whether a letter stands right of another, on the same line."""
    shared = min(before[3], behind[3]) - max(before[2], behind[2])
    return behind[0] > before[1] and shared > min(before[3] - before[2], behind[3] - behind[2]) / 2
