"""Pages and their text as pdfium loads them, closed by whoever loaded them.

What does not belong here: what is read from them (pdf_text.py). pypdfium2's own objects each register a finalizer and
their place in a tree, for those who forget to close them; of a long manual that takes a twentieth of the time.
"""

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
from pypdfium2.internal import AutoCloseable


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
        AutoCloseable.__init__(self, None, needs_free=False)

    def unload(self) -> None:
        """Free what pdfium holds of it."""
        pdfium_c.FPDFText_ClosePage(self.raw)
        self.raw = None
