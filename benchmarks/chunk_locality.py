"""How many chunks must be embedded again after one edit anywhere, and how fast text is chunked.

Run it as `.venv/bin/python benchmarks/chunk_locality.py [--edits 5000] [--seed N] [--write]`. Every edit is made to the
unchanged document, alone; what counts is the number of chunk texts in the new version that the old one did not have.
What does not belong here: the documents (`long_documents.py`).
"""

import argparse
import random
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from long_documents import KINDS, documents

from ingest_assets.chunk import chunk, chunker_version, count_tokens
from ingest_assets.records import Extracted
from ingest_assets.settings import ChunkerSettings

RESULTS = Path(__file__).with_name("results.md")
DOCUMENTS_PER_KIND = 4
EDIT_SIZES = ((0.2, 5), (5, 50), (50, 400))  # tokens: a few letters, a line, paragraphs
EDIT_WEIGHTS = (5, 3, 2)
REFERENCE_SHARE = 10  # the reference rows are measured on one edit in so many
SETTINGS = ChunkerSettings()
TARGET = (1.3, 4, 8)
Chunker = Callable[[Extracted], list[str]]


def anchored(document: Extracted) -> list[str]:
    """Return the chunks of the platform's own chunker."""
    return [span.text for span in chunk(document, SETTINGS)]


def fixed_window(document: Extracted) -> list[str]:
    """Return windows of about 500 tokens that begin every 450: a token is taken as four characters."""
    return [document.text[start : start + 2000] for start in range(0, len(document.text), 1800)]


def greedy(document: Extracted) -> list[str]:
    """Return paragraphs packed until 500 tokens are full; longer ones are cut into lines, longer lines into windows."""
    packed, size = [""], 0
    for part in _parts(document.text, ("\n\n", "\n")):
        tokens = count_tokens(part)
        if size + tokens > SETTINGS.max_tokens:
            packed.append("")
            size = 0
        packed[-1] += part
        size += tokens
    return packed


def _parts(text: str, separators: tuple[str, ...]) -> list[str]:
    if not separators:
        return [text[start : start + 400] for start in range(0, len(text), 400)]
    found = []
    for stripped in text.split(separators[0]):
        part = stripped + separators[0]
        found += [part] if len(part) < 400 else _parts(part, separators[1:])
    return found


def edited(document: Extracted, other: str, density: float, chance: random.Random) -> Extracted:
    """Return the document with one insertion, deletion or replacement, its headings moved along.

    What is inserted comes from the text `other`; `density` is the document's characters per token.
    """
    text = document.text
    at = chance.choices((0, len(text), chance.randrange(len(text))), (1, 1, 8))[0]
    least, most = chance.choices(EDIT_SIZES, EDIT_WEIGHTS)[0]
    size = max(int(density * least * (most / least) ** chance.random()), 1)
    end = at if chance.random() < 1 / 3 else min(at + size, len(text))
    new = "" if end > at and chance.random() < 1 / 2 else _new_text(other, size, chance)
    if chance.random() < 1 / 10:  # a line break less
        at = max(text.find("\n", at), 0)
        end, new = at + 1, ""
    moved = len(new) - (end - at)
    kept = (heading for heading in document.headings if not at < heading.char_start < end)
    headings = tuple(
        replace(heading, char_start=heading.char_start + moved * (heading.char_start >= end)) for heading in kept
    )
    return replace(document, text=text[:at] + new + text[end:], headings=headings)


def _new_text(other: str, size: int, chance: random.Random) -> str:
    start = chance.randrange(len(other))
    new = other[start : start + size]
    if size == 1:
        return chance.choices((new, "x", " ", "\n"), (5, 2, 2, 1))[0]
    return new + chance.choices(("", "\n", "\n\n"), (8, 1, 1))[0]


def measure(chunker: Chunker, kind_documents: list[Extracted], edits: int, seed: str) -> list[int]:
    """Return the number of chunks to embed again for each of `edits` edits, spread over the documents."""
    chance = random.Random(seed)
    known = [set(chunker(document)) for document in kind_documents]
    densities = [len(document.text) / count_tokens(document.text) for document in kind_documents]
    counts = []
    for number in range(edits):
        which = number % len(kind_documents)
        other = kind_documents[(which + 1) % len(kind_documents)].text
        new = chunker(edited(kind_documents[which], other, densities[which], chance))
        counts.append(len({text for text in new if text.strip()} - known[which]))
    return counts


def figures(counts: list[int]) -> tuple[float, int, int]:
    """Return mean, 99th percentile and worst."""
    ordered = sorted(counts)
    return sum(ordered) / len(ordered), ordered[int(len(ordered) * 0.99)], ordered[-1]


def speed(kind_documents: list[Extracted]) -> float:
    """Return MB (UTF-8) chunked per second of processor time."""
    began = time.process_time()
    for document in kind_documents:
        chunk(document, SETTINGS)
    return sum(len(document.text.encode()) for document in kind_documents) / 1e6 / (time.process_time() - began)


def main() -> None:
    """Measure, print, and write where asked."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--edits", type=int, default=5000, help="in all, spread over the kinds (default 5000)")
    options.add_argument("--seed", type=int, default=secrets.randbelow(10**9), help="drawn at run time by default")
    options.add_argument("--kind", choices=list(KINDS), action="append", help="only this kind; may be repeated")
    options.add_argument("--write", action="store_true", help=f"append the table to {RESULTS.name}")
    given = options.parse_args()
    print(f"seed {given.seed}, {chunker_version(SETTINGS)}")
    rows = table(given.kind or list(KINDS), given.edits, given.seed)
    if given.write:
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(f"\n## Chunks to embed again after one edit ({given.edits} edits, seed {given.seed})\n\n")
            file.write("\n".join(rows) + "\n")


def table(kinds: list[str], edits: int, seed: int) -> list[str]:
    """Return the rows of the table, printed as they are found."""
    rows = ["| kind | chunks | mean | p99 | worst | MB/s | fixed window: mean, worst | greedy: mean, worst |"]
    rows.append("|---|---|---|---|---|---|---|---|")
    print("\n".join(rows))
    everything: list[int] = []
    for kind in kinds:
        kind_documents = documents(kind, DOCUMENTS_PER_KIND, random.Random(f"{seed} {kind}"))
        share = -(-edits // len(kinds))
        counts = measure(anchored, kind_documents, share, f"{seed} edits")
        everything += counts
        references = [
            measure(reference, kind_documents, share // REFERENCE_SHARE + 1, f"{seed} edits")
            for reference in (fixed_window, greedy)
        ]
        chunks = sum(len(anchored(item)) for item in kind_documents)
        rows.append(row(kind, chunks, counts, speed(kind_documents), references))
        print(rows[-1], flush=True)
    mean, p99, worst = figures(everything)
    rows.append(f"| **all** | | **{mean:.2f}** | **{p99}** | **{worst}** | | | |")
    is_met = all(value <= most for value, most in zip((mean, p99, worst), TARGET, strict=True))
    print(f"{rows[-1]}\ntarget {TARGET}: {'met' if is_met else 'MISSED'} over {len(everything)} edits")
    return rows


def row(kind: str, chunks: int, counts: list[int], megabytes: float, references: list[list[int]]) -> str:
    """Return one row of the table."""
    mean, p99, worst = figures(counts)
    others = " | ".join(f"{figures(item)[0]:.0f}, {figures(item)[2]}" for item in references)
    return f"| {kind} | {chunks} | {mean:.2f} | {p99} | {worst} | {megabytes:.1f} | {others} |"


if __name__ == "__main__":
    main()
