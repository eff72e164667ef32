"""What a reader sees on a PDF page that is not its content: values of form fields, typed notes, comments.

What does not belong here: dynamic XFA forms, whose pages are drawn by a program (pdf.py refuses them).
"""

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from ingest_assets.extract.normalise import one_line

_ANNOTATION_LIMIT = 5_000  # of one page
_VALUE_LIMIT = 100_000  # characters of one field or note
_COMPARISONS = 5_000_000  # of letters with fields on one page
_NEAR = 2.0  # points by which a label may reach into its field
_ABOVE = 18.0  # points between a field and the label above it
_UNSEEN = 0x02 | 0x20  # hidden, not viewed
_PASSWORD = 1 << 13  # flag of a text field
_TICKED = (pdfium_c.FPDF_FORMFIELD_CHECKBOX, pdfium_c.FPDF_FORMFIELD_RADIOBUTTON)
_CHOICES = (pdfium_c.FPDF_FORMFIELD_COMBOBOX, pdfium_c.FPDF_FORMFIELD_LISTBOX)
_NOTES = (
    pdfium_c.FPDF_ANNOT_FREETEXT,
    pdfium_c.FPDF_ANNOT_TEXT,
    pdfium_c.FPDF_ANNOT_HIGHLIGHT,
    pdfium_c.FPDF_ANNOT_UNDERLINE,
    pdfium_c.FPDF_ANNOT_SQUIGGLY,
    pdfium_c.FPDF_ANNOT_STRIKEOUT,
    pdfium_c.FPDF_ANNOT_CARET,
)


@dataclass(frozen=True, slots=True)
class _Field:
    value: str
    left: float
    bottom: float
    right: float
    top: float
    is_ticked: bool  # a box or button, whose label stands behind it


def with_annotations(
    document: pdfium.PdfDocument, page: pdfium.PdfPage, text_page: pdfium.PdfTextPage, text: str, *, is_moved: bool
) -> str:
    """Return the page's text with each field's value beside its label, and notes at the end.

    Where letters of the text were moved, positions say nothing, and values stand at the end as well.
    """
    fields, notes = [], []
    for annotation in _annotations(page):
        kind = pdfium_c.FPDFAnnot_GetSubtype(annotation)
        if pdfium_c.FPDFAnnot_GetFlags(annotation) & _UNSEEN:
            continue
        if kind == pdfium_c.FPDF_ANNOT_WIDGET and document.formenv is not None:
            field = _field(document.formenv.raw, annotation)
            fields += [field] if field is not None else []
        elif kind in _NOTES:
            note = _string(partial(pdfium_c.FPDFAnnot_GetStringValue, annotation, b"Contents"))
            notes += [note] if note.strip() and one_line(note) not in one_line(text) else []
    if fields:
        text = _placed([] if is_moved else list(_boxes(text_page, len(text))), text, fields)
    return "\r\n\r\n".join([*([text] if text else []), *notes])


def _annotations(page: pdfium.PdfPage) -> Iterator[object]:
    for index in range(min(_ANNOTATION_LIMIT, pdfium_c.FPDFPage_GetAnnotCount(page))):
        annotation = pdfium_c.FPDFPage_GetAnnot(page, index)
        if annotation:
            yield annotation
            pdfium_c.FPDFPage_CloseAnnot(annotation)


def _field(form: object, annotation: object) -> _Field | None:
    """Return what a field shows, None for one that shows nothing."""
    kind = pdfium_c.FPDFAnnot_GetFormFieldType(form, annotation)
    box = pdfium_c.FS_RECTF()
    if not pdfium_c.FPDFAnnot_GetRect(annotation, box):
        return None
    if kind in _TICKED:
        value = "[x]" if pdfium_c.FPDFAnnot_IsChecked(form, annotation) else "[ ]"
    elif kind in _CHOICES:
        value = _chosen(form, annotation)
    elif kind == pdfium_c.FPDF_FORMFIELD_TEXTFIELD:
        is_secret = pdfium_c.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD
        value = "" if is_secret else _value(form, annotation)
    else:
        return None
    value = one_line(value)
    return _Field(value, box.left, box.bottom, box.right, box.top, kind in _TICKED) if value else None


def _value(form: object, annotation: object) -> str:
    return _string(partial(pdfium_c.FPDFAnnot_GetFormFieldValue, form, annotation))


def _chosen(form: object, annotation: object) -> str:
    """Return what is chosen, as the list shows it; a value of its own where the list has none."""
    count = min(_ANNOTATION_LIMIT, pdfium_c.FPDFAnnot_GetOptionCount(form, annotation))
    labels = [
        _string(partial(pdfium_c.FPDFAnnot_GetOptionLabel, form, annotation, index))
        for index in range(count)
        if pdfium_c.FPDFAnnot_IsOptionSelected(form, annotation, index)
    ]
    return ", ".join(labels) or _value(form, annotation)


def _string(read: Callable[[object, int], int]) -> str:
    """Return a string that pdfium writes into a buffer, as UTF-16 with a terminator."""
    size = read(None, 0)
    if not 2 < size <= 2 * _VALUE_LIMIT:  # noqa: PLR2004 - a terminator alone
        return ""
    buffer = (ctypes.c_ushort * (size // 2))()
    read(buffer, size)
    return bytes(buffer).decode("utf-16-le", "surrogatepass").rstrip("\x00")


def _placed(boxes: list["_Box"], text: str, fields: list[_Field]) -> str:
    """Write each value behind its label: left of it or above it, behind it for ticks; else at the page's end."""
    if len(boxes) * len(fields) > _COMPARISONS:
        boxes = []
    inserted: list[tuple[int, str]] = []
    rest = []
    for field in fields:
        place = _tick_place(boxes, field) if field.is_ticked else None
        if place is not None:
            inserted.append((place, f"{field.value} "))
            continue
        place = _label_end(boxes, field)
        if place is not None:
            inserted.append((place, f" {field.value}"))
        else:
            rest.append(field)
    units = text.encode("utf-16-le", "surrogatepass")
    inserted.reverse()
    for place, value in sorted(inserted, key=lambda item: item[0], reverse=True):
        units = units[: 2 * place] + value.encode("utf-16-le", "surrogatepass") + units[2 * place :]
    rest.sort(key=lambda field: (-field.top, field.left))
    return "\r\n".join([units.decode("utf-16-le", "surrogatepass"), *(field.value for field in rest)])


_Box = tuple[int, float, float, float, float]  # position in the text, left, right, bottom, top


def _boxes(text_page: pdfium.PdfTextPage, length: int) -> Iterator[_Box]:
    left, right, bottom, top = (ctypes.c_double() for _ in range(4))
    for index in range(text_page.count_chars()):
        found = pdfium_c.FPDFText_GetCharBox(text_page, index, left, right, bottom, top)
        if found and right.value > left.value and not pdfium_c.FPDFText_IsGenerated(text_page, index):
            position = pdfium_c.FPDFText_GetTextIndexFromCharIndex(text_page, index)
            if 0 <= position < length:
                yield position, left.value, right.value, bottom.value, top.value


def _is_beside(box: _Box, field: _Field) -> bool:
    return field.bottom <= (box[3] + box[4]) / 2 <= field.top


def _tick_place(boxes: list[_Box], field: _Field) -> int | None:
    behind = [box for box in boxes if _is_beside(box, field) and -_NEAR <= box[1] - field.right <= 2 * _ABOVE]
    return min(behind, key=lambda box: box[1])[0] if behind else None


def _label_end(boxes: list[_Box], field: _Field) -> int | None:
    before = [box for box in boxes if _is_beside(box, field) and box[2] <= field.left + _NEAR]
    if before:
        return max(before, key=lambda box: box[2])[0] + 1
    above = [
        box
        for box in boxes
        if 0 <= box[3] - field.top + _NEAR <= _ABOVE and box[2] > field.left and box[1] < field.right
    ]
    return max(above, key=lambda box: (-box[3], box[2]))[0] + 1 if above else None
