"""DOCX: the accepted document, once, in order; every broken or hostile package with its reason.

What does not belong here: case files (test_extract_cases.py).
"""

import zipfile
from io import BytesIO

import pytest

from ingest_assets.errors import DocumentRejected, Reason
from ingest_assets.extract import extract
from ingest_assets.records import Extracted
from ingest_assets.settings import ExtractSettings

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
R = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml"


def part(tag: str, content: str, namespace: str = W) -> str:
    """Return one XML part with this root."""
    return f'<?xml version="1.0"?><w:{tag} xmlns:w="{namespace}" xmlns:r="{R}">{content}</w:{tag}>'


def package(body: str, *, namespace: str = W, **parts: str) -> bytes:
    """Return a DOCX; further parts (styles, numbering, footnotes, header …) become related parts."""
    relations = "".join(f'<Relationship Id="r{name}" Type="{R}/{name}" Target="{name}.xml"/>' for name in parts)
    rels = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{}</Relationships>'
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "[Content_Types].xml",
            '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
            f'<Override PartName="/word/document.xml" ContentType="{WORD}.document.main+xml"/></Types>',
        )
        archive.writestr(
            "_rels/.rels", rels.format(f'<Relationship Id="a" Type="{R}/officeDocument" Target="word/document.xml"/>')
        )
        archive.writestr("word/document.xml", part("document", f"<w:body>{body}</w:body>", namespace))
        archive.writestr("word/_rels/document.xml.rels", rels.format(relations))
        for name, content in parts.items():
            archive.writestr(f"word/{name}.xml", content)
    return buffer.getvalue()


def p(text: str, properties: str = "") -> str:
    """Return a paragraph of one run."""
    return f"<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


def read(data: bytes) -> Extracted:
    """Extract with the smallest lower limit."""
    return extract(data, "a.docx", ExtractSettings(min_characters=1))


def test_headings_come_from_outline_levels_through_the_style_chain() -> None:
    """By name, by level, by base style; body text is none."""
    styles = part(
        "styles",
        '<w:style w:styleId="H1"><w:name w:val="heading 1"/></w:style>'
        '<w:style w:styleId="Own"><w:basedOn w:val="Base"/></w:style>'
        '<w:style w:styleId="Base"><w:pPr><w:outlineLvl w:val="2"/></w:pPr></w:style>'
        '<w:style w:styleId="Loop"><w:basedOn w:val="Loop"/></w:style>',
    )
    style = '<w:pStyle w:val="{}"/>'
    body = p("Top", style.format("H1")) + p("text") + p("Third", style.format("Own")) + p("loop", style.format("Loop"))
    found = read(package(body, styles=styles))
    assert [(heading.level, heading.title, heading.char_start) for heading in found.headings] == [
        (1, "Top", 0),
        (3, "Third", 11),
    ]
    assert found.text == "Top\n\ntext\n\nThird\n\nloop"


def test_lists_show_the_numbers_a_reader_sees() -> None:
    """Bullets, counters and levels."""
    levels = (
        '<w:abstractNum w:abstractNumId="7"><w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="decimal"/>'
        '<w:lvlText w:val="%1."/></w:lvl>'
        '<w:lvl w:ilvl="1"><w:start w:val="1"/><w:numFmt w:val="lowerLetter"/>'
        '<w:lvlText w:val="%1.%2)"/></w:lvl></w:abstractNum>'
        '<w:abstractNum w:abstractNumId="8"><w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/>'
        '<w:lvlText w:val="x"/></w:lvl></w:abstractNum>'
        '<w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num><w:num w:numId="2"><w:abstractNumId w:val="8"/></w:num>'
    )
    number = '<w:numPr><w:ilvl w:val="{}"/><w:numId w:val="{}"/></w:numPr>'
    items = [("one", 0, 1), ("sub", 1, 1), ("two", 0, 1), ("dot", 0, 2)]
    body = "".join(p(text, number.format(depth, list_id)) for text, depth, list_id in items)
    text = read(package(body, numbering=part("numbering", levels))).text
    assert [line.strip() for line in text.split("\n")] == ["1. one", "1.a) sub", "2. two", "- dot"]


def test_fields_links_and_controls_show_their_result() -> None:
    """Not their code."""
    body = (
        "<w:p><w:r><w:t>See </w:t></w:r><w:hyperlink><w:r><w:t>the page</w:t></w:r></w:hyperlink>"
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText> REF x </w:instrText></w:r>'
        '<w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t> 12</w:t></w:r>'
        '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
        '<w:fldSimple w:instr="DATE"><w:r><w:t>, today</w:t></w:r></w:fldSimple></w:p>'
        "<w:sdt><w:sdtPr><w:alias/></w:sdtPr><w:sdtContent>" + p("controlled") + "</w:sdtContent></w:sdt>"
        "<w:p><w:sdt><w:sdtContent><w:r><w:t>in</w:t></w:r></w:sdtContent></w:sdt><w:r><w:t>line</w:t><w:tab/><w:t>tab</w:t>"
        "<w:br/><w:t>next</w:t></w:r><w:r><w:rPr><w:vanish/></w:rPr><w:t>GONE</w:t></w:r></w:p>"
    )
    assert read(package(body)).text == "See the page 12, today\n\ncontrolled\n\ninline\ttab\nnext"


def test_notes_and_margins_come_once_and_comments_never() -> None:
    """Behind the text, in this order."""
    notes = part(
        "footnotes",
        f'<w:footnote w:type="separator">{p("--")}</w:footnote><w:footnote w:id="2">{p("A note.")}</w:footnote>',
    )
    margins = {"header": part("hdr", p("Contract no. 17 of Halden")), "footer": part("ftr", p("Page 3"))}
    body = '<w:p><w:r><w:t>Body</w:t><w:footnoteReference w:id="2"/></w:r></w:p>' + p("end")
    text = read(package(body, footnotes=notes, comments=part("comments", p("GONE")), **margins)).text
    assert text == "Body\n\nend\n\nA note.\n\nContract no. 17 of Halden"


def test_a_deleted_paragraph_end_joins_and_a_deleted_row_goes() -> None:
    """The accepted view, also of structure."""
    row = "<w:tr>{}<w:tc>" + p("cell {}") + "</w:tc><w:tc>" + p("b") + "</w:tc></w:tr>"
    body = p("One ", "<w:rPr><w:del/></w:rPr>") + p("sentence.")
    body += "<w:tbl>" + row.format("", 1) + row.format("<w:trPr><w:del/></w:trPr>", 2) + "</w:tbl>"
    assert read(package(body)).text == "One sentence.\n\ncell 1 | b"


def test_the_strict_namespace_is_read_too() -> None:
    """The same names in another namespace."""
    assert read(package(p("strict"), namespace="http://purl.oclc.org/ooxml/wordprocessingml/main")).text == "strict"


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY e "&a;&a;&a;&a;">]>',
    ],
)
def test_a_document_type_is_refused(doctype: str) -> None:
    """Neither files of ours nor expanded entities ever become text."""
    document = package(p("X"))
    with zipfile.ZipFile(BytesIO(document)) as source:
        parts = {name: source.read(name).decode() for name in source.namelist()}
    parts["word/document.xml"] = parts["word/document.xml"].replace("?><w", f"?>{doctype}<w").replace("X", "a&e;b")
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    with pytest.raises(DocumentRejected) as rejected:
        read(buffer.getvalue())
    assert rejected.value.reason is Reason.CORRUPT


def test_a_flood_of_tiny_elements_is_too_large() -> None:
    """A tree costs many times its text."""
    with pytest.raises(DocumentRejected) as rejected:
        read(package("<w:p/>" * 3_100_000))
    assert rejected.value.reason is Reason.TOO_LARGE


def test_core_properties_are_read_and_a_broken_card_does_not_hurt() -> None:
    """Title and author, where they can be read."""
    buffer = BytesIO(package(p("text")))
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr("docProps/core.xml", '<c xmlns:d="u"><d:title>T</d:title><d:creator>N</d:creator></c>')
    assert read(buffer.getvalue()).properties == {"title": "T", "author": "N"}
