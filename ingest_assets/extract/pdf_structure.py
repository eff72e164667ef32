"""What pypdf can prove about the structure of a PDF: whether it opens, which pages it has, which of them are whole.

What does not belong here: how large a stream may become (pdf_guard.py), and text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO

from pypdf import PdfReader
from pypdf.errors import DependencyError, EmptyFileError
from pypdf.generic import ArrayObject, DictionaryObject, IndirectObject, NameObject, PdfObject, StreamObject

from ingest_assets.errors import DocumentRejected, Reason
from ingest_assets.extract.pdf_guard import (
    CONTENT_LIMIT_BYTES,
    STREAM_LIMIT_BYTES,
    Inflated,
    Streams,
    check_damaged,
    check_streams,
    inflate,
    stream_filters,
    too_large,
    unpacked,
)
from ingest_assets.extract.pdf_nesting import DRAWS_LIMIT, Nesting
from ingest_assets.extract.pdf_reader import LazyReader

TOTAL_LIMIT_BYTES = 1024 * 1024 * 1024  # inflated, of all pages
PAGE_LIMIT = 20_000
PARTS_LIMIT = 20_000  # streams that make up one page
_HEAD_BYTES = 4096  # of a stream's dictionary
_RESOURCES = NameObject("/Resources")


@dataclass(frozen=True, slots=True)
class Structure:
    """What pypdf can prove about a PDF."""

    page_count: int
    lost_pages: tuple[int, ...]  # 1-based: their object or content is damaged or missing
    has_actual_text: bool  # some page spells out what its glyphs mean
    annotated_pages: frozenset[int]  # 1-based: pages that may have form fields or notes
    has_form: bool
    has_dynamic_form: bool  # XFA: what a reader sees is drawn by a program from the form's own language
    needs_rendering: bool  # the form says so itself
    is_portfolio: bool  # the pages are a cover of the attachments
    attachments: int  # files inside the file
    tree: DictionaryObject  # the root of the pages


def read_structure(data: bytes) -> Structure | None:
    """Return what is known of the pages, or None where pypdf cannot read what pdfium may still repair.

    Raises DocumentRejected: `encrypted` (a user password is needed), `too_large`, `corrupt` (a page tree in itself).
    """
    streams = check_streams(data)
    try:
        reader = _opened(data)
        if reader.is_encrypted:
            _check_decrypted(reader, streams.suspects)
        return _structure(reader, data, streams)
    except (DocumentRejected, MemoryError):
        raise
    except (DependencyError, NotImplementedError) as error:
        raise DocumentRejected(Reason.ENCRYPTED, "The PDF uses an encryption that is not supported.") from error
    except EmptyFileError as error:
        raise DocumentRejected(Reason.EMPTY_DOCUMENT, "The object has no bytes.") from error
    except Exception:  # noqa: BLE001 - whatever pypdf stumbles over, pdfium decides what can be repaired
        check_damaged(data)
        return None


def _opened(data: bytes) -> PdfReader:
    reader = LazyReader(BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise DocumentRejected(Reason.ENCRYPTED, "The PDF is protected by a user password.")
    return reader


def _check_decrypted(reader: PdfReader, suspects: list[tuple[int, list[str]]]) -> None:
    """Refuse bombs among streams that have to be decrypted first."""
    for number, filters in suspects:
        found = IndirectObject(number, 0, reader).get_object()
        if isinstance(found, StreamObject):
            inflate(bytes(found._data), filters, STREAM_LIMIT_BYTES, is_page=False)  # noqa: SLF001 - get_data() would inflate it without our bounds


def _structure(reader: PdfReader, data: bytes, streams: Streams) -> Structure:
    root = reader.trailer["/Root"]
    if not isinstance(root, DictionaryObject):
        raise TypeError
    # One form that draws others several times is enough: one of these may be itself.
    is_deep = bool(streams.deep_forms) or (reader.is_encrypted and streams.forms > 0)
    written = {} if reader.is_encrypted else streams.deep_forms
    has_notes = streams.has_notes or reader.is_encrypted
    nesting, lost, annotated, total, has_actual_text, count = Nesting(written), [], set(), 0, False, 0
    for count, page in enumerate(_pages(root), start=1):
        content = Inflated(is_whole=False) if page is None else _content(page, b"" if reader.is_encrypted else data)
        total += content.size_bytes
        has_actual_text = has_actual_text or content.has_actual_text
        if page is not None and "/Annots" in page and has_notes:
            annotated.add(count)
        if not content.is_whole:
            lost.append(count)
        if total > TOTAL_LIMIT_BYTES:
            raise too_large("The pages")
        if page is not None and content.draws and (is_deep or content.draws > DRAWS_LIMIT):
            nesting.check(page, _whole_content(page))
    form = _dictionary(root, "/AcroForm")
    return Structure(
        page_count=count,
        lost_pages=tuple(lost),
        has_actual_text=has_actual_text,
        annotated_pages=frozenset(annotated),
        has_form=bool(form),
        has_dynamic_form="/XFA" in form,
        needs_rendering=str(root.get("/NeedsRendering")) == "True",
        is_portfolio=bool(_dictionary(root, "/Collection")),
        attachments=_attachments(root),
        tree=_dictionary(root, "/Pages"),
    )


def _pages(root: DictionaryObject) -> Iterator[DictionaryObject | None]:
    """Yield every page object in order, None for one that is missing; refuses trees that contain themselves.

    A page without resources gets those of the nearest node above that has some, as readers do.
    """
    stack: list[tuple[object, frozenset[int], PdfObject | None]] = [(root.raw_get("/Pages"), frozenset(), None)]
    count = 0
    while stack:
        reference, above, inherited = stack.pop()
        number = reference.idnum if isinstance(reference, IndirectObject) else 0
        if number in above:
            raise DocumentRejected(Reason.CORRUPT, "The page tree of the PDF contains itself.")
        node = reference.get_object() if isinstance(reference, IndirectObject) else reference
        kids = node.get("/Kids") if isinstance(node, DictionaryObject) else None
        kids = kids.get_object() if kids is not None else None
        if isinstance(node, DictionaryObject) and _RESOURCES in node:
            inherited = node.raw_get(_RESOURCES)
        elif isinstance(node, DictionaryObject) and inherited is not None:
            node[_RESOURCES] = inherited
        if isinstance(kids, ArrayObject):
            inside = above | {number} if number else above
            stack.extend((kid, inside, inherited) for kid in reversed(list(kids)))
        elif not (isinstance(node, DictionaryObject) and node.get("/Type") == "/Pages"):
            count += 1
            yield node if isinstance(node, DictionaryObject) and node.get("/Type", "/Page") == "/Page" else None
        if count + len(stack) > PAGE_LIMIT:
            raise DocumentRejected(Reason.TOO_LARGE, f"The PDF has more than {PAGE_LIMIT} pages.")


def _content(page: DictionaryObject, data: bytes) -> Inflated:
    """Inflate a page's content, which may be one stream or several; `data` is the file where it is not encrypted."""
    whole = Inflated()
    for part in _parts(page):
        if not isinstance(part, StreamObject):
            whole.is_whole = False
            continue
        limit = CONTENT_LIMIT_BYTES - whole.size_bytes
        found = inflate(bytes(part._data), stream_filters(part), limit, is_page=True)  # noqa: SLF001 - get_data() would inflate it without our bounds
        if not found.is_whole and data:
            found = _inflated_to_its_end(part, data, limit) or found
        whole.size_bytes += found.size_bytes
        whole.draws += found.draws
        whole.is_whole &= found.is_whole
        whole.has_actual_text |= found.has_actual_text
    return whole


def _whole_content(page: DictionaryObject) -> bytes:
    parts = [part for part in _parts(page) if isinstance(part, StreamObject)]
    return b"\n".join(unpacked(bytes(part._data), stream_filters(part)) for part in parts)  # noqa: SLF001 - get_data() would inflate it without our bounds


def _parts(page: DictionaryObject) -> list[PdfObject | None]:
    contents = page["/Contents"] if "/Contents" in page else ArrayObject()
    references = list(contents) if isinstance(contents, ArrayObject) else [contents]
    if len(references) > PARTS_LIMIT:
        raise too_large("A page")
    return [reference.get_object() for reference in references]


def _inflated_to_its_end(part: StreamObject, data: bytes, limit: int) -> Inflated | None:
    """Inflate a stream up to its end in the file, where the length that it gives is wrong; pdfium reads it so too."""
    reference = part.indirect_reference
    if reference is None:
        return None
    heads = re.finditer(rb"(?<!\d)%d\s+%d\s+obj\b" % (reference.idnum, reference.generation), data)
    found = None
    for head in heads:
        start = data.find(b"stream", head.end(), head.end() + _HEAD_BYTES)
        end = data.find(b"endstream", start)
        if 0 <= start < end:
            body = data[start + len(b"stream") : end].lstrip(b"\r\n")
            found = inflate(body, stream_filters(part), limit, is_page=True)
    return found if found is not None and found.is_whole else None


def _dictionary(parent: DictionaryObject, key: str) -> DictionaryObject:
    """Return a dictionary inside another, empty where it is missing or broken."""
    try:
        found = parent.get(key)
        found = found.get_object() if found is not None else None
    except Exception:  # noqa: BLE001 - what stands beside the pages does not decide about them
        found = None
    return found if isinstance(found, DictionaryObject) else DictionaryObject()


def _attachments(root: DictionaryObject) -> int:
    """Count the files that the catalogue names; those deeper in its name tree count as one per branch."""
    files = _dictionary(_dictionary(root, "/Names"), "/EmbeddedFiles")
    names, kids = files.get("/Names"), files.get("/Kids")
    named = names.get_object() if names is not None else None
    branches = kids.get_object() if kids is not None else None
    found = len(named) // 2 if isinstance(named, ArrayObject) else 0
    return found + (len(branches) if isinstance(branches, ArrayObject) else 0)
