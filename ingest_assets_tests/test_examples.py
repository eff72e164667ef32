"""The examples are what the README says they are, and the demo's numbers are not an accident."""

import tomllib
from pathlib import Path

import pypdf
import pytest

from ingest_assets.errors import DocumentRejected
from ingest_assets.extract import extract
from ingest_assets.settings import ExtractSettings

EXAMPLES = Path(__file__).parents[1] / "examples"
REASONS = {
    "salary-minutes.pdf": "encrypted",
    "delivery-note-scan.pdf": "no_text_layer",
    "blank.txt": "empty_document",
    "site-plan.pdf": "unsupported_type",
    "interrupted-upload.pdf": "corrupt",
}


def test_the_corpus_holds_all_five_formats_and_a_long_pdf() -> None:
    """A demo on one kind of document would prove little."""
    files = [path for path in (EXAMPLES / "corpus").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".pdf", ".docx", ".html", ".md", ".txt"}
    assert len(files) >= 12
    manual = pypdf.PdfReader(EXAMPLES / "corpus" / "manuals" / "maintenance-manual.pdf")
    assert len(manual.pages) >= 40
    assert manual.outline


def test_trouble_holds_one_file_for_each_of_its_reasons() -> None:
    """Each file is rejected for the reason it was made for."""
    found = {}
    for path in (EXAMPLES / "trouble").iterdir():
        with pytest.raises(DocumentRejected) as caught:
            extract(path.read_bytes(), path.name, ExtractSettings())
        found[path.name] = str(caught.value.reason)
    assert found == REASONS


def test_every_sample_question_has_its_answer_in_the_document_it_names() -> None:
    """Three questions, each with a passage, on the page it names where there are pages."""
    questions = tomllib.loads((EXAMPLES / "questions.toml").read_text())["questions"]
    assert len(questions) == 3
    for question in questions:
        path = EXAMPLES / "corpus" / question["document"]
        extracted = extract(path.read_bytes(), path.name, ExtractSettings())
        text = " ".join(extracted.text.split())
        assert question["answer"] in text
        if "page" in question:
            page = extracted.pages[question["page"] - 1]
            assert question["answer"] in " ".join(extracted.text[page.char_start : page.char_end].split())
