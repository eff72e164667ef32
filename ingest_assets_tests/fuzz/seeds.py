"""Whole documents of each format, from which damaged ones are made.

What does not belong here: damaging them (mutations.py).
"""

from collections.abc import Callable
from pathlib import Path

from ingest_assets_tests import test_extract_docx as docx
from ingest_assets_tests import test_extract_docx_content as content

_CASES = Path(__file__).parents[1] / "cases" / "files"
_SEED_LIMIT = 200_000  # bytes: many small inputs find more than few large ones
_LEFT_OUT = ("A12", "A23", "A22", "A25")  # bombs take the time of a thousand others; broken packages stay broken
_HTML = """<!DOCTYPE html><html lang=nb><head><meta charset=utf-8><title>Pump &amp; guide</title>
<meta property=og:title content=x><style>.no{display:none} @media screen{.no.yes{display:block}}</style></head><body>
<nav><a href=/>Home</a><a href=/b>B</a></nav><main><h1>Pumps <em>all</em></h1><p class=no>x<p>Text <b>bold</b>s<br>next
<ol start=3 type=i reversed><li value=9>one<ul><li>two</ul></ol><table><caption>c</caption>
<tr><th>a<th>b<tr><td rowspan=2>1
<td><table><tr><td>2</table></table><pre>  code
    more</pre><select><option>a<option selected>b</select><input value=v><textarea>t</textarea>
<img src=data:image/png;base64,AAAA
alt=picture><math><mfrac><mn>1</mn><mn>2</mn></mfrac></math><svg><text>s</text></svg><ruby>a<rt>b</rt></ruby>
<iframe srcdoc="&lt;p&gt;inside"></iframe><template shadowrootmode=open><p>shadow</template>
<details><summary>s</summary>d
</details><!-- c --><script>x</script><noscript>n</noscript>&#150;&notit;&#x110000;</main></body></html>"""
_XHTML = (
    '<?xml version="1.0" encoding="iso-8859-1"?><html xmlns="http://www.w3.org/1999/xhtml"><body>'
    "<p/><![CDATA[a<b]]></body></html>"
)
_MARKDOWN = """---
title: "A: b"
tags: [x, y]
---
# One `x`

Two *b*
---

```py
# no
```

- a
  1. b [l](x "t") ![i](data:image/png;base64,AAAA)

> quote <b>bold</b> <!-- c --> &amp; <h2>Three</h2>

| a | b |
|---|---|
| 1 | 2 |

[r]: data:image/gif;base64,BBBB
"""
_SENTENCES = (
    ("Der Prüfbericht ist größer als üblich.", "cp1252"), ("Проверка насоса", "koi8_r"), ("設備点検記録。", "cp932"),
    ("水泵检查完成", "gb18030"), ("水泵检查。 ok", "utf-16-le"), ("plain text", "utf-32"), ("매주 화요일에", "cp949"),
    ("👩\u200d👧 \x1b[31mred\x1b[0m a\u0301 🏴\U000e0067\U000e007f", "utf-8"), ("設備点検記録", "iso2022_jp"),
)  # fmt: skip


def seeds(kind: str) -> list[tuple[str, bytes]]:
    """Return (key, content) of every seed of a format: pdf, docx, html, md, txt."""
    files = sorted(path for path in _CASES.iterdir() if path.suffix == f".{kind}")
    small = [path for path in files if path.stat().st_size < _SEED_LIMIT and not path.name.startswith(_LEFT_OUT)]
    cases = [(path.name, path.read_bytes()) for path in small]
    made = _MADE.get(kind, list)()
    return [*cases, *((f"made-{number}.{kind}", data) for number, data in enumerate(made))]


def _word_documents() -> list[bytes]:
    row = content.row
    levels = content.level(0, "decimal", "%1.") + content.level(1, "lowerRoman", "%1.%2")
    table = f"<w:tbl>{row('a', 'b')}{row('<w:tcPr><w:vMerge/></w:tcPr>' + docx.p('c'), 'd')}</w:tbl>"
    fields = content.field(content.instruction("REF x"), content.run("result"))
    body = (
        docx.p("Title", '<w:pStyle w:val="Heading1"/>') + content.item("one") + content.item("two", 1) + table
        + content.paragraph(content.run("10") + content.run("6", '<w:vertAlign w:val="superscript"/>') + fields)
        + docx.p("de", "<w:rPr><w:del/></w:rPr>") + docx.p("leted", '<w:numPr><w:numId w:val="1"/></w:numPr>')
        + f'<w:p><m:oMath xmlns:m="{content.M}"><m:f><m:num><m:r><m:t>1</m:t></m:r></m:num><m:den/></m:f></m:oMath>'
        + "</w:p>"
        + '<w:altChunk r:id="raFChunk"/>'
    )  # fmt: skip
    notes = docx.part("footnotes", f'<w:footnote w:id="2">{docx.p("A note.")}</w:footnote>')
    return [docx.package(body, numbering=content.numbered(levels), footnotes=notes, aFChunk=_HTML)]


_MADE: dict[str, Callable[[], list[bytes]]] = {
    "docx": _word_documents,
    "html": lambda: [_HTML.encode(), _HTML.encode("utf-16"), _XHTML.encode("latin-1")],
    "md": lambda: [_MARKDOWN.encode(), _MARKDOWN.replace("\n", "\r\n").encode("utf-16")],
    "txt": lambda: [(text * 3).encode(encoding) for text, encoding in _SENTENCES],
}
