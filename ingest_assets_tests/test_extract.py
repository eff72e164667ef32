"""Extraction as a whole: types, limits, normalising, text and Markdown, and that nothing untyped ever escapes.

What does not belong here: HTML, DOCX and PDF (test_extract_*.py) and case files (test_extract_cases.py).
"""

import unicodedata
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest_assets.errors import DocumentRejected, Reason
from ingest_assets.extract import EXTRACTOR_VERSION, extract
from ingest_assets.extract.charset import decode_text
from ingest_assets.extract.normalise import normalise
from ingest_assets.records import Extracted
from ingest_assets.settings import ExtractSettings
from ingest_assets_tests.fuzz.seeds import seeds
from ingest_assets_tests.fuzz.worker import complaint, make_input

FILES = Path(__file__).parent / "cases" / "files"
SAMPLES = sorted(path for path in FILES.iterdir() if path.stat().st_size < 20_000 and not path.name.startswith("A12"))
SETTINGS = ExtractSettings(min_characters=1)


def read(text: str, key: str = "a.md") -> Extracted:
    """Extract UTF-8 text."""
    return extract(text.encode(), key, SETTINGS)


def reason(data: bytes, key: str, limits: ExtractSettings = SETTINGS) -> Reason:
    """Return why these bytes are refused."""
    with pytest.raises(DocumentRejected) as rejected:
        extract(data, key, limits)
    return rejected.value.reason


@pytest.mark.parametrize(
    ("data", "key"),
    [
        (b"\x89PNG\r\n\x1a\n" + bytes(99), "a.png"),
        (b"\xff\xd8\xff\xe0" + bytes(99), "a.txt"),
        (b"{\\rtf1 text}", "a.rtf"),
        (b"GIF89a" + bytes(99), "a.html"),
        (b"just text", "a.pdf"),
        (b"just text", "a.docx"),
        (b"%PDF-1.4\n", "a.docx"),
        (b"<svg xmlns='x'><text>t</text></svg>", "a.svg"),
        (bytes(range(256)) * 9, "a.md"),
    ],
)
def test_what_is_no_document_is_an_unsupported_type(data: bytes, key: str) -> None:
    """Whatever its name says."""
    assert reason(data, key) is Reason.UNSUPPORTED_TYPE


def test_the_name_breaks_ties_among_text_formats_only() -> None:
    """A page of HTML is HTML under any text name."""
    assert read("# x", "a.txt").headings == ()
    assert read("# x", "A.MARKDOWN").headings[0].title == "x"
    assert read("<!-- c --><!doctype HTML><p>x", "a.txt").text == "x"
    assert read("plain &amp; simple", "dir.html/plain").text == "plain &amp; simple"


def test_limits_are_by_kind() -> None:
    """Text formats have a smaller one; both are too_large."""
    limits = ExtractSettings(max_bytes=2000, max_text_bytes=100)
    assert reason(b"x" * 101, "a.txt", limits) is Reason.TOO_LARGE
    assert reason(b"%PDF-1.4 " + b"x" * 2000, "a.pdf", limits) is Reason.TOO_LARGE


def test_few_visible_characters_are_an_empty_document() -> None:
    """Wide characters say more each."""
    assert (
        reason(
            "short\u200b\u200b\u200b\u200b\u200b\u200b\u200b\u200b\u200b\u200b\u200b\u200b\u200b\u200b\u200b".encode(),
            "a.txt",
            ExtractSettings(),
        )
        is Reason.EMPTY_DOCUMENT
    )
    assert extract("水泵检查完成，压力正常。".encode(), "a.txt", ExtractSettings()).text


@pytest.mark.parametrize(
    ("raw", "tidy"),
    [
        ("a\r\nb\rc\x0cd", "a\nb\nc\nd"),
        ("x\x00y\ufeffz\u00ad\u200b\u2060.", "xyz."),
        ("e\u0301", "é"),
        ("\ufb01n \ufb04", "fin ffl"),
        ("\ud835\udf0e \ud83d!", "\U0001d70e !"),
        ("a  \t\n\n\n\n\nb", "a\n\nb"),
        ("a\n\n\nb", "a\n\n\nb"),
        ("x" + " " * 9000 + "y", "x" + " " * 128 + "y"),
        ("می\u200cخواهم x²", "می\u200cخواهم x²"),
        ("\x1b\x7f\x9fq", "q"),
    ],
)
def test_normalising_leaves_what_a_reader_sees(raw: str, tidy: str) -> None:
    """And nothing else."""
    assert normalise(raw) == tidy


@given(st.text(max_size=200))
@settings(max_examples=300, deadline=None)
def test_normalised_text_is_stable_and_storable(text: str) -> None:
    """Once is enough, and every consumer can take it."""
    tidy = normalise(text)
    assert normalise(tidy) == tidy
    assert unicodedata.is_normalized("NFC", tidy)
    assert "\x00" not in tidy
    assert tidy.encode() == tidy.strip().encode()


def test_a_flood_of_combining_marks_takes_no_time() -> None:
    """CPython sorts them by insertion."""
    assert len(normalise("a" + "\u0301\u0323" * 200_000)) < 100


def test_markdown_headings_are_found_outside_of_code_only() -> None:
    """ATX and setext, at their lines."""
    text = (
        "# One `x`\n\n```\n# no\n```\n\ntext\n\nTwo *b*\n---\n\n    # no\n\n"
        "~~~~\n# no\n~~~\n# no\n~~~~\n\n### Three ###\n> # quoted\n\n#no"
    )
    found = read(text)
    assert [(heading.level, heading.title) for heading in found.headings] == [(1, "One x"), (2, "Two b"), (3, "Three")]
    assert [found.text[heading.char_start :].split("\n")[0] for heading in found.headings] == [
        "# One `x`",
        "Two *b*",
        "### Three ###",
    ]
    assert found.text == text


def test_front_matter_becomes_properties() -> None:
    """YAML and TOML; a rule is not front matter."""
    yaml = read('---\ntitle: "A: b"\ntags: [x, y]\nlist:\n  - p\n  - q\nempty:\n---\n\nBody.')
    assert (yaml.text, yaml.properties) == ("Body.", {"title": "A: b", "tags": "x, y", "list": "p, q"})
    assert read('+++\ntitle = "T"\nn = 3\n+++\nBody.').properties == {"title": "T", "n": "3"}
    assert read("---\nnot fields at all\n---\nBody.").text.startswith("---")


def test_inline_data_and_comments_leave_markdown() -> None:
    """Outside of code, where a comment is an example."""
    text = (
        "a ![p](data:image/png;base64,AAAA) <!-- gone\n\ngone --> b `<!-- kept -->`\n\n"
        "[r]: data:image/gif;base64,BBBB\n\n```\n<!-- kept -->\n```"
    )
    assert read(text).text == "a ![p]()  b `<!-- kept -->`\n\n\n```\n<!-- kept -->\n```"


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1252", "Der Prüfbericht ist größer als üblich."),
        ("cp1252", "“Quotes” and café — naïve €12 … ® ™ ©"),
        ("cp1252", "Señor Núñez pagó 30 €. ¿Qué? ¡Sí!"),
        ("cp1252", "20 °C ± 2, ½ inch, £30, § 12, µm"),
        ("cp1250", "Zażółć gęślą jaźń. Łódź jest w Polsce."),
        ("iso8859_2", "Zażółć gęślą jaźń. Łódź jest w Polsce."),
        ("cp1254", "Şirketin yıllık raporu İstanbul’da yayınlandı."),
        ("cp1251", "Насос 5"),
        ("koi8_r", "Проверка насоса проводится каждый вторник."),
        ("cp932", "設備点検記録。毎週火曜日にポンプを点検します。"),
        ("euc_jp", "設備点検記録。毎週火曜日にポンプを点検します。"),
        ("iso2022_jp", "設備点検記録"),
        ("gb18030", "Pump P-12: 检查完成, pressure 4.2 bar, see page 12."),
        ("gb18030", "水泵检查"),
        ("big5", "管理員每天早上八點檢查所有水泵的壓力。"),
        ("cp949", "매주 화요일에 당직 기술자가 펌프를 점검합니다."),
        ("cp1253", "Ο έλεγχος της αντλίας γίνεται κάθε Τρίτη από τον μηχανικό."),
        ("utf-16-le", "plain text"),
        ("utf-16-be", "plain text"),
        ("utf-32-le", "plain text"),
        ("utf-16-le", "水泵检查。 ok\n"),
    ],
)
def test_text_without_a_declaration_is_read_in_its_encoding(encoding: str, text: str) -> None:
    """Short texts too."""
    assert decode_text(text.encode(encoding)) == text


def test_a_few_foreign_bytes_do_not_spoil_utf8() -> None:
    """Logs of two programs in one file; a file cut inside a letter."""
    assert decode_text("größer und länger für München üblich, schön, ".encode() * 5 + b"caf\xe9 ok").endswith("café ok")
    assert decode_text("größer als üblich, schön".encode()[:-2]) == "größer als üblich, sch"


def test_look_alikes_of_special_tokens_are_ordinary_text() -> None:
    """They are what the document says."""
    assert read("Stop at <|endoftext|> and [INST].", "a.txt").text == "Stop at <|endoftext|> and [INST]."


@given(st.sampled_from(SAMPLES), st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_mutated_documents_are_read_or_rejected_and_nothing_else(path: Path, data: st.DataObject) -> None:
    """A damaged byte must never become an untyped exception."""
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(content)))
        content[place : place + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=20))
    _only_typed(bytes(content), path.name)


@given(
    st.binary(max_size=400),
    st.sampled_from(["a.pdf", "a.docx", "a.html", "a.md", "a.txt", "a"]),
    st.sampled_from([b"", b"%PDF-1.7\n", b"PK\x03\x04"]),
)
@settings(max_examples=150, deadline=None)
def test_random_bytes_are_read_or_rejected_and_nothing_else(content: bytes, key: str, start: bytes) -> None:
    """Under every name."""
    _only_typed(start + content, key)


def _only_typed(content: bytes, key: str) -> None:
    try:
        found = extract(content, key, SETTINGS)
    except DocumentRejected:
        return
    assert found.text == normalise(found.text)
    assert all(0 <= page.char_start <= page.char_end <= len(found.text) for page in found.pages)
    assert all(0 <= heading.char_start < len(found.text) for heading in found.headings)
    assert [heading.char_start for heading in found.headings] == sorted(
        heading.char_start for heading in found.headings
    )


@pytest.mark.parametrize("kind", ["docx", "html", "md", "txt", "pdf"])
def test_damaged_documents_keep_every_promise(kind: str) -> None:
    """The first of those that `make fuzz` makes without end; each is made again from its number."""
    known = seeds(kind)
    damaged = [make_input(kind, 1, number, known) for number in range(20)]
    assert damaged[7] == make_input(kind, 1, 7)
    assert [complaint(key, data) for key, data in damaged] == [""] * 20


def test_the_version_of_the_extractor_is_a_word() -> None:
    """It is stored beside every document."""
    assert EXTRACTOR_VERSION.isalnum()
