"""Where single letters of a PDF page stand, and rows that pdfium takes apart at them.

What does not belong here: the order of lines (pdf_order.py).
"""

import re

import pypdfium2.raw as pdfium_c

from ingest_assets.extract.pdf_pages import LoadedText

LINE_END = "\r\n"  # as pdfium writes it
# A line end between two lines, beside a letter that is alone in its line or its word.
_LONELY = re.compile(r"\r\n(?:(?<=\A.\r\n)|(?<=[ \n].\r\n)|(?=.(?:[ ]|\r\n|\Z)))(?!\r\n|\Z)", re.DOTALL)
_JOINED = " \u200b"  # as long as what it replaces; of the two a reader sees the space

Box = tuple[float, float, float, float]  # left, right, bottom, top, in points from the page's lower left corner


class Letters:
    """The letters of one page, by their positions in its text, in units of UTF-16."""

    def __init__(self, text_page: LoadedText) -> None:
        self.text_page = text_page
        self._raw = text_page.raw
        self._size = len(text_page.units)
        self._rect = pdfium_c.FS_RECTF()
        # Both counts grow together, so that they are the same everywhere where they are at the end.
        self._is_counted_alike = self._size > 0 and self._counted(self._size - 1) == self._size - 1

    def box(self, position: int) -> Box | None:
        """Return the box of a letter, as high as its font, None where there is none."""
        box = self._rect
        is_known = self._is_counted_alike and 0 <= position < self._size
        if not pdfium_c.FPDFText_GetLooseCharBox(self._raw, position if is_known else self._counted(position), box):
            return None
        return box.left, box.right, box.bottom, box.top

    def _counted(self, position: int) -> int:
        return int(pdfium_c.FPDFText_GetCharIndexFromTextIndex(self._raw, position))


def with_whole_rows(letters: Letters, text: str) -> str:
    """Return the text without the line ends that pdfium puts beside single letters of a row; positions stay.

    A cell that holds one digit is the usual case.
    """
    if letters.text_page.has_pairs:
        return text
    parts, copied = [], 0
    for match in _LONELY.finditer(text):
        start, end = match.span()
        if text.startswith(LINE_END, start - len(LINE_END)):
            continue  # behind a blank line
        before = letters.box(start - 1)
        behind = letters.box(end) if before is not None else None
        if before is not None and behind is not None and _is_beside(before, behind):
            parts += [text[copied:start], _JOINED]
            copied = end
    return "".join([*parts, text[copied:]]) if parts else text


def _is_beside(before: Box, behind: Box) -> bool:
    """Tell whether a letter stands right of another, on the same line."""
    shared = min(before[3], behind[3]) - max(before[2], behind[2])
    return behind[0] > before[1] and shared > min(before[3] - before[2], behind[3] - behind[2]) / 2
