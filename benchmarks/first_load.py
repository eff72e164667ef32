"""First load of 2,000 text documents with the local model: time, peak memory, the share of bookkeeping; then a re-run.

    .venv/bin/python benchmarks/first_load.py [--documents N] [--seed N] [--write]

The corpus is made at run time from a seed that is drawn and printed: documents of different lengths, one-block files
and equal texts among them. Every figure is of a process of its own, as `ingest-assets run` starts it.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results.md")
WORDS = (
    "pump valve meter reservoir filter sensor inspector crew operator laboratory pipeline tank pressure flow turbidity "
    "chlorine seal bearing log sample gasket alarm level record checks reports replaces measures drains opens closes "
    "inspects calibrates cleans tests morning storm station audit demand northern eastern lower upper before after"
).split()
CHARACTERS = 13_000  # of a document on average: about ten chunks
EQUAL_SHARE, ONE_BLOCK_SHARE = 0.02, 0.02


@dataclass(frozen=True)
class Measured:
    """One run of the command."""

    seconds: float
    peak_mebibytes: float
    result: dict[str, Any]


def write_corpus(folder: Path, documents: int, seed: int) -> None:
    """Write text documents; a few are equal, a few are one block without line breaks."""
    chance = random.Random(seed)
    previous = ""
    for number in range(documents):
        if previous and chance.random() < EQUAL_SHARE:
            text = previous
        elif chance.random() < ONE_BLOCK_SHARE:
            text = " ".join(sentence(chance) for _ in range(CHARACTERS // 90))
        else:
            text = article(chance, chance.randrange(CHARACTERS // 4, CHARACTERS * 7 // 4))
        (folder / f"{number:05}.txt").write_text(text)
        previous = text


def article(chance: random.Random, characters: int) -> str:
    """Return paragraphs of that many characters, roughly."""
    parts: list[str] = []
    while characters > 0:
        parts.append(" ".join(sentence(chance) for _ in range(chance.randrange(2, 8))))
        characters -= len(parts[-1])
    return "\n\n".join(parts)


def sentence(chance: random.Random) -> str:
    """Return one sentence of common words and a number."""
    words = chance.choices(WORDS, k=chance.randrange(7, 18))
    return f"{' '.join(words).capitalize()} {chance.randrange(10_000)}."


def run(config: Path) -> Measured:
    """Run one pass in a process of its own and measure it from outside."""
    command = [sys.executable, "-m", "ingest_assets", "--config", str(config), "run", "--json"]
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"the run failed: {output[-2000:]}")
    return Measured(seconds, usage.ru_maxrss / 1024, json.loads(output))


def main() -> None:
    """Measure, print, and append to the results with --write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--write", action="store_true", help="append to benchmarks/results.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ingest-bench-") as name:
        folder = Path(name)
        (folder / "inbox").mkdir()
        write_corpus(folder / "inbox", options.documents, options.seed)
        config = folder / "ingest.toml"
        config.write_text('[source]\nurl = "inbox"\n')
        first, again = run(config), run(config)
    lines = report(options.documents, options.seed, first, again)
    print("\n".join(lines))
    if options.write:
        with RESULTS.open("a") as results:
            results.write("\n".join(["", *lines, ""]))


def report(documents: int, seed: int, first: Measured, again: Measured) -> list[str]:
    """Return the figures as a table."""
    totals = first.result["totals"]
    stages = first.result["seconds"]
    bookkeeping = stages.get("bookkeeping", 0.0)
    return [
        f"### First load, {documents} documents, {totals['chunks']} chunks (seed {seed})",
        "",
        "| figure | value |",
        "|---|---|",
        f"| first load, whole command | {first.seconds:.1f} s |",
        f"| of it: {', '.join(stages)} | {', '.join(f'{value:.1f} s' for value in stages.values())} |",
        f"| bookkeeping per document (events of five assets) | {1000 * bookkeeping / documents:.2f} ms |",
        f"| bookkeeping share of the first load | {100 * bookkeeping / first.seconds:.1f} % |",
        f"| peak memory, first load | {first.peak_mebibytes:.0f} MiB |",
        f"| texts sent, first load | {first.result['embedded']} |",
        f"| re-run, whole command | {again.seconds:.1f} s |",
        f"| texts sent, re-run | {again.result['embedded']} |",
        f"| peak memory, re-run | {again.peak_mebibytes:.0f} MiB |",
    ]


if __name__ == "__main__":
    main()
