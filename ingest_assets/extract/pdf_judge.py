"""Judges whether what was read of a PDF is the document: whole, meant for readers, and made of letters.

What does not belong here: reading (pdf_text.py) and proving (pdf_structure.py). A document is accepted with warnings
where a few pages are missing and is refused where the rest would not stand for it.
"""

import re
import unicodedata
from collections.abc import Sequence

import regex

from ingest_assets.errors import DocumentRejected, Reason
from ingest_assets.extract.pdf_structure import Structure
from ingest_assets.extract.pdf_text import PageText
from ingest_assets.records import ExtractWarning

_LOST_SHARE = 0.1  # of the pages: a document that has lost more is not itself
_UNMAPPED_SHARE = 0.5  # of a page's letters
_MEANINGLESS_SHARE = 0.3
_FEW_LETTERS = 8  # too few to count their vowels
_FEWEST_VOWELS, _MOST_VOWELS = 0.22, 0.6  # of the letters in any language that is written with these
_LOW_CONFIDENCE = 60.0  # of 100: below, a reader would stumble in every line
_SHOWN = 20  # page numbers in one sentence
_PLACEHOLDER = 400  # characters of a page that only says which program shows the document
# What may be meaningless, found fast; a hyphen at a line end (U+FFFE) is not.
_SUSPICIOUS = re.compile("[\x00-\x08\x0e-\x1f\ud800-\uf8ff\ufffd\U000e0000-\U0010ffff]")
_MEANINGLESS = regex.compile(r"[\p{Co}\p{Cn}\ufffd\x00-\x08\x0e-\x1f]")
_LOST = PageText("", 0.0)
_GARBLED = PageText("", 1.0)


def accepted_pages(raw: Sequence[PageText | None], structure: Structure | None) -> list[PageText]:
    """Return the pages, those that say nothing as blank ones. Raises DocumentRejected for what is no document."""
    _check_whole(raw, structure)
    read = [_LOST if page is None else _GARBLED if _is_garbled(page) else page for page in raw]
    texts = [page.text for page in read if page.text.strip()]
    if structure is not None:
        _check_meant_for_readers(texts, structure)
    if not texts and _GARBLED in read:
        raise DocumentRejected(Reason.GARBLED_TEXT, "The fonts of the PDF do not tell which letters they show.")
    if not texts and not any(page.has_picture for page in read):
        raise DocumentRejected(Reason.EMPTY_DOCUMENT, f"The {len(read)} pages of the PDF are blank.")
    if texts and all(page.is_scan or not page.text.strip() for page in read):
        raise DocumentRejected(
            Reason.NO_TEXT_LAYER, f"The {len(read)} pages are pictures; their text is no more than a stamp."
        )
    return read


def warnings(read: Sequence[PageText], pages: Sequence[str], structure: Structure | None) -> list[ExtractWarning]:
    """Return what a reader of the index should know; `pages` is the final text of the pages in `read`."""
    total, numbered = len(pages), list(enumerate(read, start=1))
    lost = sorted(
        {number for number, page in numbered if page is _LOST} | set(structure.lost_pages if structure else ())
    )
    garbled = [number for number, page in numbered if page is _GARBLED]
    blank = [
        number
        for number, page in numbered
        if page.is_scan or not (pages[number - 1] or page is _GARBLED or number in lost)
    ]
    pictures = sum(read[number - 1].has_picture for number in blank)
    recognised = {number: page.confidence for number, page in numbered if page.confidence is not None}
    poor = [number for number, confidence in recognised.items() if confidence < _LOW_CONFIDENCE]
    mean = sum(recognised.values()) / max(1, len(recognised))
    found = [
        _warning("lost_pages", f"{len(lost)} of {total} pages are damaged or missing in the file.", lost),
        _warning("garbled_pages", f"The fonts of {len(garbled)} of {total} pages do not tell their letters.", garbled),
        _warning(
            "pages_without_text",
            f"{len(blank)} of {total} pages have no text; {pictures} of them show a picture or a drawing.",
            blank if any(pages) else [],
        ),
        _warning(
            "recognised",
            f"The text of {len(recognised)} of {total} pages was recognised, with a mean confidence of {mean:.0f} %.",
            list(recognised),
        ),
        _warning("recognised_poorly", f"{len(poor)} of {total} pages were recognised with low confidence.", poor),
    ]
    if structure is not None and structure.attachments:
        detail = f"{structure.attachments} files are attached to the PDF and are not read."
        found.append(ExtractWarning("attachments_not_read", detail))
    return [warning for warning in found if warning is not None]


def _warning(code: str, detail: str, pages: Sequence[int]) -> ExtractWarning | None:
    return ExtractWarning(code, detail, tuple(pages)) if pages else None


def _lost(raw: Sequence[PageText | None], structure: Structure | None) -> list[int]:
    if structure is None:
        # Repaired by pdfium alone: a page without text may be a page that was lost.
        return [number for number, page in enumerate(raw, start=1) if page is None or not page.text.strip()]
    unread = {number for number, page in enumerate(raw, start=1) if page is None}
    return sorted(unread | set(structure.lost_pages))


def _check_whole(raw: Sequence[PageText | None], structure: Structure | None) -> None:
    if structure is not None and structure.page_count != len(raw):
        raise DocumentRejected(Reason.CORRUPT, f"The PDF names {structure.page_count} pages, {len(raw)} can be read.")
    lost = _lost(raw, structure)
    if lost and (structure is None or len(lost) > _LOST_SHARE * len(raw)):
        shown = ", ".join(map(str, lost[:_SHOWN])) + (" …" if len(lost) > _SHOWN else "")
        raise DocumentRejected(Reason.CORRUPT, f"The content of these pages of the PDF is damaged or missing: {shown}.")


def _check_meant_for_readers(texts: list[str], structure: Structure) -> None:
    text = " ".join(" ".join(texts).split()) if sum(map(len, texts)) <= 2 * _PLACEHOLDER else ""
    is_placeholder = text.lower().startswith("please wait")
    if structure.has_dynamic_form and (structure.needs_rendering or is_placeholder):
        raise DocumentRejected(
            Reason.UNSUPPORTED_TYPE, "The PDF is a dynamic form (XFA), whose text is not in its pages."
        )
    if structure.is_portfolio and structure.attachments and "portfolio" in text.lower():
        raise DocumentRejected(Reason.UNSUPPORTED_TYPE, "The PDF is a portfolio, whose documents are files inside it.")


def _is_garbled(page: PageText) -> bool:
    if page.confidence is not None or not page.text.strip():
        return False
    if page.unmapped_share > _UNMAPPED_SHARE and not _reads_like_words(page.text):
        return True
    if not _SUSPICIOUS.search(page.text):
        return False
    visible = len("".join(page.text.split()))
    return len(_MEANINGLESS.findall(page.text)) > _MEANINGLESS_SHARE * visible


def _reads_like_words(text: str) -> bool:
    """Tell letters of a language from numbers of glyphs, for a font that names its glyphs but does not map them.

    Numbers of glyphs come out as letters moved along the alphabet, which leaves few vowels, and without spaces.
    """
    letters = [char for char in unicodedata.normalize("NFD", text.lower()) if char.isascii() and char.isalpha()]
    if len(letters) < _FEW_LETTERS:
        return not _MEANINGLESS.search(text) and any(char.isalnum() for char in text)
    vowels = sum(char in "aeiouy" for char in letters)
    return (
        _FEWEST_VOWELS <= vowels / len(letters) <= _MOST_VOWELS and len(max(text.split(), key=len)) < len(letters) / 2
    )
