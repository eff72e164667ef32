"""Headings of a PDF without an outline, guessed from lines that are set clearly larger than the text.

What does not belong here: outlines (pdf_outline.py), and how lines look (pdf_look.py). A heading that is missed costs
little, a wrong one stands above every chunk behind it: in doubt there is none.
"""

from collections import Counter, defaultdict

from ingest_assets.extract.normalise import one_line
from ingest_assets.extract.pdf_look import LineLook
from ingest_assets.extract.pdf_outline import Entry

_LARGER = 1.15  # times the size of the text
_BOLD_LARGER = 1.05
_SAME = 0.5  # points within which sizes are one
_LONGEST = 120  # characters
_MOST_WORDS = 16
_TITLE_LINES = 3  # of one heading
_WRAPPED = 30  # characters of a line that may go on in the next
_LETTERS_SHARE = 0.5  # of a heading's characters; formulas and figures have fewer
_REPEATS = 2  # a line that stands in more places names nothing
_TEXT_SHARE = 0.1  # of all characters; a size that sets more of them is text
_LEVELS = 4
_SENTENCE_ENDS = (".", ",", ";", ":", "،", "。", "，")

Candidate = tuple[int, float, str]  # page index, size in points, title


def looked_headings(pages: list[tuple[LineLook, ...]]) -> list[Entry]:
    """Return (level, title, page index) of the headings, in the order of the pages."""
    characters: Counter[tuple[float, bool]] = Counter()
    for lines in pages:
        for line in lines:
            characters[_rounded(line.size), line.is_bold] += len(line.text)
    if not characters:
        return []
    body, is_bold_body = characters.most_common(1)[0][0]
    found = [
        candidate
        for index, lines in enumerate(pages)
        for candidate in _candidates(index, lines, body, is_bold_body=is_bold_body)
    ]
    repeats = Counter(title.lower() for _, _, title in found)
    found = [item for item in found if repeats[item[2].lower()] <= _REPEATS]
    levels = _levels(found, sum(characters.values()))
    return [(levels[size], title, index) for index, size, title in found if size in levels]


def _candidates(index: int, lines: tuple[LineLook, ...], body: float, *, is_bold_body: bool) -> list[Candidate]:
    """Return the lines of a page that stand out, those that follow each other in one size as one."""
    found: list[Candidate] = []
    group: list[LineLook] = []
    for line in (*lines, None):
        if group and (line is None or not _continues(group[-1], line)):
            title = one_line(" ".join(item.text for item in group))
            if len(group) <= _TITLE_LINES and _is_title(title):
                found.append((index, _rounded(group[0].size), title))
            group = []
        if line is not None and _stands_out(line, body, is_bold_body=is_bold_body):
            group.append(line)
    return found


def _continues(above: LineLook, line: LineLook) -> bool:
    """Tell whether a title was too long for its line, and goes on in the next."""
    is_alike = _rounded(above.size) == _rounded(line.size) and above.is_bold == line.is_bold
    return is_alike and len(above.text) >= _WRAPPED and not line.text.lstrip()[:1].isdigit()


def _stands_out(line: LineLook, body: float, *, is_bold_body: bool) -> bool:
    factor = _BOLD_LARGER if line.is_bold and not is_bold_body else _LARGER
    return line.size >= body * factor and len(line.text) <= _LONGEST


def _is_title(title: str) -> bool:
    letters = sum(char.isalpha() for char in title)
    return (
        letters >= max(2, _LETTERS_SHARE * len(title.replace(" ", "")))
        and len(title) <= _LONGEST
        and len(title.split()) <= _MOST_WORDS
        and not (title.endswith(_SENTENCE_ENDS) and len(title.split()) > 3)  # noqa: PLR2004 - a few words with a mark are no sentence
        and not title[0].islower()
    )


def _levels(found: list[Candidate], total: int) -> dict[float, int]:
    """Number the sizes from the largest; those that set much text are none of headings."""
    share: dict[float, int] = defaultdict(int)
    for _, size, title in found:
        share[size] += len(title)
    sizes = sorted((size for size in share if share[size] <= _TEXT_SHARE * total), reverse=True)
    return {size: min(place, _LEVELS) for place, size in enumerate(sizes, start=1)}


def _rounded(size: float) -> float:
    return round(size / _SAME) * _SAME
