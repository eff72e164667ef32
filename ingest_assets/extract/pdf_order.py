"""Puts the lines of a PDF page into reading order where the file has them in another, and leaves out what is cropped.

What does not belong here: pages whose lines go down the page, column after column: most producers write in reading
order, and know it better than geometry does. A look at a few lines tells.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise

import pypdfium2.raw as pdfium_c

from ingest_assets.extract.pdf_letters import LINE_END, Letters
from ingest_assets.extract.pdf_pages import LoadedPage, LoadedText

HYPHEN = "\ufffe"  # what pdfium writes for one at a line end
_BETWEEN = f" \r\n\0{HYPHEN}"  # letters: what has no place of its own
_SAMPLE = 9  # lines that are looked at
_FIRST_PAGES = 30  # of a document that are all looked at
_EVERY_PAGE = 5  # of the others
_FEWEST_LINES = 3
_SIDEWAYS = 0.1  # of the page's width: further right is the next column
_UPWARDS = 0.013  # of the page's height: less is a letter that stands higher
_GAP_HEIGHTS = 1.5  # of letters, between two runs of one line; a space is a third of one
_GUTTER_HEIGHTS = 0.8
_RUN_LIMIT = 2_000  # of one page
_RUN_LETTERS = 3  # that a run has at least, on average, where letters stand upright
_BAND_LINES = 5  # above and below columns that reach across them
_SHORT_LINE = 4  # characters, with the line's end
_CELL = 25  # characters of a usual cell of a table
_PAIRED = 0.6  # of the lines in one column that have a neighbour on their height
_RTL = re.compile("[\u0590-\u08ff]")


@dataclass(slots=True)
class _Run:
    """Letters that stand close together on one line, as they are looked at: top is small."""

    text: str
    left: float
    right: float
    top: float
    bottom: float

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2


class OrderSample:
    """Decides which pages are looked at: a producer that kept the order on many pages keeps it on the others."""

    def __init__(self) -> None:
        self._checked = 0
        self._is_trusted = True

    def is_to_be_checked(self, page: LoadedPage, index: int) -> bool:
        """Tell whether this page is one of the sample, turned, or in a document that has moved lines."""
        is_sampled = self._checked < _FIRST_PAGES or index % _EVERY_PAGE == 0
        return is_sampled or not self._is_trusted or bool(page.get_rotation()) or page.is_cropped

    def note(self, *, is_moved: bool) -> None:
        """Count a page that was looked at, and whether its lines had to be moved."""
        self._checked += 1
        self._is_trusted = self._is_trusted and not is_moved


def in_reading_order(page: LoadedPage, letters: Letters, text: str) -> str:
    """Return the text with its lines in reading order, without those outside of the page's crop box."""
    is_cropped = page.is_cropped
    if not text or not (is_cropped or _is_disordered(page, letters, text)):
        return text
    turn = _turn(page, letters.text_page)
    runs = list(_runs(page, letters, turn))
    if len(runs) > min(_RUN_LIMIT, len(text) / _RUN_LETTERS):
        return text
    if is_cropped:
        x0, y0, x1, y1 = page.get_cropbox()
        width, height = (y1 - y0, x1 - x0) if turn in (90, 270) else (x1 - x0, y1 - y0)
        seen = [run for run in runs if -1 <= run.middle <= height + 1 and -1 <= run.left <= width + 1]
        if len(seen) == len(runs) and not _is_disordered(page, letters, text):
            return text
        runs = seen
    lines = list(_ordered(runs))
    is_prose_beside_prose = any(sum(len(run.text) > _CELL for run in line) > 1 for line in lines)
    return text if is_prose_beside_prose and not is_cropped else LINE_END.join(map(_written, lines))


def _is_disordered(page: LoadedPage, letters: Letters, text: str) -> bool:
    """Tell from a few lines whether they jump up the page, other than to the top of the next column."""
    lines = text.split(LINE_END)
    if len(lines) < _FEWEST_LINES or len(text) < _SHORT_LINE * len(lines):
        return False  # notes of music, labels of a drawing
    if not text.isascii() and len(_RTL.findall(text[: _SAMPLE * _CELL])) > _SAMPLE:
        return False
    filled = [index for index, line in enumerate(lines) if line and not line.isspace()]
    begins = list(accumulate(map(len, lines), lambda start, length: start + length + len(LINE_END), initial=0))
    step = max(1, len(filled) // _SAMPLE)
    starts = [begins[index] + len(lines[index]) - len(lines[index].lstrip()) for index in filled[::step]]
    turn, crop = _turn(page, letters.text_page), page.get_cropbox()
    places = [place for start in starts if (place := _place(letters, start, crop, turn)) is not None]
    wide, high = page.get_width() * _SIDEWAYS, page.get_height() * _UPWARDS
    is_table_like = len(text) < _CELL * len(lines)
    jumps = [
        index
        for index, (above, below) in enumerate(pairwise(places), start=1)
        if below[1] < above[1] - high and (below[0] < above[0] + wide or is_table_like)
    ]
    # One jump near an end of a full page is a running title that was drawn first or last.
    return len(jumps) > (len(places) >= _SAMPLE) or any(
        _FEWEST_LINES <= index <= len(places) - _FEWEST_LINES for index in jumps
    )


def _turn(page: LoadedPage, text_page: LoadedText) -> int:
    """Return by how many degrees the page is turned; letters that lie on their side are read as they were written."""
    rotation = int(page.get_rotation())
    return rotation if rotation and pdfium_c.FPDFText_GetCharAngle(text_page, 0) else 0


def _place(
    letters: Letters, position: int, crop: tuple[float, float, float, float], turn: int
) -> tuple[float, float] | None:
    """Return where a letter stands: points from the left, and from the top."""
    box = letters.box(position)
    if box is None:
        return None
    turned = _turned(crop, turn, *box)
    return turned[0], turned[3]


def _turned(
    crop: tuple[float, float, float, float], turn: int, left: float, right: float, bottom: float, top: float
) -> tuple[float, float, float, float]:
    """Return (left, right, top, bottom) on a page turned by so many degrees, from its upper left corner."""
    x0, y0, x1, y1 = crop
    match turn:
        case 90:
            return bottom - y0, top - y0, left - x0, right - x0
        case 180:
            return x1 - right, x1 - left, bottom - y0, top - y0
        case 270:
            return y1 - top, y1 - bottom, x1 - right, x1 - left
        case _:
            return left - x0, right - x0, y1 - top, y1 - bottom


def _runs(page: LoadedPage, letters: Letters, turn: int) -> Iterator[_Run]:
    run: _Run | None = None
    crop = page.get_cropbox()
    for position, char in enumerate(map(chr, letters.text_page.units)):
        if char in _BETWEEN:
            if run is not None and char != "\n":
                run.text += HYPHEN if char == HYPHEN else " "
            continue
        box = letters.box(position)
        if box is None:
            continue
        left, right, top, bottom = _turned(crop, turn, *box)
        if run is not None and _continues(run, left, top, bottom):
            run.text += char
            run.right, run.top, run.bottom = max(run.right, right), min(run.top, top), max(run.bottom, bottom)
            continue
        if run is not None:
            yield run
        run = _Run(char, left, right, top, bottom)
    if run is not None:
        yield run


def _continues(run: _Run, left: float, top: float, bottom: float) -> bool:
    height = max(1.0, run.bottom - run.top)
    return abs((top + bottom) / 2 - run.middle) < height / 2 and -height < left - run.right < _GAP_HEIGHTS * height


def _ordered(runs: list[_Run]) -> Iterator[list[_Run]]:
    """Yield lines of runs: columns from the left, each from the top; rows of a table stay together."""
    if not runs:
        return
    sides = _columns(runs)
    if sides is not None:
        for side in sides:
            yield from _ordered(side)
        return
    parts = _bands(runs)
    if parts is not None:
        for part in parts:
            yield from _ordered(part)
        return
    line: list[_Run] = []
    for run in sorted(runs, key=lambda item: item.middle):
        if line and abs(run.middle - line[-1].middle) > max(1.0, run.bottom - run.top) / 2:
            yield line
            line = []
        line.append(run)
    if line:
        yield line


def _columns(runs: list[_Run]) -> tuple[list[_Run], list[_Run]] | None:
    """Split at the widest gutter that runs down between all lines, unless it is one between the cells of a table."""
    if len(runs) < 2 * _FEWEST_LINES:
        return None
    ordered = sorted(runs, key=lambda item: item.left)
    height = sorted(run.bottom - run.top for run in runs)[len(runs) // 2]
    best, reach = (0.0, 0.0), ordered[0].right
    for run in ordered[1:]:
        best = max(best, (run.left - reach, reach))
        reach = max(reach, run.right)
    if best[0] < _GUTTER_HEIGHTS * height:
        return None
    left = [run for run in runs if run.right <= best[1]]
    right = [run for run in runs if run.right > best[1]]
    return None if _is_table(left, right) else (left, right)


def _is_table(left: list[_Run], right: list[_Run]) -> bool:
    """Tell cells from columns of prose: short, and on one height with their neighbours."""
    usual = sum(len(run.text) for run in (*left, *right)) / (len(left) + len(right))
    fewer, more = sorted((left, right), key=len)
    heights = [run.middle for run in more]
    paired = sum(any(abs(run.middle - height) < (run.bottom - run.top) / 2 for height in heights) for run in fewer)
    return usual <= _CELL and paired >= _PAIRED * len(fewer)


def _bands(runs: list[_Run]) -> list[list[_Run]] | None:
    """Split off the lines at the top and at the bottom that reach across columns, so that what is left has a gutter."""
    ordered = sorted(runs, key=lambda item: item.middle)
    width = max(run.right for run in runs) - min(run.left for run in runs)
    wide = [index for index, run in enumerate(ordered) if run.right - run.left > width / 2]
    above = max((index + 1 for index in wide if index < _BAND_LINES), default=0)
    below = max((len(ordered) - index for index in wide if index >= len(ordered) - _BAND_LINES), default=0)
    middle = ordered[above : len(ordered) - below]
    if not (above or below) or _columns(middle) is None:
        return None
    return [part for part in (ordered[:above], middle, ordered[len(ordered) - below :]) if part]


def _written(line: list[_Run]) -> str:
    return " ".join(run.text.strip() for run in sorted(line, key=lambda item: item.left))
