"""What reading documents in processes of their own costs, against reading them in the run: time, transfer and memory.

    .venv/bin/python benchmarks/extraction_isolation.py [--documents N] [--seed N] [--write]

Documents are made at run time from a seed that is drawn and printed. Both ways are measured in this process, in turn,
so their ratio means more than either figure.
"""

import argparse
import os
import random
import statistics
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from ingest_assets.extract import extract
from ingest_assets.extract.pool import WORKERS, Workers, end_waiting
from ingest_assets.extract.process import WorkerProcess
from ingest_assets.settings import ExtractSettings

RESULTS = Path(__file__).with_name("results.md")
SETTINGS = ExtractSettings(memory_limit_mb=4096)
WORDS = "pump valve meter reservoir filter sensor inspector crew operator pipeline tank pressure flow chlorine".split()
MEBIBYTE = 1024 * 1024


@dataclass(frozen=True)
class Document:
    """One document to be read."""

    key: str
    data: bytes


def prose(chance: random.Random, words: int) -> str:
    """Return sentences of common words."""
    return " ".join(f"{' '.join(chance.choices(WORDS, k=12)).capitalize()}." for _ in range(words // 12))


def notes(chance: random.Random, count: int) -> list[Document]:
    """Return Markdown documents of a few kilobytes."""
    return [
        Document(f"{number}.md", f"# Note {number}\n\n{prose(chance, chance.randrange(100, 900))}\n".encode())
        for number in range(count)
    ]


def pdf(chance: random.Random, pages: int, picture: bytes = b"") -> bytes:
    """Return a PDF with that many pages of text, and a picture of these bytes."""
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", b"", b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"]
    objects.append(b"<</Subtype/Image/Length %d>>\nstream\n%s\nendstream" % (len(picture), picture))
    kids = []
    for _ in range(pages):
        lines = b"".join(b"(%s) Tj T*\n" % prose(chance, 12).encode() for _ in range(45))
        packed = zlib.compress(b"BT /F1 11 Tf 14 TL 72 720 Td\n" + lines + b"ET")
        objects.append(b"<</Filter/FlateDecode/Length %d>>\nstream\n%s\nendstream" % (len(packed), packed))
        content = len(objects)
        font = b"/Resources<</Font<</F1 3 0 R>>>>"
        objects.append(b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]%s/Contents %d 0 R>>" % (font, content))
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<</Type/Pages/Count %d/Kids[%s]>>" % (pages, b" ".join(kids))
    out, entries = [b"%PDF-1.7\n"], []
    size = len(out[0])
    for number, written in enumerate(objects, start=1):
        entries.append(b"%010d 00000 n \n" % size)
        out.append(b"%d 0 obj\n%s\nendobj\n" % (number, written))
        size += len(out[-1])
    tail = b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n"
    return b"".join(out) + tail % (len(objects) + 1, b"".join(entries), len(objects) + 1, size)


def here(documents: Sequence[Document]) -> None:
    """Read documents in this process."""
    for document in documents:
        extract(document.data, document.key, SETTINGS)


def apart(documents: Sequence[Document]) -> None:
    """Read documents in workers, as a run does."""
    with Workers[str](SETTINGS) as workers:
        for document in documents:
            workers.submit(document.key, document.data, document.key)
            list(workers.finished())
        list(workers.drain())


def one_by_one(documents: Sequence[Document]) -> None:
    """Read documents in a worker, each after the answer to the one before it."""
    with Workers[str](SETTINGS) as workers:
        for document in documents:
            workers.submit(document.key, document.data, document.key)
            list(workers.drain())


def seconds(read: Callable[[Sequence[Document]], None], documents: Sequence[Document], times: int = 3) -> float:
    """Return the median time to read these documents."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        read(documents)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def start_seconds() -> float:
    """Return the median time from nothing to a worker that is ready."""
    taken = []
    for _ in range(5):
        began = time.perf_counter()
        worker = WorkerProcess.start()
        worker.await_ready()
        taken.append(time.perf_counter() - began)
        worker.end()
    return statistics.median(taken)


def worker_mebibytes() -> float:
    """Return the largest private memory of a waiting worker."""
    children = psutil.Process().children()
    return max(child.memory_full_info().uss for child in children) / MEBIBYTE


def measure(count: int, seed: int) -> list[str]:
    """Return the figures as a table."""
    chance = random.Random(seed)
    small = notes(chance, count)
    mixed = [*small, *(Document(f"{number}.pdf", pdf(chance, 60)) for number in range(max(1, count // 50)))]
    large_text = [Document("a.txt", prose(chance, 100_000).encode() * 40)]
    large_pdf = [Document("a.pdf", pdf(chance, 3, os.urandom(MEBIBYTE) * 250))]
    apart(small)
    lines = [
        f"## Reading documents apart from the run ({count} small documents, {WORKERS} workers, seed {seed})",
        "",
        "| figure | in the run | in workers |",
        "|---|---|---|",
        f"| start of a worker | | {start_seconds():.2f} s |",
    ]
    for name, documents, way in (
        ("a small document, one by one", small, one_by_one),
        ("a small document, as a run does it", small, apart),
    ):
        ours, theirs = (1000 * seconds(read, documents) / len(documents) for read in (here, way))
        lines.append(f"| {name} | {ours:.2f} ms | {theirs:.2f} ms |")
    for name, documents, times in (
        (f"all of them and {len(mixed) - count} PDFs of 60 pages", mixed, 3),
        (f"a text of {len(large_text[0].data) / MEBIBYTE:.0f} MiB", large_text, 3),
        (f"a PDF of {len(large_pdf[0].data) / MEBIBYTE:.0f} MiB", large_pdf, 1),
    ):
        lines.append(f"| {name} | {seconds(here, documents, times):.2f} s | {seconds(apart, documents, times):.2f} s |")
    end_waiting()
    apart(small)
    lines.append(f"| private memory of a worker after the small ones | | {worker_mebibytes():.0f} MiB |")
    return lines


def main() -> None:
    """Measure, print, and append to the results with --write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--documents", type=int, default=500)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--write", action="store_true", help="append to benchmarks/results.md")
    options = parser.parse_args()
    lines = measure(options.documents, options.seed)
    print("\n".join(lines))
    if options.write:
        with RESULTS.open("a") as results:
            results.write("\n".join(["", *lines, ""]))


if __name__ == "__main__":
    main()
