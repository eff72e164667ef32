"""DOCX: what each construct of Word shows to a reader.

What does not belong here: packages that are broken or hostile (test_extract_docx_package.py), and the outline
of a document (test_extract_docx.py, which also builds the packages).
"""

import pytest

from ingest_assets_tests.test_extract_docx import p, package, part, read

MC = "http://schemas.openxmlformats.org/markup-compatibility/2006"
M = "http://schemas.openxmlformats.org/officeDocument/2006/math"


def run(text: str, properties: str = "") -> str:
    """Return a run."""
    return f"<w:r><w:rPr>{properties}</w:rPr><w:t>{text}</w:t></w:r>"


def paragraph(content: str, properties: str = "") -> str:
    """Return a paragraph of runs."""
    return f"<w:p><w:pPr>{properties}</w:pPr>{content}</w:p>"


def row(*cells: str, properties: str = "") -> str:
    """Return a table row; a cell that is no element yet becomes a paragraph."""
    filled = (cell if cell.startswith("<") else p(cell) for cell in cells)
    return f"<w:tr>{properties}{''.join(f'<w:tc>{cell}</w:tc>' for cell in filled)}</w:tr>"


def text_of(body: str, **parts: str) -> str:
    """Return the text of a document with this body."""
    return read(package(body, **parts)).text


def field(instruction: str, result: str | None = None) -> str:
    """Return a complex field; without a result it shows nothing."""
    mark = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'
    shown = "" if result is None else mark.format("separate") + result
    return mark.format("begin") + instruction + shown + mark.format("end")


def instruction(text: str) -> str:
    """Return a run of field code."""
    return f"<w:r><w:instrText>{text}</w:instrText></w:r>"


# Tracked changes


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (paragraph(f"{run('fee 1,150')}<w:del>{run('900')}<w:r><w:delText>900</w:delText></w:r></w:del>"), "fee 1,150"),
        (paragraph(f"<w:ins><w:del>{run('gone')}</w:del>{run('kept')}</w:ins>"), "kept"),
        (f"<w:moveFrom>{p('old')}</w:moveFrom>{p('middle')}<w:moveTo>{p('new')}</w:moveTo>", "middle\n\nnew"),
        (paragraph(f"<w:moveFrom>{run('old')}</w:moveFrom><w:moveTo>{run('new')}</w:moveTo>"), "new"),
        (p("Sen", "<w:rPr><w:del/></w:rPr>") + p("ten", "<w:rPr><w:del/></w:rPr>") + p("ce."), "Sentence."),
        (p("last", "<w:rPr><w:del/></w:rPr>"), "last"),
        (p("a", "<w:rPr><w:del/></w:rPr>") + f"<w:tbl>{row('x', 'y')}</w:tbl>" + p("b"), "a\n\nx | y\n\nb"),
        (p("new", "<w:rPr><w:ins/></w:rPr>") + p("next"), "new\n\nnext"),
        (f"<w:tbl>{row('<w:tcPr><w:cellDel/></w:tcPr>' + p('gone'), 'kept', 'too')}</w:tbl>", "kept | too"),
        (
            f"<w:tbl>{row(p('Sen', '<w:rPr><w:del/></w:rPr>') + p('tence'), 'b')}</w:tbl>",
            "Sentence | b",
        ),
        (f"<w:tbl><w:ins>{row('a', 'b')}</w:ins>{row('c', 'd', properties='<w:trPr><w:ins/></w:trPr>')}</w:tbl>",
         "a | b\nc | d"),
        (
            p("x", "<w:pPrChange><w:pPr><w:pStyle w:val='Heading1'/></w:pPr></w:pPrChange>"),
            "x",
        ),
        (paragraph(run("kept", "<w:rPrChange><w:rPr><w:vanish/></w:rPr></w:rPrChange>")), "kept"),
    ],
)  # fmt: skip
def test_only_the_accepted_view_is_read(body: str, text: str) -> None:
    """Insertions, deletions and moves, of words, paragraph ends, cells and rows."""
    assert text_of(body) == text


# Tables


def test_every_cell_comes_once_wherever_it_is_wrapped() -> None:
    """Merged, nested, controlled and empty cells, in the order of the page."""
    start, goes_on = '<w:tcPr><w:vMerge w:val="restart"/></w:tcPr>', "<w:tcPr><w:vMerge/></w:tcPr>"
    wide = '<w:tcPr><w:gridSpan w:val="2"/></w:tcPr>'
    inner = f"<w:tbl>{row('n1', 'n2')}{row('n3', 'n4')}</w:tbl>"
    control = "<w:sdt><w:sdtPr/><w:sdtContent>{}</w:sdtContent></w:sdt>"
    body = (
        f"<w:tbl>{row(wide + p('wide'), 'h3')}"
        f"{row(start + p('tall'), 'b', 'c')}{row(goes_on + p(''), p('e') + inner, 'f')}"
        f"{control.format(row('s1', 's2'))}"
        f"<w:tr>{control.format('<w:tc>' + p('t1') + '</w:tc>')}<w:tc>{p('t2')}</w:tc></w:tr>"
        f"{row('', 'u2', '', 'u4', '')}</w:tbl>"
    )
    assert text_of(body) == "wide | h3\ntall | b | c\ne n1 | n2; n3 | n4 | f\ns1 | s2\nt1 | t2\nu2 |  | u4"


def test_a_tall_cell_does_not_tear_the_table_apart() -> None:
    """The rows beside it stay lines of one table."""
    start, goes_on = '<w:tcPr><w:vMerge w:val="restart"/></w:tcPr>', "<w:tcPr><w:vMerge/></w:tcPr>"
    body = f"<w:tbl>{row(start + p('tall'), 'a')}{row(goes_on + p(''), 'b')}{row(goes_on + p(''), 'c')}</w:tbl>"
    assert text_of(body) == "tall | a\nb\nc"


def test_numbers_in_table_cells_are_read() -> None:
    """A numbered first column says which step it is."""
    level = '<w:lvl w:ilvl="0"><w:numFmt w:val="decimal"/><w:lvlText w:val="%1."/></w:lvl>'
    numbering = part(
        "numbering",
        f'<w:abstractNum w:abstractNumId="0">{level}</w:abstractNum>'
        '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>',
    )
    item = '<w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr>'
    body = f"<w:tbl>{row(p('Open', item), 'valve')}{row(p('Close', item), 'drain')}</w:tbl>"
    assert text_of(body, numbering=numbering) == "1. Open | valve\n2. Close | drain"


def test_deeply_nested_tables_take_no_time() -> None:
    """Each level read twice would take for ever."""
    table = p("core")
    for _ in range(60):
        table = f"<w:tbl><w:tr><w:tc><w:tcPr><w:vMerge/></w:tcPr>{table}</w:tc><w:tc>{p('')}</w:tc></w:tr></w:tbl>"
    assert text_of(table) == "core"


# Boxes, controls, fields


def test_a_text_box_comes_once_with_its_paragraphs() -> None:
    """Word writes it for itself and for old readers; boxes also stand in cells and in each other."""
    inner = f"<w:r><w:pict><w:txbxContent>{p('inner')}</w:txbxContent></w:pict></w:r>"
    box = f"<w:txbxContent>{p('Warning: box.')}{paragraph(run('second') + inner)}</w:txbxContent>"
    both = (
        f'<w:r><mc:AlternateContent xmlns:mc="{MC}"><mc:Choice Requires="wps"><w:drawing>{box}</w:drawing></mc:Choice>'
        f"<mc:Fallback><w:pict>{box}</w:pict></mc:Fallback></mc:AlternateContent></w:r>"
    )
    assert text_of(paragraph(run("Body.") + both)) == "Body.\n\nWarning: box.\n\nsecond\n\ninner"
    assert text_of(f"<w:tbl>{row(paragraph(run('Cell') + both), 'b')}</w:tbl>") == (
        "Cell Warning: box. second inner | b"
    )


def test_an_empty_choice_gives_way_to_the_fallback() -> None:
    """Some writers fill only the fallback, also around whole paragraphs and rows."""
    choices = f'<mc:AlternateContent xmlns:mc="{MC}"><mc:Choice/><mc:Fallback>{{}}</mc:Fallback></mc:AlternateContent>'
    assert text_of(choices.format(p("old"))) == "old"
    assert text_of(paragraph(choices.format(run("old")))) == "old"
    assert text_of(f"<w:tbl>{choices.format(row('a', 'b'))}</w:tbl>") == "a | b"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (run("on ") + field(instruction("DATE"), run("1 May")) + run("."), "on 1 May."),
        (run("a") + field(instruction(' XE "hidden entry" ')) + run("b"), "ab"),
        (field(instruction("IF ") + field(instruction("MERGEFIELD x"), run("INNER")) + instruction(" = 1"), run("yes")),
         "yes"),
        (field(instruction("HYPERLINK"), run("see ") + field(instruction("REF"), run("page 3"))), "see page 3"),
        ('<w:r><w:fldChar w:fldCharType="begin"/></w:r>' + instruction("TOC") + run("never closed"), "never closed"),
        ('<w:r><w:fldChar w:fldCharType="end"/></w:r>' + run("never opened"), "never opened"),
        (f'<w:fldSimple w:instr="PAGE">{run("7")}</w:fldSimple>', "7"),
        ('<w:r><w:fldChar w:fldCharType="begin"><w:ffData><w:ddList><w:result w:val="1"/><w:listEntry w:val="red"/>'
         '<w:listEntry w:val="blue"/></w:ddList></w:ffData></w:fldChar></w:r>'
         + instruction("FORMDROPDOWN") + '<w:r><w:fldChar w:fldCharType="end"/></w:r>', "blue"),
        ("<w:sdt><w:sdtPr><w:dropDownList><w:listItem w:value='no'/></w:dropDownList></w:sdtPr><w:sdtContent>"
         + run("yes") + "</w:sdtContent></w:sdt>", "yes"),
        (f'<w:hyperlink>{run("link")}</w:hyperlink><w:smartTag>{run(" tag")}</w:smartTag>', "link tag"),
    ],
)  # fmt: skip
def test_fields_show_their_results(content: str, text: str) -> None:
    """Instructions and fields inside them are not seen."""
    assert text_of(paragraph(content)) == text


# Characters


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ('<w:r><w:sym w:font="Symbol" w:char="F061"/></w:r>', "α"),
        ('<w:r><w:sym w:font="Wingdings" w:char="F0FE"/></w:r>' + run(" done"), "☑ done"),
        ('<w:r><w:sym w:font="Wingdings" w:char="F0AA"/></w:r>' + run("x"), "x"),
        ('<w:r><w:sym w:font="Arial" w:char="00B5"/></w:r>' + run("m"), "µm"),
        (run("\uf0b3", '<w:rFonts w:ascii="Symbol"/>') + run(" 5"), "≥ 5"),
        ("<w:r><w:t>co</w:t><w:softHyphen/><w:t>op</w:t><w:noBreakHyphen/><w:t>er</w:t></w:r>", "coop-er"),
        ("<w:r><w:t>a</w:t><w:br/><w:t>b</w:t><w:cr/><w:t>c</w:t><w:ptab/><w:t>d</w:t></w:r>", "a\nb\nc\td"),
        ("<w:r><w:t>split\n   over\n   lines</w:t></w:r>", "split    over    lines"),
        (run("10") + run("6", '<w:vertAlign w:val="superscript"/>') + run(" Pa"), "10^6 Pa"),
        (run("CO") + run("2", '<w:vertAlign w:val="subscript"/>') + run(" m") + run("2", "<w:vertAlign/>"), "CO2 m2"),
        ("<w:ruby><w:rubyPr/><w:rt>" + run("かん") + "</w:rt><w:rubyBase>" + run("漢") + "</w:rubyBase></w:ruby>",
         "漢(かん)"),
        (run("seen") + run("HID", "<w:vanish/>") + run(" too", '<w:vanish w:val="0"/>'), "seen too"),
    ],
)  # fmt: skip
def test_special_characters_are_read_as_they_look(content: str, text: str) -> None:
    """Symbol fonts, hyphens, breaks, powers, readings, hidden runs."""
    assert text_of(paragraph(content)) == text


def test_text_is_hidden_by_styles_too() -> None:
    """A character or paragraph style can hide, and a run can show itself again."""
    styles = part(
        "styles",
        '<w:style w:styleId="Secret"><w:rPr><w:vanish/></w:rPr></w:style>'
        '<w:style w:styleId="Own"><w:basedOn w:val="Secret"/></w:style>'
        '<w:style w:styleId="Shown"><w:basedOn w:val="Secret"/><w:rPr><w:vanish w:val="0"/></w:rPr></w:style>',
    )
    body = (
        paragraph(run("a") + run("HID", '<w:rStyle w:val="Own"/>') + run("b", '<w:rStyle w:val="Shown"/>'))
        + p("HID", '<w:pStyle w:val="Secret"/>')
        + paragraph(run("c", '<w:vanish w:val="false"/>'), '<w:pStyle w:val="Secret"/>')
    )
    assert text_of(body, styles=styles) == "ab\n\nc"


@pytest.mark.parametrize(
    ("equation", "text"),
    [
        ("<m:f><m:num><m:r><m:t>1</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f>", "1/2"),
        ("<m:sSup><m:e><m:r><m:t>x</m:t></m:r></m:e><m:sup><m:r><m:t>n+1</m:t></m:r></m:sup></m:sSup>", "x^(n+1)"),
        ("<m:sSub><m:e><m:r><m:t>a</m:t></m:r></m:e><m:sub><m:r><m:t>i</m:t></m:r></m:sub></m:sSub>", "a_i"),
        ("<m:rad><m:deg/><m:e><m:r><m:t>y</m:t></m:r></m:e></m:rad>", "√(y)"),
        ("<m:d><m:e><m:r><m:t>a</m:t></m:r></m:e><m:e><m:r><m:t>b</m:t></m:r></m:e></m:d>", "(a|b)"),
        (('<m:nary><m:naryPr><m:chr m:val="∑"/></m:naryPr><m:sub><m:r><m:t>i</m:t></m:r></m:sub><m:sup/>'
         "<m:e><m:r><m:t>x</m:t></m:r></m:e></m:nary>"), "∑_i x"),
        ("<m:r><m:rPr><m:sty/></m:rPr><m:t>E=m</m:t></m:r><w:del><m:r><m:t>GONE</m:t></m:r></w:del>", "E=m"),
        (("<m:m><m:mr><m:e><m:r><m:t>1</m:t></m:r></m:e><m:e><m:r><m:t>0</m:t></m:r></m:e></m:mr><m:mr><m:e><m:r>"
         "<m:t>0</m:t></m:r></m:e><m:e><m:r><m:t>1</m:t></m:r></m:e></m:mr></m:m>"), "1, 0; 0, 1"),
    ],
)  # fmt: skip
def test_equations_read_as_people_type_them(equation: str, text: str) -> None:
    """One half is not twelve."""
    assert text_of(f'<w:p><m:oMathPara xmlns:m="{M}"><m:oMath>{equation}</m:oMath></m:oMathPara></w:p>') == text


# Lists


def numbered(levels: str, nums: str = "", more: str = "") -> str:
    """Return a numbering part with the abstract list 0, and the list 1 on it."""
    return part(
        "numbering",
        f'<w:abstractNum w:abstractNumId="0">{levels}</w:abstractNum>{more}'
        f'<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>{nums}',
    )


def level(depth: int, style: str, label: str, more: str = "") -> str:
    """Return one level of an abstract list."""
    return (
        f'<w:lvl w:ilvl="{depth}"><w:start w:val="1"/><w:numFmt w:val="{style}"/>{more}<w:lvlText w:val="{label}"/>'
        "</w:lvl>"
    )


def item(text: str, depth: int = 0, number: int = 1) -> str:
    """Return a list item."""
    return p(text, f'<w:numPr><w:ilvl w:val="{depth}"/><w:numId w:val="{number}"/></w:numPr>')


@pytest.mark.parametrize(
    ("style", "label", "third"),
    [
        ("upperRoman", "%1.", "III."), ("lowerLetter", "(%1)", "(c)"), ("decimalZero", "%1", "03"),
        ("chineseCounting", "第%1条", "第三条"), ("russianLower", "%1)", "в)"), ("unheardOf", "%1.", "3."),
        ("decimalEnclosedCircle", "%1", "③"), ("bullet", "o", "-"),
    ],
)  # fmt: skip
def test_numbers_are_spelled_as_the_level_says(style: str, label: str, third: str) -> None:
    """Clauses are quoted by their numbers."""
    text = text_of(item("a") + item("b") + item("c"), numbering=numbered(level(0, style, label)))
    assert text.split("\n")[2] == f"{third} c"


def test_counting_follows_the_lists_of_word() -> None:
    """Restarts, overrides, legal numbering, items without text, and levels that never started."""
    levels = (
        level(0, "upperRoman", "%1.") + level(1, "decimal", "%1.%2", "<w:isLgl/>") + level(2, "decimal", "%1.%2.%3")
    )
    override = (
        '<w:num w:numId="2"><w:abstractNumId w:val="0"/><w:lvlOverride w:ilvl="0"><w:startOverride w:val="7"/>'
        "</w:lvlOverride></w:num>"
    )
    body = (
        item("a")
        + item("")
        + item("c")
        + item("d", 1)
        + item("e", 1)
        + item("f", 0, 2)
        + item("g", 2)
        + item("h", 0, 2)
    )
    lines = [line.strip() for line in text_of(body, numbering=numbered(levels, override)).split("\n")]
    assert lines == ["I. a", "III. c", "3.1 d", "3.2 e", "VII. f", "VII.1.1 g", "VIII. h"]


def test_lists_reached_through_styles_are_numbered() -> None:
    """By list styles and by the style that a level is tied to; number 0 takes an item out."""
    styles = part(
        "styles",
        '<w:style w:styleId="H2"><w:name w:val="heading 2"/><w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr>'
        "</w:style>",
    )
    levels = level(0, "decimal", "%1") + level(1, "decimal", "%1.%2", '<w:pStyle w:val="H2"/>')
    borrowed = '<w:abstractNum w:abstractNumId="5"><w:numStyleLink w:val="Mine"/></w:abstractNum>'
    number = '<w:num w:numId="5"><w:abstractNumId w:val="5"/></w:num>'
    numbering = numbered('<w:styleLink w:val="Mine"/>' + levels, number, borrowed)
    body = (
        item("One") + p("Scope", '<w:pStyle w:val="H2"/>') + item("list", 0, 5)
        + p("plain", '<w:pStyle w:val="H2"/><w:numPr><w:numId w:val="0"/></w:numPr>')
    )  # fmt: skip
    found = read(package(body, styles=styles, numbering=numbering))
    assert found.text == "1 One\n\n1.1 Scope\n\n1 list\n\nplain"
    assert [heading.title for heading in found.headings] == ["1.1 Scope", "plain"]
