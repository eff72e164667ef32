"""Long documents of every kind, made from what every machine with this project has: no network, no files in the tree.

What does not belong here: edits and measurements. The same seed gives the same documents on the same installation.
"""

import base64
import inspect
import pydoc
import random
import re
import sysconfig
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

from ingest_assets.extract import extract
from ingest_assets.records import Extracted, Heading
from ingest_assets.settings import ExtractSettings

CHARACTERS = 170_000  # of one document: more than 100 chunks
SITE_PACKAGES = Path(sysconfig.get_paths()["purelib"])
STANDARD_LIBRARY = Path(inspect.getfile(inspect)).parent
MODULES = [
    "argparse", "asyncio", "collections", "datetime", "decimal", "difflib", "email.message", "http.client", "inspect",
    "logging", "os", "pathlib", "pickle", "re", "socket", "ssl", "statistics", "string", "subprocess", "tarfile",
    "threading", "turtle", "typing", "unittest", "urllib.request", "xml.dom.minidom", "zipfile",
]  # fmt: skip


def documents(kind: str, count: int, chance: random.Random) -> list[Extracted]:
    """Return `count` long documents of one of `KINDS`."""
    return [KINDS[kind](chance) for _ in range(count)]


def _plain(text: str, headings: tuple[Heading, ...] = ()) -> Extracted:
    return Extracted(text.strip(), "text/plain", headings=headings)


def _descriptions(chance: random.Random) -> Iterator[str]:
    """Yield the long descriptions and licences of installed packages, each text once."""
    files = sorted(path for path in SITE_PACKAGES.glob("*.dist-info/**/*") if path.is_file())
    files = [path for path in files if path.name == "METADATA" or "licenses" in path.parts]
    chance.shuffle(files)
    seen = set()
    for path in files:
        text = path.read_text("utf-8", "replace").replace("\r\n", "\n")
        body = text.partition("\n\n")[2] if path.name == "METADATA" else text
        if len(body) > 500 and body[:2000] not in seen and path.stat().st_size < 100_000:
            seen.add(body[:2000])
            yield body.strip()


def _up_to_length(parts: Iterator[str], between: str) -> str:
    taken, size = [], 0
    for part in parts:
        taken.append(part)
        size += len(part)
        if size > CHARACTERS:
            break
    return between.join(taken)


def _prose(chance: random.Random) -> Extracted:
    text = _up_to_length(_descriptions(chance), "\n\n")
    marks = re.finditer(r"^(#{1,6}) (.+)$", text, re.MULTILINE)
    return _plain(text, tuple(Heading(len(mark[1]), mark[2], mark.start()) for mark in marks))


def _html(chance: random.Random) -> Extracted:
    names = chance.sample(MODULES, 8)
    pages = (pydoc.html.document(pydoc.locate(name), name) for name in names)
    html = "".join(f"<h1>{name}</h1>{page}" for name, page in zip(names, pages, strict=True))
    found = extract(f"<html><body>{html}</body></html>".encode(), "reference.html", ExtractSettings())
    text = found.text[:CHARACTERS].rstrip()
    return _plain(text, tuple(heading for heading in found.headings if heading.char_start < len(text)))


def _pdf(chance: random.Random) -> Extracted:
    words = _up_to_length(_descriptions(chance), "\n").split()
    return _plain("\n".join(textwrap.wrap(" ".join(words), chance.choice((72, 80, 95)))))


def _code(chance: random.Random) -> Extracted:
    files = [path for path in sorted(STANDARD_LIBRARY.glob("*.py")) if path.stat().st_size > 10_000]
    chance.shuffle(files)
    return _plain(_up_to_length((path.read_text("utf-8", "replace") for path in files), "\n\n\n"))


EVENTS = (
    "connection from {} accepted", "request {} finished with status 200", "cache miss for user:{}", "worker {} idle",
    "retrying upload of part {}", "disk usage at {} of 1000 units", "session {} closed by peer", "heartbeat",
)  # fmt: skip


def _log(chance: random.Random) -> Extracted:
    def lines() -> Iterator[str]:
        clock = chance.randrange(10**6)
        while True:
            clock += chance.randrange(40)
            hour, minute, second = clock // 3600 % 24, clock // 60 % 60, clock % 60
            level = chance.choices(("INFO", "DEBUG", "WARNING"), (6, 3, 1))[0]
            event = chance.choice(EVENTS).format(chance.randrange(1000))
            day = clock // 86400 % 28 + 1
            yield f"2024-03-{day:02} {hour:02}:{minute:02}:{second:02} {level} pump[{clock % 7}]: {event}"

    return _plain(_up_to_length(lines(), "\n"))


def _repeating_log(chance: random.Random) -> Extracted:
    """Return a log without times: long runs of one line, with something else now and then."""

    def lines() -> Iterator[str]:
        while True:
            usual = chance.choice(EVENTS).format(chance.randrange(9))
            for _ in range(int(chance.expovariate(1 / 60)) + 1):
                yield f"INFO {usual}" if chance.random() < 0.97 else f"WARNING {chance.choice(EVENTS)}"

    return _plain(_up_to_length(lines(), "\n"))


def _csv(chance: random.Random) -> Extracted:
    names = ("Ada", "Ben", "Chloé", "Dmitri", "Eva", "Femi", "Grace", "Hugo", "Ines", "Jun", "Kofi", "Lena")

    def lines() -> Iterator[str]:
        yield "id,name,station,reading,unit,checked"
        for number in range(1, 10**6):
            reading = f"{chance.gauss(50, 20):.2f}"
            station, is_checked = f"S-{chance.randrange(40):03}", chance.choice(("yes", "no"))
            yield f"{number},{chance.choice(names)},{station},{reading},kPa,{is_checked}"

    return _plain(_up_to_length(lines(), "\n"))


def _chinese(chance: random.Random) -> Extracted:
    """Return sentences of words that follow one another with habits, in paragraphs of very different lengths."""
    characters = (
        "管理员每天早上八点检查所有水泵的压力并记录在日志里工程师发现过滤器需要更换城市供水"
        "系统由三座水库组成夏季用量增加时泵站会自动启动备用机组数据中心把结果发送给值班人员"
    )
    words = ["".join(chance.choices(characters, k=chance.choice((1, 2, 2, 2, 3)))) for _ in range(600)]
    after = {word: chance.choices(words, k=9) for word in words}

    def paragraphs() -> Iterator[str]:
        word = words[0]
        while True:
            text = ""
            for _ in range(int(chance.expovariate(1 / 6)) + 1):
                for _ in range(chance.randrange(4, 16)):
                    word = chance.choice(after[word])
                    text += word + ("，" if chance.random() < 0.12 else "")
                text += chance.choice("。。。。！？")
            yield text

    return _plain(_up_to_length(paragraphs(), chance.choice(("\n\n", "\n", "")))[: CHARACTERS // 3])


def _unbroken(chance: random.Random) -> Extracted:
    noise = chance.randbytes(CHARACTERS)
    text = chance.choice((base64.b64encode(noise).decode(), noise.hex(), "".join(chance.choices("ACGT", k=CHARACTERS))))
    return _plain(text[:CHARACTERS])


KINDS: dict[str, Callable[[random.Random], Extracted]] = {
    "prose": _prose,
    "reference HTML": _html,
    "PDF text": _pdf,
    "code": _code,
    "log": _log,
    "repeating log": _repeating_log,
    "CSV": _csv,
    "Chinese": _chinese,
    "unbroken": _unbroken,
}
