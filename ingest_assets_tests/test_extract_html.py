"""HTML: what a reader sees, in order, in every charset.

What does not belong here: case files (test_extract_cases.py).
"""

import pytest

from ingest_assets.errors import DocumentRejected, Reason
from ingest_assets.extract import extract
from ingest_assets.records import Extracted
from ingest_assets.settings import ExtractSettings

SETTINGS = ExtractSettings(min_characters=1)


def read(body: str, head: str = "") -> Extracted:
    """Extract a page made of this body."""
    page = f"<!DOCTYPE html><html lang=nb><head><meta charset=utf-8>{head}</head><body>{body}</body></html>"
    return extract(page.encode(), "page.html", SETTINGS)


@pytest.mark.parametrize(
    "hidden",
    [
        "<p hidden>GONE</p>",
        "<div style='color:red; display : none'><p>GONE</p></div>",
        "<span style='visibility:hidden'>GONE</span>",
        "<script>GONE</script><style>GONE</style><template>GONE</template><noscript>GONE</noscript>",
        "<!-- GONE --><dialog>GONE</dialog><iframe>GONE</iframe><svg><title>GONE</title></svg>",
        "<img src='data:image/png;base64,GONE'><a href='data:text/plain,GONE'></a>",
    ],
)
def test_what_a_reader_does_not_see_is_left_out(hidden: str) -> None:
    """And what stands around it stays."""
    assert read(f"<p>before</p>{hidden}<p>after</p>").text == "before\n\nafter"


def test_blocks_separate_words_and_inline_elements_do_not() -> None:
    """Neither HomeText nor pump s."""
    text = read("<div>Home</div><div>Text of the <b>pump</b><i>s</i><br>next<wbr>line</div> <p> a\n  b </p>").text
    assert text == "Home\nText of the pumps\nnextline\n\na b"


def test_lists_keep_their_markers() -> None:
    """Numbers too, from where the list starts."""
    text = read("<ul><li>one<li><p>two</p><ol start=3><li>x<li>y</ol></ul><p>end").text
    assert text.replace("  ", "") == "- one\n- two\n3. x\n4. y\n\nend"


def test_table_rows_are_lines_and_cells_are_separated() -> None:
    """A row must read as a row."""
    table = (
        "<table><caption>Parts</caption><tr><th>Part<th>Price<tr><td><p>Valve</p><td>12<br>EUR<tr><td>Seal<td></table>"
    )
    assert read(table).text == "Parts\nPart | Price\nValve | 12 EUR\nSeal"


def test_a_layout_table_does_not_become_one_line() -> None:
    """Old pages are made of tables."""
    found = read("<table><tr><td><h1>Title</h1><p>First.</p><p>Second.</p></td></tr></table>")
    assert found.text == "Title\n\nFirst.\n\nSecond."
    assert found.headings[0].title == "Title"


def test_headings_stand_where_they_say() -> None:
    """Levels and positions, in text order."""
    found = read("<h1>A <em>title</em></h1><p>x</p><section><h3>Deeper\n part</h3><p>y</p></section>")
    assert [(heading.level, heading.title) for heading in found.headings] == [(1, "A title"), (3, "Deeper part")]
    assert all(found.text[heading.char_start :].startswith(heading.title) for heading in found.headings)


def test_preformatted_text_keeps_its_shape() -> None:
    """Code is unreadable without its blanks."""
    assert read("<p>x</p><pre>def f():\n    return  1\n</pre>").text == "x\n\ndef f():\n    return  1"


def test_properties_come_from_the_head() -> None:
    """Title, description, author and language."""
    head = "<title>Pump &amp; guide</title><meta name=Description content='How to'><meta name=author content='N. N.'>"
    assert read("<p>text</p>", head).properties == {
        "title": "Pump & guide", "description": "How to", "author": "N. N.", "language": "nb"
    }  # fmt: skip


def test_character_references_are_read_as_browsers_read_them() -> None:
    """Windows numbers, missing semicolons, references to nothing."""
    assert read("<p>&#150; &#x80;5 &eacute &notit; &amp;lt; &#0;x</p>").text == "– €5 é ¬it; &lt; \ufffdx"


def test_xhtml_keeps_what_stands_behind_a_closed_script() -> None:
    """An HTML parser takes <script/> for an open one and loses the page."""
    page = (
        '<?xml version="1.0" encoding="iso-8859-1"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title/>'
        '<script src="x.js"/></head><body><p>Første</p><div/><![CDATA[a < b]]></body></html>'
    )
    assert extract(page.encode("latin-1"), "page.xhtml", SETTINGS).text == "Første\n\na < b"


@pytest.mark.parametrize(
    ("label", "encoding", "words"),
    [
        ("windows-1251", "cp1251", "Проверка насоса"),
        ("koi8-r", "koi8_r", "Проверка насоса"),
        ("euc-kr", "cp949", "펌프 점검"),
        ("big5", "big5", "檢查壓力"),
        ("gb2312", "gb18030", "检查压力"),
        ("euc-jp", "euc_jp", "点検報告"),
        ("iso-2022-jp", "iso2022_jp", "点検報告"),
        ("latin1", "cp1252", "“naïve”"),
        ("x-sjis", "cp932", "点検①"),
        ("nonsense", "cp1252", "naïve"),
        ("utf-16", "utf-8", "naïve"),
        ("iso-8859-2", "iso8859_2", "Łódź"),
    ],
)
def test_a_declared_charset_is_believed(label: str, encoding: str, words: str) -> None:
    """In the meaning the web gives it."""
    page = f'<html><head><meta http-equiv=content-type content="text/html; charset={label}"></head><p>{words} ok</p>'
    assert extract(page.encode(encoding), "page.html", SETTINGS).text == f"{words} ok"


def test_a_page_that_is_only_a_shell_is_empty() -> None:
    """A client-rendered page has no text of its own."""
    with pytest.raises(DocumentRejected) as rejected:
        extract(b"<html><body><div id=root></div><script>x</script></body></html>", "a.html", ExtractSettings())
    assert rejected.value.reason is Reason.EMPTY_DOCUMENT


def test_deep_nesting_costs_neither_text_nor_the_stack() -> None:
    """Every kind of element, deeper than any recursion."""
    for tag in ("div", "span", "b", "table><tr><td", "ul><li", "blockquote"):
        assert "deep end" in read(f"<{tag}>" * 3000 + "deep end").text
