"""What Dagster is told of 500 documents in five assets, a few of them rejected: our storage beside the stock one.

    .venv/bin/python benchmarks/bookkeeping.py [--documents N] [--write]

Each figure is the middle of three runs of the whole command, by turns, each on new databases. Bookkeeping is the time
inside the event log: planned and materialized events of every partition, and what reads them back is the same.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

RESULTS = Path(__file__).with_name("results.md")
STORAGES = ("batching", "stock")
ROUNDS = 3
REJECTED_EVERY = 100


def bookkeeping_seconds(storage: str, documents: int) -> float:
    """Return the seconds of bookkeeping of one pass over new documents."""
    with tempfile.TemporaryDirectory(prefix="ingest-bench-") as name:
        folder = Path(name)
        (folder / "inbox").mkdir()
        for number in range(documents):
            text = f"Document {number}. The pump of the northern station was inspected and its seal was replaced."
            content = bytes(100) if number % REJECTED_EVERY == 0 else text.encode()
            (folder / "inbox" / f"{number:05}.txt").write_bytes(content)
        config = folder / "ingest.toml"
        config.write_text(f'[source]\nurl = "inbox"\n[database]\ndagster_storage = "{storage}"\n')
        command = [sys.executable, "-m", "ingest_assets", "--config", str(config), "run", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        result = json.loads(done.stdout)
        assert result["rejected"] == len(range(0, documents, REJECTED_EVERY)), done.stdout[-2000:]
        return float(result["seconds"]["bookkeeping"])


def main() -> None:
    """Measure, print, and append to the results with --write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=500)
    parser.add_argument("--write", action="store_true", help="append to benchmarks/results.md")
    options = parser.parse_args()
    rounds = [{name: bookkeeping_seconds(name, options.documents) for name in STORAGES} for _ in range(ROUNDS)]
    middle = {name: statistics.median(found[name] for found in rounds) for name in STORAGES}
    lines = [
        f"### Bookkeeping, five assets, runs of {options.documents} documents, one in {REJECTED_EVERY} rejected",
        "",
        "| storage of events | per document |",
        "|---|---|",
        *(f"| {name} | {1000 * seconds / options.documents:.1f} ms |" for name, seconds in middle.items()),
        f"| ratio | {middle['stock'] / middle['batching']:.1f} |",
    ]
    print("\n".join(lines))
    if options.write:
        with RESULTS.open("a") as results:
            results.write("\n".join(["", *lines, ""]))


if __name__ == "__main__":
    main()
