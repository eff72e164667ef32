"""Text and Markdown: what is structure, what is noise, and what is no text at all.

What does not belong here: the whole of extraction (test_extract.py).
"""

import gzip
import json
import pickle
import sqlite3
import struct
import tarfile
import zlib
from io import BytesIO
from pathlib import Path

import pytest

from ingest_assets.errors import DocumentRejected, Reason
from ingest_assets.extract import extract
from ingest_assets.extract.charset import decode_text
from ingest_assets.extract.normalise import normalise
from ingest_assets.records import Extracted
from ingest_assets.settings import ExtractSettings

SETTINGS = ExtractSettings(min_characters=1)
SENTENCE = "The pump is checked every Tuesday by the engineer on duty."
PICTURE = "iVBORw0KGgoAAAANSUhEUgAA" * 40


def read(text: str, key: str = "a.md") -> Extracted:
    """Extract UTF-8 text."""
    return extract(text.encode(), key, SETTINGS)


def markdown(text: str) -> str:
    """Return the text of a Markdown file."""
    return read(text).text


def reason(data: bytes, key: str = "a.txt") -> Reason:
    """Return why these bytes are refused."""
    with pytest.raises(DocumentRejected) as rejected:
        extract(data, key, SETTINGS)
    return rejected.value.reason


# What is no text


def archive() -> bytes:
    """Return a tar of one text file."""
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("a.txt"))
    return buffer.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        gzip.compress(SENTENCE.encode(), mtime=0), zlib.compress(SENTENCE.encode() * 99), archive(),
        pickle.dumps({"words": [SENTENCE]}), pickle.dumps([1.5] * 99, protocol=2),
        b"\x7fELF\x02\x01\x01" + bytes(99), b"MZ\x90\x00\x03" + bytes(99), b"bplist00\xd1\x01\x02" + bytes(20),
        b"RIFF\x24\x08\x00\x00WAVEfmt " + bytes(99), b"\x00\x00\x00\x18ftypmp42" + bytes(99),
        b"\x28\xb5\x2f\xfd\x04\x58" + b"text" * 9, struct.pack("<500f", *[n / 7 for n in range(500)]),
        struct.pack("<500I", *range(500)), struct.pack(">500H", *range(0, 60000, 120)),
        b"BM" + struct.pack("<IHHI", 999, 0, 0, 54) + bytes(200), b"{\\rtf1\\ansi " + SENTENCE.encode() + b"}",
        b"%!PS-Adobe-3.0\n" + SENTENCE.encode(), bytes(range(128, 256)) * 9,
    ],
    ids=lambda data: repr(data[:6]),
)  # fmt: skip
def test_a_binary_file_with_a_text_name_is_refused(data: bytes) -> None:
    """Programs, archives, databases, sounds, numbers: none of it is words."""
    assert reason(data) is Reason.UNSUPPORTED_TYPE


def test_a_database_with_a_text_name_is_refused(tmp_path: Path) -> None:
    """Although it holds sentences."""
    with sqlite3.connect(tmp_path / "a.db") as database:
        database.execute("CREATE TABLE words (word TEXT)")
        database.execute("INSERT INTO words VALUES (?)", (SENTENCE,))
    assert reason((tmp_path / "a.db").read_bytes()) is Reason.UNSUPPORTED_TYPE


@pytest.mark.parametrize("word", ["GIF89a", "RIFF", "OggS", "ID3", "MZ", "BM", "PAR1", "BZh", "OTTO", "8BPS", "bplist"])
def test_a_text_may_begin_with_the_name_of_a_format(word: str) -> None:
    """A signature made of letters proves nothing without the bytes behind it."""
    assert read(f"{word} is how such files begin.", "a.txt").text == f"{word} is how such files begin."


MAIL = "From: a@example.org\nTo: b@example.org\nSubject: Pump\nMIME-Version: 1.0\n"


def test_encoded_mails_and_saved_pages_are_unsupported() -> None:
    """Their text is coded in parts; a plain mail is text, and so is a text about mails."""
    parts = 'Content-Type: multipart/related;\n\tboundary="x"\n\n--x\nContent-Type: text/html\n\n<p>x</p>\n--x--\n'
    for start in (MAIL, "From: <Saved by Blink>\r\n" + MAIL.replace("\n", "\r\n")):
        for key in ("a.mht", "a.eml", "a.html", "a.txt"):
            assert reason((start + parts).encode(), key) is Reason.UNSUPPORTED_TYPE
    coded = "Content-Type: text/plain\nContent-Transfer-Encoding: base64\n\n" + PICTURE
    assert reason((MAIL + coded).encode()) is Reason.UNSUPPORTED_TYPE
    plain = MAIL + "Content-Type: text/plain\n\n" + SENTENCE
    assert SENTENCE in read(plain, "a.eml").text
    assert read("About MIME:\n\n" + MAIL + parts, "a.txt").text.startswith("About MIME")


def test_office_documents_in_one_xml_file_are_unsupported() -> None:
    """Their text hides among thousands of tags."""
    for root in ("pkg:package", "w:wordDocument", "office:document"):
        page = f'<?xml version="1.0"?>\n<?mso-application progid="Word.Document"?>\n<{root}><w:t>text</w:t></{root}>'
        assert reason(page.encode(), "a.xml") is Reason.UNSUPPORTED_TYPE


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("a.csv", 'name;price\nvalve;12,5\n"seal; wide";3'), ("a.tsv", "a\tb\n1\t2"), ("a.json", '{"a": "b\\u00e9"}'),
        ("a.xml", "<list><item>valve</item></list>"), ("a.log", "2026-12-01 ERROR pump 5"), ("a.yaml", "a: 1\nb: [2]"),
        ("a.py", "def f():\n    return 1"), ("a.tex", r"\section{One} $x<y$"), ("a", "no name at all"),
    ],
)  # fmt: skip
def test_structured_text_is_read_as_it_is_written(key: str, text: str) -> None:
    """Nothing is guessed into it."""
    assert read(text, key).text == text


# Encodings


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1250", "Paweł już śpi, źle się czuł."), ("iso8859_2", "Příliš žluťoučký kůň úpěl ďábelské ódy."),
        ("cp1250", "Árvíztűrő tükörfúrógép."), ("cp1257", "Ąžuolas šalia upės žydi, čia gražu."),
        ("cp850", "Prøven ble tatt på lørdag. Måling nærme ås."), ("cp852", "Łódź płynie przez wąską rzekę."),
        ("mac_roman", "L’été à la plage, ça coûte 12 € l’entrée."), ("cp1252", "A reunião começa às três horas."),
        ("cp1254", "Türkiye'nin güneyinde çığ düştü"), ("cp1252", "Þetta er íslenska: þorn og eð, ýmis orð."),
        ("cp866", "Проверка насоса проводится каждый вторник."),
        ("cp1251", "Проверка насоса проводится каждый вторник."),
        ("iso8859_5", "Отчёт за май"), ("mac_cyrillic", "Проверка насоса проводится каждый вторник."),
        ("cp1251", "Перевірка насоса щовівторка, їжа і ґанок."),
        ("iso8859_7", "Ο έλεγχος της αντλίας γίνεται κάθε Τρίτη."),
        ("cp1255", "בדיקת המשאבה מתבצעת בכל יום שלישי."), ("cp1256", "يتم فحص المضخة كل يوم ثلاثاء."),
        ("iso8859_6", "يتم فحص المضخة كل يوم ثلاثاء."), ("cp874", "ตรวจสอบปั๊มทุกวันอังคาร"),
        ("cp932", "会議の議事録"), ("gb18030", "会议记录"), ("big5", "會議記錄"), ("cp949", "회의록을 작성했습니다"),
        ("utf-16-le", "水泵检查完成，压力正常。"), ("utf-16-be", "設備点検記録。毎週火曜日にポンプを点検します。"),
        ("utf-16-le", "Перевірка насоса щовівторка"), ("utf-32-le", "Проверка насоса"), ("utf-32-be", "水泵检查"),
    ],
)  # fmt: skip
def test_encodings_of_many_languages_are_told_apart(encoding: str, text: str) -> None:
    """One sentence is enough, and none becomes another language's."""
    assert decode_text(text.encode(encoding)) == text


def test_english_without_spaces_is_not_chinese() -> None:
    """Pairs of letters are characters of UTF-16; an even number of bytes proves nothing."""
    for text in ("Bush hid the facts", "thisisasentencewithoutspaces", "café über naïve façade", "0" * 400):
        assert decode_text(text.encode("cp1252")) == text


def test_a_wide_text_may_be_cut_but_not_change_its_encoding() -> None:
    """Half a letter at the end is lost; other bytes in the middle are damage, and have their reason."""
    for encoding in ("utf-16-le", "utf-16-be"):
        whole = "水泵检查完成，压力正常。".encode(encoding) * 400
        assert decode_text(whole[:-1]) == ("水泵检查完成，压力正常。" * 400)[:-1]
        broken = whole + b"\xd8\x00\x00\xd8" * 3 + b"\x00\xdc\xdc\x00" * 3 + b"x"
        with pytest.raises(DocumentRejected):
            decode_text(whole[:4000] + b"\xff" + broken)


# Invisible characters


@pytest.mark.parametrize(
    ("raw", "tidy"),
    [
        ("5\u00a0kW\u202f–\u2009x\u3000y", "5 kW – x y"),
        ("pass\u200cword pass\u200dword pass\ufe0fword pass\u2063word", "password password password password"),
        ("\u202eevil\u202c \u2066iso\u2069 \u200emark\u061c", "evil iso mark"),
        ("a" + "".join(chr(0xE0000 + ord(char)) for char in "IGNORE ALL") + "b", "ab"),
        ("🏴" + "".join(chr(0xE0000 + ord(char)) for char in "gbsct") + "\U000e007f ok",
        "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f ok"),
        ("☺\ufe0f❤\ufe0f\ufe01\ufe02\ufe03 1\ufe0f\u20e3 葛\U000e0100 x\U000e0101",
        "☺\ufe0f❤\ufe0f 1\ufe0f\u20e3 葛\U000e0100 x"),
        ("👩\u200d👩\u200d👧 می\u200cخواهم क्\u200dष PDF\u200cها",
         "👩\u200d👩\u200d👧 می\u200cخواهم क्\u200dष PDF\u200cها"),
        ("\x1b[31mred\x1b[0m \x1b]0;title\x07x \x1b(By", "red x y"),
        ("N\x08NA\x08AM\x08M _\x08x", "NAM x"),
        ("10%\r20%\rdone\u2028next\u0085last", "10%\n20%\ndone\nnext\nlast"),
    ],
)  # fmt: skip
def test_what_nobody_sees_is_left_out_and_what_is_seen_stays(raw: str, tidy: str) -> None:
    """Hidden prompts, bidirectional tricks and terminal colours go; emoji, flags, Persian and Hindi stay."""
    assert normalise(raw) == tidy


@pytest.mark.parametrize("mark", ["<|endoftext|>", "<|im_start|>", "</s>", "[INST]", "<<SYS>>", "###", "{{x}}"])
def test_marks_of_models_are_ordinary_text(mark: str) -> None:
    """In every text format."""
    for key in ("a.txt", "a.md", "a.csv"):
        assert read(f"Stop at {mark} and go on.", key).text == f"Stop at {mark} and go on."


# Data in the text


@pytest.mark.parametrize("key", ["a.txt", "a.md", "a.json", "a.html"])
def test_a_picture_in_the_text_is_left_out_of_every_format(key: str) -> None:
    """In one line, in several, between quotes or bare."""
    lines = "\n".join([PICTURE[:76]] * 5 + [PICTURE[:20] + "=="])
    for data in (PICTURE, PICTURE + "==", lines):
        found = read(f'Before "data:image/png;base64,{data}" between data:image/png;base64,{data} after.', key).text
        assert "iVBOR" not in found
        assert all(word in found for word in ("Before", "between", "after."))


def test_a_short_data_address_is_what_the_text_is_about() -> None:
    """And a long word without it may be the document."""
    assert read("Write data:text/plain;base64,aGk= there.", "a.txt").text == "Write data:text/plain;base64,aGk= there."
    assert read(PICTURE, "a.txt").text == PICTURE


# Markdown


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("a <b>bold</b> word<br>next <kbd>x</kbd>", "a bold word\nnext x"),
        ("<div align=center>\n<img src='x.png' alt='A pump'>\n</div>", "A pump"),
        ("<details><summary>More</summary>Inside</details>", "More\nInside"),
        ("<table><tr><td>a</td><td>b</td></tr></table>", "a  b"),
        ("<script>bad()</script>ok<style>.x{}</style> <!-- gone -->fine", "ok fine"),
        ("`<b>` and ``<i> ` </i>`` and \\<b> stay", "`<b>` and ``<i> ` </i>`` and \\<b> stay"),
        ("curl <host>:<port>, List<String>, a < b > c, <https://x.org>",
        "curl <host>:<port>, List<String>, a < b > c, <https://x.org>"),
        ("text\n\n    <b>code</b>\n    more\n\nend", "text\n\n    <b>code</b>\n    more\n\nend"),
        ("```html\n<b>code</b> <!-- c -->\n```\n<b>x</b>", "```html\n<b>code</b> <!-- c -->\n```\nx"),
        ("a &amp; b &nbsp;c &copy; &unknown; ?a=1&copy=2 `&amp;`", "a & b  c © &unknown; ?a=1&copy=2 `&amp;`"),
        ("a <!-- never closed", "a <!-- never closed"),
        ("[text](http://x.org 'title') ![alt](p.png) [r][1]\n\n[1]: http://y.org",
        "[text](http://x.org 'title') ![alt](p.png) [r][1]\n\n[1]: http://y.org"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "| a | b |\n|---|---|\n| 1 | 2 |"),
        ("* a\n  * b\n\n1. c", "* a\n  * b\n\n1. c"),
    ],
)  # fmt: skip
def test_html_in_markdown_reads_as_it_is_rendered(source: str, text: str) -> None:
    """Tags go, examples of tags stay, and the rest is Markdown as it was written."""
    assert markdown(source) == text


def test_headings_written_in_html_are_headings() -> None:
    """Most readme files begin with one."""
    found = read('<h1 align="center">\n  <img src=x> My <em>Pump</em>\n</h1>\n\ntext\n\n## Two\n\n<h2>Three</h2>')
    assert [(heading.level, heading.title) for heading in found.headings] == [(1, "My Pump"), (2, "Two"), (2, "Three")]
    assert found.properties["title"] == "My Pump"
    assert all(found.text[heading.char_start :].startswith("#") for heading in found.headings)


@pytest.mark.parametrize(
    "source",
    [
        "```\n# no\n```", "~~~\n# no\n~~~", "````\n```\n# no\n```\n````", "- item\n\n  ```\n  # no\n  ```",
        "a\n\n    # no",
        "\\# no", "#no", "####### no", "> # quoted", "```sh\n# no", "text\n\n\t# no", "`# no`", "a\n\n-\n\nb", "***",
        "| a |\n|---|", "text\n\n---\n\ntext",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_heading_is_none(source: str) -> None:
    """Code, quotes, escapes, rules, tables."""
    assert read(source).headings == ()


@pytest.mark.parametrize(
    ("source", "titles"),
    [
        ("# A #\n## B ##  \n### C", ["A", "B", "C"]), ("A\n=\n\nB\n---", ["A", "B"]), ("  # A", ["A"]),
        ("A\r\n===\r\n\r\n# B\r\n", ["A", "B"]), ("# [A](x) `b` *c* ![d](e)", ["A b c d"]),
        ("two\nlines\n===", ["two lines"]),
        ("# A &amp; B", ["A & B"]), ("#\tA", ["A"]), ("text\n# A\ntext", ["A"]), ("# Ünïcödé 漢字", ["Ünïcödé 漢字"]),
    ],
)  # fmt: skip
def test_headings_are_found_in_every_spelling(source: str, titles: list[str]) -> None:
    """Their titles read as rendered."""
    assert [heading.title for heading in read(source).headings] == titles


@pytest.mark.parametrize(
    ("head", "properties"),
    [
        ("---\ntitle: A\nauthor:\n  name: N\n---\n", {"title": "A", "author": "name: N"}),
        ("---\r\ntitle: 'It''s: \"x\"'\r\ndate: 2026-12-01\r\n...\r\n",
         {"title": "It''s: \"x\"", "date": "2026-12-01"}),
        ("\ufeff---\n# comment\ntags:\n- a\n- b\nsummary: >\n  two\n  lines\n---\n",
         {"tags": "a, b", "summary": "two, lines"}),
        ("+++\ntitle = 'T'\ntags = ['a', 'b']\n[extra]\nx = 1\n+++\n", {"title": "T", "tags": "a, b"}),
    ],
)  # fmt: skip
def test_front_matter_becomes_properties_in_every_spelling(head: str, properties: dict[str, str]) -> None:
    """And leaves the text."""
    found = read(head + "Body.")
    assert (found.text, found.properties) == ("Body.", properties)


@pytest.mark.parametrize(
    "head",
    ["---\ntitle: A\nnever closed\n\n", "---\njust a rule\n---\n", "---\n- a\n- b\n---\n",
    "+++\nnot toml at all\n+++\n",
     "---\n: x\n---\n", "text first\n---\ntitle: A\n---\n", "---\n---\n", "---\n{{ template }}\n---\n"],
)  # fmt: skip
def test_malformed_front_matter_is_text(head: str) -> None:
    """Better read than lost."""
    found = read(head + "Body.")
    assert found.text == normalise(head + "Body.")
    assert "title" not in found.properties or found.headings


@pytest.mark.parametrize(
    "piece",
    ["<!--", "<script>", "<h1>", "<b ", "`", "``x`", "[", "![](", "data:image/png;base64,", "data:a/b", "#\n",
    "- ", "> ",
     "```\n", "~~~~\n", "&", "&#", "=\n", "*", "_", "| ", "\\", "---\n", "<", "    x\n\n", "\x1b[", "\x1b]", "a\u0301",
     "[a]: data:", "\u200d", "\ufe0f", "1. ", "\x08", "data:image/png;base64," + "A" * 70 + "\n" + "B" * 70 + "\n"],
)  # fmt: skip
def test_no_repetition_takes_quadratic_time(piece: str) -> None:
    """A hostile file is read like any other; one that is read again for every piece would take hours."""
    for key in ("a.md", "a.txt", "a.html"):
        source = piece * (100_000 // len(piece))
        try:
            found = read(source, key)
        except DocumentRejected:
            continue
        assert len(found.text) <= len(source)


def test_every_json_escape_stays_what_it_was() -> None:
    """A dump of another system is quoted, not interpreted."""
    source = json.dumps({"text": "é\u200b\n<b>"})
    assert read(source, "a.json").text == source
