"""HTML: what each construct shows to a reader, and what is around the main content.

What does not belong here: charsets and whole pages (test_extract_html.py).
"""

import pytest

from ingest_assets.errors import DocumentRejected, Reason
from ingest_assets.extract import extract
from ingest_assets.records import Extracted
from ingest_assets.settings import ExtractSettings
from ingest_assets_tests.test_extract_html import SETTINGS, read

MAIN = ExtractSettings(min_characters=1, main_content=True)


@pytest.mark.parametrize(
    ("style", "body"),
    [
        (".no{display:none}", "<p class='a no'>GONE</p>"), ("#no { display : none !important }", "<p id=no>GONE</p>"),
        ("p.no, .other{visibility:hidden}", "<p class=no>GONE</p>"),
        ("/* x{ */ .no{color:red;display:NONE}", "<p class=no>GONE</p>"),
        ("aside{display:none}", "<aside>GONE</aside>"),
        (".a{display:block}.a.b{display:none}", "<p class='b a'>GONE</p>"),
        ("@media print{p{display:block}} .no{display:none}", "<div class=no>GONE</div>"),
        ("@charset 'x';@import 'y';.no{display:none}", "<p class=no>GONE</p>"), ("", "<div popover>GONE</div>"),
        ("", "<p style='VISIBILITY: hidden'>GONE</p>"), ("", "<p style='color:red;display:none!important'>GONE</p>"),
        ("", "<object>GONE</object><video>GONE</video><audio>GONE</audio>"),
        ("", "<canvas>GONE</canvas><noframes>GONE</noframes>"),
        ("", "<math><semantics><annotation>GONE</annotation></semantics></math>"),
        ("", "<svg><desc>GONE</desc><defs><text>GONE</text></defs></svg>"),
        ("", "<!--[if IE]><p>GONE</p><![endif]--><datalist><option>GONE</datalist><input type=hidden value=GONE>"),
        ("", "<input type=password value=GONE><input type=checkbox value=GONE>"),
        ("", "<img src=x alt=''><img src=x alt=GONE width=1>"),
    ],
)  # fmt: skip
def test_what_is_hidden_is_left_out(style: str, body: str) -> None:
    """By attributes, inline styles, the page's own rules, and by what elements are."""
    assert read(f"<p>before</p>{body}<p>after</p>", f"<style>{style}</style>").text == "before\n\nafter"


@pytest.mark.parametrize(
    ("style", "body"),
    [
        (".no{display:none}.no.open{display:block}", "<p class='no open'>SEEN</p>"),
        (".no{display:none}", "<p class=no style='display:block'>SEEN</p>"),
        (".no{display:none}", "<p class=NO>SEEN</p>"),
        (".js .no{display:none}", "<p class=no>SEEN</p>"), (".no:hover{display:none}", "<p class=no>SEEN</p>"),
        (".no{display:none}@media (min-width:9px){.no{display:flex}}", "<p class=no>SEEN</p>"),
        ("@media print{.no{display:none}}", "<p class=no>SEEN</p>"), ("body{display:none}", "<p>SEEN</p>"),
        (".no{display:none}.no{display:inherit}", "<p class=no>SEEN</p>"), ("p{display:none", "<p>SEEN</p>"),
        (".no{display:none !important}#x{display:block !important}", "<p class=no id=x>SEEN</p>"),
        ("", "<p aria-hidden=true>SEEN</p>"), ("", "<p hidden=until-found>SEEN</p>"),
        ("", "<dialog open>SEEN</dialog>"),
        ("", "<details>SEEN</details>"), ("", "<![if !IE]><p>SEEN</p><![endif]>"), ("", "<p class=sr-only>SEEN</p>"),
        ("", "<iframe srcdoc='&lt;p>SEEN&lt;/p>'></iframe>"),
        ("", "<div><template shadowrootmode=open><p>SEEN</p></template></div>"),
        ("", "<textarea>SEEN</textarea>"),
        ("", "<button>SEEN</button>"), ("", "<img src=x alt=SEEN>"), ("", "<input value=SEEN>"),
        ("", "<input type=submit value=SEEN>"),
    ],
)  # fmt: skip
def test_what_is_seen_is_kept(style: str, body: str) -> None:
    """Where a rule may not apply, or shows the element again, it stays."""
    assert "SEEN" in read(f"<p>before</p>{body}<p>after</p>", f"<style>{style}</style>").text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<p>a<span>b</span><em>c</em><wbr>d&shy;e<u>f</u></p>", "abcdef"),
        ("<p>one<p>two<div>three</div>four<section>five</section>", "one\n\ntwo\n\nthree\nfour\n\nfive"),
        ("<span style='display:block'>a</span><span style='display:block'>b</span>", "a\nb"),
        ("<a href=/>Home</a><a href=/b>About</a>", "Home About"), ("<b>x</b><a>y</a>z", "xyz"),
        ("<label>Name</label><input value=Ada><button>Send</button><button>Stop</button>", "Name Ada Send Stop"),
        ("Country<select><option>Chad<option selected>Chile<option>China</select>!", "Country Chile !"),
        ("<select multiple><option>a<option>b</select>", "a b"), ("<select><option>first<option>no</select>", "first"),
        ("text<img src=x alt='A pump'>text", "text A pump text"), ("<q>said</q>", "“said”"),
        ("10<sup>6</sup> m<sup>2</sup> CO<sub>2</sub> 3<sup>rd</sup> x<sup>-1</sup>", "10^6 m2 CO2 3rd x-1"),
        ("<ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp></ruby>", "漢(kan)"),
        ("<svg><text>one</text><text>two<tspan>s</tspan></text></svg>", "one\ntwos"),
        ("<math><mfrac><mn>1</mn><mn>2</mn></mfrac></math>", "1/2"),
        ("<math><msup><mi>x</mi><mn>2</mn></msup></math>", "x^2"),
        ("<math><msup><mi>e</mi><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow></msup></math>", "e^(a+b)"),
        ("<math><msqrt><mi>y</mi></msqrt><msubsup><mi>a</mi><mi>i</mi><mn>2</mn></msubsup></math>", "√(y)a_i^2"),
        ("<ol type=a start=3><li>x<li>y</ol><ol reversed><li>p<li>q</ol><ol type=I><li value=4>z</ol>",
         "c. x\nd. y\n\n2. p\n1. q\n\nIV. z"),
        ("<dl><dt>Term<dd>Meaning</dl>", "Term\nMeaning"), ("a<br>b<br/>c", "a\nb\nc"),
        ("<p>| not a row |</p>", "| not a row |"),
        ("<pre>    a\n      b\n\n    c</pre>", "a\n  b\n\nc"),
        ("<div style='white-space: pre-wrap'>a\n  b</div>", "a\n  b"),
        ("<p>a\n   b\t c</p>", "a b c"), ("<p>a&nbsp;b&ensp;c&zwnj;d</p>", "a b cd"), ("<summary>s</summary>d", "s\nd"),
        ("<p>unclosed <b>bold <i>both</b> end", "unclosed bold both end"), ("<p>1 < 2 & 3 > 2</p>", "1 < 2 & 3 > 2"),
        ("<table><tr><td>a</td></tr><tr><td colspan=2>b</td><td></td><td>c</td></tr></table>", "a\nb | | c"),
        ("<table><tr><td rowspan=2>tall<td>1<tr><td>2</table>", "tall | 1\n2"),
        ("<table><thead><tr><th>h</thead><tbody><tr><td><ul><li>x<li>y</ul></table>", "h\nx y"),
        ("<h2>A<br>b</h2>", "A\nb"), ("<a><div>block</div></a><a><div>link</div></a>", "block\nlink"),
    ],
)  # fmt: skip
def test_words_are_neither_glued_nor_split(body: str, text: str) -> None:
    """Blocks, lists, tables, forms, formulas, code."""
    assert read(body).text == text


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("&#128;&#x99;", "€™"), ("&#xD800;|&#x110000;|&#0;", "\ufffd|\ufffd|\ufffd"), ("&amp;amp;", "&amp;"),
        ("&lt&gt", "<>"),
        ("&notin;&notit;", "∉¬it;"), ("&unknown;", "&unknown;"), ("&ampx", "&x"), ("&#99999999999;", "\ufffd"),
        ("&Aacute", "Á"),
    ],
)  # fmt: skip
def test_references_are_read_as_browsers_read_them(reference: str, text: str) -> None:
    """Also those that refer to nothing."""
    assert read(f"<p>x{reference}y").text == f"x{text}y"


def test_declarations_of_a_page_become_properties() -> None:
    """Open Graph and Dublin Core too; of equal names the first counts, and pictures do not."""
    head = (
        "<title>T\n t</title><meta property=og:title content=O><meta name=keywords content='a, b'>"
        "<meta name=DC.creator content=N><meta name=author content=A><meta name=author content=B>"
        "<meta property=og:image content='data:image/png;base64,AA'>"
        "<meta name=viewport content=x><meta name=description content=''>"
    )
    assert read("<p>text", head).properties == {
        "title": "T t", "og:title": "O", "keywords": "a, b", "dc.creator": "N", "author": "A", "language": "nb"
    }  # fmt: skip


def test_pages_inside_a_page_are_read_in_their_place_and_not_for_ever() -> None:
    """With their headings; a page that holds itself ends."""
    found = read("<p>a</p><iframe srcdoc='&lt;h2&gt;Inside&lt;/h2&gt;x'></iframe><p>b</p>")
    assert found.text == "a\n\nInside\n\nx\n\nb"
    assert [(heading.title, heading.char_start) for heading in found.headings] == [("Inside", 3)]
    page = "end"
    for _ in range(8):
        page = (
            "<iframe srcdoc='" + page.replace("&", "&amp;").replace("'", "&#39;").replace("<", "&lt;") + "'></iframe>x"
        )
    assert read(page).text == "x\n\nx\n\nx\n\nx"


PAGE = """<header>Company <a href=/>Home</a></header><nav><a>One</a><a>Two</a></nav>
<div class="cookie-banner">We use cookies <button>Accept</button></div>
<div id=side><ul><li><a>Alpha</a><li><a>Beta</a><li><a>Gamma</a></ul></div><aside>Advertisement</aside>
<main><article><header><h1>Title</h1>By N. N.</header><p>{}</p><ul><li><a>Ref 1</a><li><a>Ref 2</a><li><a>Ref 3</a></ul>
<footer>Note</footer></article></main><footer>Imprint</footer>"""
LONG = "The content of this page is long enough to stand alone. " * 6


def main_text(body: str) -> Extracted:
    """Extract only the main content of a page."""
    return extract(f"<!DOCTYPE html><body>{body}".encode(), "a.html", MAIN)


def test_everything_is_read_unless_only_the_main_content_is_wanted() -> None:
    """Menus and banners are text of the page; with the setting they go, and what belongs to the article stays."""
    whole = read(PAGE.format(LONG)).text
    assert all(
        word in whole for word in ("Company", "One Two", "cookies", "Alpha", "Advertisement", "Title", "Imprint")
    )
    found = main_text(PAGE.format(LONG))
    assert found.text.replace("\n\n", "\n") == f"Title\nBy N. N.\n{LONG.strip()}\n- Ref 1\n- Ref 2\n- Ref 3\nNote"
    assert [heading.title for heading in found.headings] == ["Title"]


@pytest.mark.parametrize(
    "body",
    [
        f"<header><h1>Title</h1></header><p>{LONG}", f"<div role=banner><h1>Title</h1></div><p>{LONG}",
        f"<h1>Title</h1><ul><li>a <a>l</a></ul>{LONG}",
        f"<form><h1>Title</h1>{LONG}</form>", f"<section><h1>Title</h1><a>1</a><a>2</a><a>3</a></section>{LONG}",
        f"<div class=cookies-recipes><h1>Title</h1>{LONG}</div>", f"<dialog open>x</dialog><h1>Title</h1>{LONG}",
    ],
)  # fmt: skip
def test_a_block_with_the_title_is_content(body: str) -> None:
    """Whatever it is called."""
    assert "Title" in main_text(body).text


def test_a_page_that_is_nothing_but_surroundings_is_read_whole() -> None:
    """A wrong guess must not lose a document."""
    assert main_text("<nav>Only a menu, but it is all there is.</nav>").text == "Only a menu, but it is all there is."
    assert main_text("<ul><li><a>a</a><li><a>b</a><li><a>c</a></ul>").text == "- a\n- b\n- c"


@pytest.mark.parametrize("page", ["<!---->" * 60 + "<p>x", "<!-- a -- b --->\n<!DOCTYPE\nhtml><p>x",
"<!doctype svg><html><p>x",
                                  "\ufeff <?xml version='1.0'?><!-- c --><html><p>x", "<HEAD></HEAD>x",
                                  "<body>x"])  # fmt: skip
def test_a_page_is_known_by_its_beginning(page: str) -> None:
    """Comments, declarations and case; a row of comments must not take exponential time."""
    found = extract(page.encode(), "no-name", SETTINGS)
    assert found.text.endswith("x")
    assert found.media_type == ("text/plain" if page.startswith("<!---->") else "text/html")


@pytest.mark.parametrize(
    ("declared", "encoding", "text"),
    [
        (None, "cp932", "設備点検記録。毎週火曜日"), (None, "koi8_r", "Проверка насоса проводится"),
        (None, "cp1252", "“naïve” café"),
        ("utf-8", "cp1252", "naïve café"), ("utf-8", "cp932", "設備点検記録。毎週火曜日"),
        ("shift_jis", "euc_jp", "設備点検記録。毎週火曜日"),
        ("gb2312", "big5", "管理員每天早上八點檢查所有水泵的壓力。"), ("iso-8859-1", "utf-8", "naïve 設備"),
        ("windows-1252", "utf-16", "naïve"),
        ("iso-8859-8-i", "iso8859_8", "שלום"), ("x-mac-cyrillic", "mac_cyrillic", "Проверка"),
        ("utf-7", "cp1252", "café"),
        ("windows-1251", "cp1251", "Это"), ("windows-874", "cp874", "สวัสดี"), ("utf-16le", "utf-8", "naïve"),
        ("rot13", "utf-8", "plain"),
    ],
)  # fmt: skip
def test_a_wrong_or_missing_charset_does_not_make_mojibake(declared: str | None, encoding: str, text: str) -> None:
    """The bytes have the last word."""
    meta = f"<meta charset={declared}>" if declared else ""
    page = f"<!doctype html><html>{meta}<p>{text} ok</p>"
    assert extract(page.encode(encoding), "page.html", SETTINGS).text == f"{text} ok"


def test_lists_in_lists_take_the_room_of_their_words() -> None:
    """Indenting every level by two would make megabytes of blanks."""
    assert len(read("<ol><li>x" * 3000).text) < 3000 * 30


def test_frames_and_shells_are_empty_documents() -> None:
    """Their text is elsewhere."""
    for page in ("<frameset><frame src=a><noframes>no frames here, sorry</noframes></frameset>",
                 "<body><noscript>You need to enable JavaScript.</noscript><div id=root></div>"):  # fmt: skip
        with pytest.raises(DocumentRejected) as rejected:
            extract(f"<!doctype html><html>{page}</html>".encode(), "a.html", ExtractSettings())
        assert rejected.value.reason is Reason.EMPTY_DOCUMENT


@pytest.mark.parametrize("piece", ["<div>", "</p>", "<table>", "<tr><td>", "<a>x", "<b><i>", "<svg>",
"<math><mfrac>", "<template>",
                                   "<select><option>", "<p class=no>x", "<iframe srcdoc=x>", "<li>", "<!-- -->",
                                   "<![CDATA[", "<x-y>",
                                   "<template shadowrootmode=open>", "<a/>", "<img alt=x>", "<sup>1",
                                   "<ruby><rt>"])  # fmt: skip
def test_no_page_takes_quadratic_time(piece: str) -> None:
    """Depth and repetition cost their length only, also with style rules and in search of the main content."""
    head = "<?xml version='1.0'?><html><style>.no{display:none}.no.x{display:block}</style><body>"
    for settings in (SETTINGS, MAIN):
        found = extract(f"{head}before{piece * 5_000}".encode(), "a.html", settings)
        assert found.text.startswith("before")
