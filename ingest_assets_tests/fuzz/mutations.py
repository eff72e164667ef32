"""Ways to damage a document: its bytes, its lines, its tags, the parts of its package, the objects of its PDF.

What does not belong here: judging what becomes of it (worker.py). Everything is drawn from one seeded source, so that
an input is made again from its number.
"""

import re
import warnings
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from io import BytesIO
from random import Random

from lxml import etree

_SIZE_LIMIT = 400_000  # bytes of one input
_COPY_LIMIT = 3000  # bytes of an element that is copied, so that copies of copies do not pile up
_ODD_BYTES = (
    b"\x00",
    b"\xff",
    b"\xfe\xff",
    b"\xef\xbb\xbf",
    b"\x1b$B",
    b"\r",
    b"\xed\xa0\x80",
    b"\xc2",
    b"\xf0\x9f",
    b"\x80",
)
_ODD_VALUES = (b"", b"-1", b"0", b"2147483648", b"99999999999999999999", b"1e309", b"\xc3\xa9", b"%s", b"true", b"&#0;")
_MARKUP = (
    b"<", b">", b"</", b"/>", b"<!--", b"-->", b"<![CDATA[", b"]]>", b"<?xml ?>", b"&", b"&#x110000;", b"<table>",
    b"<tr>",
    b"<td>", b"<pre>", b"<svg>", b"<math>", b"<template>", b"<select>", b"<option>", b"<li>", b"<ol start=-1>", b"<h1>",
    b"<iframe srcdoc='<b>'>", b"<style>a{display:none}</style>", b"<!DOCTYPE x>", b"<w:p>", b"</w:p>", b"<w:tbl>",
    b"<w:tc>",
    b"<w:r>", b"<w:t>x</w:t>", b"<w:del>", b"<w:txbxContent>", b"<w:sym w:char='F0' w:font='Symbol'/>", b"<m:oMath>",
    b"<w:fldChar w:fldCharType='end'/>", b"<w:vMerge/>", b"<w:altChunk r:id='raFChunk'/>", b"<w:ruby>",
)  # fmt: skip
_LINES = (
    b"# x", b"---", b"===", b"```", b"~~~~", b"+++", b"> ", b"- ", b"1. ", b"    x", b"\t", b"| a |",
    b"[a]: data:x/y,z", b"`",
    b"<!--", b"data:image/png;base64,", b"title: x", b"<h1>", b"\\", b"\x1b[", b"\xe2\x80\xa8", b"\x08", b"\x0c",
)  # fmt: skip
_PDF_WORDS = (
    b"/Length", b"/Kids", b"/Parent", b"/Prev", b"/Filter", b"/FlateDecode", b"/ASCIIHexDecode", b"/Encrypt",
    b"/ToUnicode",
    b"/Contents", b"/Font", b"/Type", b"/ObjStm", b"/XRef", b"/W [1 2 1]", b"<<", b">>", b"[", b"]", b"stream",
    b"endstream",
    b"endobj", b"null", b"1 0 R", b"99999 0 R", b"BT", b"ET", b"Tj", b"(x) Tj", b"/Outlines", b"/StructTreeRoot",
)  # fmt: skip
_WORD_NAMES = (
    "p", "r", "t", "tbl", "tr", "tc", "tcPr", "vMerge", "sdt", "sdtContent", "ins", "del", "moveTo", "moveFrom",
    "pPr", "rPr",
    "txbxContent", "fldChar", "instrText", "ruby", "rt", "rubyBase", "sym", "oMath", "f", "num", "den", "d", "m",
    "mr", "nary",
    "AlternateContent", "footnote", "numPr", "abstractNum", "lvl", "numId", "style", "basedOn", "altChunk",
    "chart", "relIds",
)  # fmt: skip
_OBJECT = re.compile(rb"\d+ \d+ obj.*?endobj", re.DOTALL)
_STREAM = re.compile(rb"stream\r?\n(.*?)endstream", re.DOTALL)

Mutation = Callable[[bytes, Random], bytes]
Element = etree._Element


def mutate(data: bytes, other: bytes, kind: str, random: Random) -> bytes:
    """Return the document damaged in one to four ways; `other` is spliced in."""
    ways = [*_BYTES, *_BY_KIND[kind]] if random.random() < 0.4 else _BY_KIND[kind]
    for _ in range(random.randint(1, 4)):
        data = _splice(data, other, random) if random.random() < 0.05 else random.choice(ways)(data, random)
        data = data[:_SIZE_LIMIT]
    return data


def _span(data: bytes, random: Random, longest: int = 400) -> tuple[int, int]:
    start = random.randint(0, len(data))
    return start, min(len(data), start + random.randint(0, longest))


def _splice(data: bytes, other: bytes, random: Random) -> bytes:
    (start, end), (other_start, other_end) = _span(data, random), _span(other, random, 4000)
    return data[:start] + other[other_start:other_end] + data[end:]


def _flip(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.randint(1, 8) if changed else 0):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _cut(data: bytes, random: Random) -> bytes:
    return data[: random.randint(0, len(data))]


def _drop(data: bytes, random: Random) -> bytes:
    start, end = _span(data, random)
    return data[:start] + data[end:]


def _repeat(data: bytes, random: Random) -> bytes:
    start, end = _span(data, random, 60)
    return data[:end] + data[start:end] * random.choice((1, 2, 30, 3000)) + data[end:]


def _insert_odd(data: bytes, random: Random) -> bytes:
    place = random.randint(0, len(data))
    return data[:place] + random.choice(_ODD_BYTES) * random.choice((1, 1, 50)) + data[place:]


def _insert_random(data: bytes, random: Random) -> bytes:
    place = random.randint(0, len(data))
    return data[:place] + random.randbytes(random.randint(1, 60)) + data[place:]


def _insert_of(words: tuple[bytes, ...]) -> Mutation:
    def insert(data: bytes, random: Random) -> bytes:
        place = random.randint(0, len(data))
        return data[:place] + random.choice(words) * random.choice((1, 1, 1, 5, 2000)) + data[place:]

    return insert


def _shuffle_of(pattern: bytes) -> Mutation:
    """Return a mutation that drops, doubles, swaps or piles up pieces of a document."""
    cutter = re.compile(pattern, re.DOTALL)

    def shuffle(data: bytes, random: Random) -> bytes:
        pieces = cutter.findall(data)
        if len(pieces) < 2:
            return data
        one, two = random.randrange(len(pieces)), random.randrange(len(pieces))
        choice = random.randrange(4)
        if choice == 0:
            del pieces[min(one, two) : max(one, two) if random.random() < 0.2 else min(one, two) + 1]
        elif choice == 1:
            pieces[one], pieces[two] = pieces[two], pieces[one]
        elif choice == 2:
            pieces[one] = pieces[two]
        else:
            pieces.insert(one, pieces[two] * min(random.choice((1, 10, 1000)), 1 + _SIZE_LIMIT // len(pieces[two])))
        return b"".join(pieces)

    return shuffle


def _change_value(data: bytes, random: Random) -> bytes:
    values = list(re.finditer(rb"(?<==)\"[^\"<>]{0,200}\"|(?<=[ /=])-?\d+", data))
    if not values:
        return data
    chosen = random.choice(values)
    quote = b'"' if chosen.group().startswith(b'"') else b""
    return data[: chosen.start()] + quote + random.choice(_ODD_VALUES) + quote + data[chosen.end() :]


def _change_tree(data: bytes, random: Random) -> bytes:
    """Move, double, rename, wrap and drop elements, so that the part stays well-formed."""
    try:
        root = etree.fromstring(data)
    except etree.XMLSyntaxError:
        return data
    for _ in range(random.randint(1, 6)):
        elements = [element for element in root.iter() if isinstance(element.tag, str)]
        one, two = random.choice(elements), random.choice(elements)
        with suppress(ValueError):  # an earlier mutation made a name or a text that cannot be written
            random.choice(_TREE)(one, two, random)
    return etree.tostring(root)[:_SIZE_LIMIT]


def _double(one: Element, two: Element, random: Random) -> None:
    copies = [deepcopy(two) for _ in range(random.choice((1, 1, 20)) if len(etree.tostring(two)) < _COPY_LIMIT else 0)]
    place = random.randint(0, len(one))
    one[place:place] = copies


def _rename(one: Element, two: Element, random: Random) -> None:
    names = _WORD_NAMES if random.random() < 0.7 else (etree.QName(two).localname,)
    one.tag = f"{{{etree.QName(one).namespace or ''}}}{random.choice(names)}" if "}" in str(one.tag) else one.tag


def _wrap(one: Element, two: Element, random: Random) -> None:
    for _ in range(random.choice((1, 3, 60))):
        around = one.getparent()
        if around is None:
            return
        wrapper = etree.Element(str(two.tag))
        around.replace(one, wrapper)
        wrapper.append(one)
        one = wrapper


def _remove(one: Element, _: Element, __: Random) -> None:
    around = one.getparent()
    if around is not None:
        around.remove(one)


def _change_attribute(one: Element, two: Element, random: Random) -> None:
    for name in list(two.attrib)[:2]:
        one.set(name, random.choice(_ODD_VALUES).decode())


def _exchange_texts(one: Element, two: Element, random: Random) -> None:
    one.text, two.text = two.text, random.choice((one.text, "x" * 3000, "\U0001f600\u0301" * 9, "1", ""))


def _repack(data: bytes, random: Random) -> bytes:
    """Damage one part of a package and pack it again, in odd ways."""
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            parts = [(info.filename, archive.read(info)) for info in archive.infolist()]
    except Exception:  # noqa: BLE001 - an earlier mutation may have damaged the package already
        return _flip(data, random)
    place = random.randrange(len(parts)) if parts else 0
    for number, (name, content) in enumerate(parts):
        if number == place or name == "word/document.xml":
            parts[number] = (name, random.choice(_IN_PACKAGE)(content, random)[:_SIZE_LIMIT])
    if parts and random.random() < 0.2:
        name, content = parts.pop(place)
        renamed = random.choice(
            (name.replace("/", "\\"), name.upper(), f"/{name}", f"../{name}", "word/document.xml", "")
        )
        parts += [(renamed, content)] * random.randint(0, 2)
    buffer = BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", random.choice((0, 8, 8, 8, 12, 14))) as archive:
        warnings.simplefilter("ignore")
        for name, content in parts:
            archive.writestr(name or "x", content)
    return buffer.getvalue()


def _change_stream(data: bytes, random: Random) -> bytes:
    """Damage the inflated content of one stream of a PDF and deflate it again."""
    streams = list(_STREAM.finditer(data))
    if not streams:
        return data
    chosen = random.choice(streams)
    unpacker = zlib.decompressobj()
    try:
        content = unpacker.decompress(chosen[1], _SIZE_LIMIT)
    except zlib.error:
        return data[: chosen.start(1)] + _flip(chosen[1], random) + data[chosen.end(1) :]
    changed = zlib.compress(
        random.choice((*_BYTES, _insert_of(_PDF_WORDS), _change_value))(content, random)[:_SIZE_LIMIT]
    )
    return data[: chosen.start(1)] + changed + data[chosen.end(1) :]


def _change_object(data: bytes, random: Random) -> bytes:
    objects = list(_OBJECT.finditer(data))
    if not objects:
        return data
    chosen, other = random.choice(objects), random.choice(objects)
    body = other.group() if random.random() < 0.3 else random.choice(_WORDS_OF_PDF)(chosen.group(), random)
    return data[: chosen.start()] + body + data[chosen.end() :]


_BYTES: tuple[Mutation, ...] = (_flip, _cut, _drop, _repeat, _insert_odd, _insert_random)
_TAGS: tuple[Mutation, ...] = (_shuffle_of(rb"<[^<>]*>|[^<>]+|<|>"), _insert_of(_MARKUP), _change_value, _repeat, _drop)
_TREE: tuple[Callable[[Element, Element, Random], None], ...] = (
    _double, _rename, _wrap, _remove, _change_attribute, _exchange_texts,
)  # fmt: skip
_IN_PACKAGE: tuple[Mutation, ...] = (*[_change_tree] * 60, *_TAGS)
_WORDS_OF_PDF: tuple[Mutation, ...] = (_insert_of(_PDF_WORDS), _change_value, _drop, _shuffle_of(rb"/\w+|\s+|[^/\s]+"))
_BY_KIND: dict[str, tuple[Mutation, ...]] = {
    "pdf": (
        _change_object,
        _change_object,
        _change_stream,
        _change_value,
        _shuffle_of(rb"\d+ \d+ obj.*?endobj|.[^o]*"),
    ),
    "docx": (_repack,) * 12,
    "html": _TAGS,
    "md": (_shuffle_of(rb"[^\n]*\n|[^\n]+"), _insert_of(_LINES), _insert_of(_MARKUP), _repeat, _drop),
    "txt": (_shuffle_of(rb"[^\n ]*[\n ]|[^\n ]+"), _insert_of(_LINES), _insert_odd, _insert_random, _cut, _repeat),
}
