"""Pages and their text as pdfium loads them, closed by whoever loaded them.

What does not belong here: what is read from them (pdf_text.py). pypdfium2's own objects each register a finalizer and
their place in a tree, for those who forget to close them; of a long manual that takes a twentieth of the time.
"""

import ctypes
from collections.abc import Sequence
from functools import cached_property

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
from pypdfium2.internal import AutoCloseable

_UNIT_BYTES = ctypes.sizeof(ctypes.c_ushort)


class LoadedPage(pdfium.PdfPage):  # type: ignore[misc]  # pypdfium2 has no types
    """A page; `unload` it."""

    def __init__(self, document: pdfium.PdfDocument, index: int) -> None:
        self.raw = pdfium_c.FPDF_LoadPage(document, index)
        if not self.raw:
            raise pdfium.PdfiumError("the page cannot be loaded")
        self.pdf, self.formenv = document, document.formenv
        AutoCloseable.__init__(self, None, needs_free=False)
        if self.formenv:
            pdfium_c.FORM_OnAfterLoadPage(self, self.formenv)

    @cached_property
    def is_cropped(self) -> bool:
        """Whether less of the page is shown than its paper has."""
        box = self.get_cropbox(fallback_ok=False)
        return box is not None and bool(box != self.get_mediabox())

    def unload(self) -> None:
        """Free what pdfium holds of it."""
        self._close_impl(self.raw, self.formenv)
        self.raw = None


class LoadedText(pdfium.PdfTextPage):  # type: ignore[misc]  # pypdfium2 has no types
    """The text of a page; `unload` it before the page."""

    def __init__(self, page: LoadedPage) -> None:
        self.raw = pdfium_c.FPDFText_LoadPage(page)
        if not self.raw:
            raise pdfium.PdfiumError("the text of the page cannot be loaded")
        self.page = page
        self.has_pairs = False
        self.units: Sequence[int] = ()  # of UTF-16, as they were read
        AutoCloseable.__init__(self, None, needs_free=False)

    def read(self) -> str:
        """Return the text of the page, and note whether it has surrogates, which pdfium counts one by one."""
        raw, first, last = self.raw, 0, self.count_chars() - 1
        start = end = -1
        # Letters that pdfium leaves out of the text have no place in it.
        while first <= last and (start := pdfium_c.FPDFText_GetTextIndexFromCharIndex(raw, first)) < 0:
            first += 1
        while first <= last and (end := pdfium_c.FPDFText_GetTextIndexFromCharIndex(raw, last)) < 0:
            last -= 1
        if first > last:
            return ""
        space = (ctypes.c_ushort * _rounded(end + 2 - start))()
        size = max(1, pdfium_c.FPDFText_GetText(raw, first, last - first + 1, space)) - 1  # without the terminator
        written = memoryview(space).cast("B")[: size * _UNIT_BYTES]
        text = str(written, "utf-16-le", "ignore")
        self.units = written.cast("H")
        self.has_pairs = len(text) != size
        return text

    def unload(self) -> None:
        """Free what pdfium holds of it."""
        pdfium_c.FPDFText_ClosePage(self.raw)
        self.raw = None


def _rounded(size: int) -> int:
    """Return the next power of two: every size of an array is a type of its own, which ctypes keeps."""
    return 1 << (size - 1).bit_length()
