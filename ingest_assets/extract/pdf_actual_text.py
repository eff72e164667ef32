"""Puts in what a PDF spells out (/ActualText) where its glyphs themselves say nothing.

What does not belong here: glyphs that say something. Ligatures without a character map are the usual case.
"""

import ctypes
from collections import defaultdict

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

_OBJECT_DEPTH = 5
_TERMINATOR_BYTES = 2
_MEANINGLESS = "\ufffd\ufffe\uffff"


def with_actual_text(page: pdfium.PdfPage, text_page: pdfium.PdfTextPage, text: str) -> str:
    """Return the page's text with spelled-out passages in the place of glyphs that gave no letter."""
    objects = list(page.get_objects(filter=[pdfium_c.FPDF_PAGEOBJ_TEXT], max_depth=_OBJECT_DEPTH))
    spelled = [_spelled_out(item.raw) for item in objects]
    if not any(spelled):
        return text
    characters = _characters(text_page)
    units = text.encode("utf-16-le", "surrogatepass")
    parts: list[bytes] = []
    copied, reached, previous = 0, 0, 0
    for item, (mark, actual) in zip(objects, (found or (0, "") for found in spelled), strict=True):
        own = characters.get(_address(item.raw), [])
        start = _text_index(text_page, own[0]) if own else reached
        end = _text_index(text_page, own[-1]) + 1 if own else reached
        if mark and start >= copied and (not own or _says_nothing(units[start * 2 : end * 2])):
            parts.append(units[copied * 2 : start * 2])
            parts.append(b"" if mark == previous else actual.encode("utf-16-le", "surrogatepass"))
            copied = end
        reached, previous = max(reached, end), mark
    return b"".join([*parts, units[copied * 2 :]]).decode("utf-16-le", "surrogatepass")


def _spelled_out(item: object) -> tuple[int, str] | None:
    """Return (identity of the mark, its text) of a text object, or None."""
    for index in range(pdfium_c.FPDFPageObj_CountMarks(item)):
        mark = pdfium_c.FPDFPageObj_GetMark(item, index)
        size = ctypes.c_ulong()
        if (
            pdfium_c.FPDFPageObjMark_GetParamStringValue(mark, b"ActualText", None, 0, size)
            and size.value > _TERMINATOR_BYTES
        ):
            buffer = (ctypes.c_ushort * (size.value // 2))()
            pdfium_c.FPDFPageObjMark_GetParamStringValue(mark, b"ActualText", buffer, size.value, size)
            return _address(mark), bytes(buffer).decode("utf-16-le", "surrogatepass").rstrip("\x00")
    return None


def _characters(text_page: pdfium.PdfTextPage) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for index in range(text_page.count_chars()):
        found[_address(pdfium_c.FPDFText_GetTextObject(text_page, index))].append(index)
    return found


def _text_index(text_page: pdfium.PdfTextPage, character: int) -> int:
    return max(0, int(pdfium_c.FPDFText_GetTextIndexFromCharIndex(text_page, character)))


def _says_nothing(units: bytes) -> bool:
    text = units.decode("utf-16-le", "replace").strip()
    return not text or all(char in _MEANINGLESS or char < " " or "\ue000" <= char <= "\uf8ff" for char in text)


def _address(pointer: object) -> int:
    return ctypes.cast(pointer, ctypes.c_void_p).value or 0  # type: ignore[arg-type]  # pdfium's own pointer types
