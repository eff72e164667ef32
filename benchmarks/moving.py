"""A corpus of 20,000 chunks moved to a second embedding model version under reading load: cost, latency, switches.

    .venv/bin/python benchmarks/moving.py [--documents N] [--seed N] [--write]

Everything is done by `ingest-assets` as processes of their own, beside an application that searches all the time.
What does not belong here: whether each document is whole (`ingest_assets_tests/test_moving.py`).
"""

import argparse
import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
from embedding_section import Section
from first_load import write_corpus

from ingest_assets.activation import rollback
from ingest_assets.database import Database
from ingest_assets.embedded import database_urls
from ingest_assets.settings import DatabaseSettings, Settings

SEARCH = "SELECT version FROM serving.search(query_text => 'pump pressure', k => 10)"
MODEL = '[[models]]\nversion = "v{0}"\nprovider = "local"\nmodel = "wordllama-l2-supercat"\ndimensions = {0}\n'
PRICE = "price_per_million_tokens = 0.02\n"


class Load:
    """Searches without a pause, by what is done meanwhile."""

    def __init__(self, url: str) -> None:
        self.doing = "before the move"
        self.seconds: dict[str, list[float]] = {}
        self.answers: Counter[str] = Counter()
        self._url, self._is_over = url, threading.Event()
        self._thread = threading.Thread(target=self._search)
        self._thread.start()

    def stop(self) -> None:
        """End the load."""
        self._is_over.set()
        self._thread.join()

    def _search(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            while not self._is_over.wait(0.005):
                began = time.perf_counter()
                try:
                    found = [row[0] for row in connection.execute(SEARCH.encode())]
                except psycopg.Error as error:
                    self.answers[f"failed: {error}"] += 1
                    continue
                self.seconds.setdefault(self.doing, []).append(time.perf_counter() - began)
                self.answers[found[0] if len(set(found)) == 1 and len(found) == 10 else f"wrong: {found}"] += 1  # k


def main() -> None:
    """Measure, print, and write where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=2700)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="drawn at run time by default")
    parser.add_argument("--write", action="store_true", help="replace this section of results.md")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "inbox").mkdir()
        write_corpus(folder / "inbox", given.documents, given.seed)
        with database_urls(Settings(database=DatabaseSettings(data_dir=folder / "data"))) as urls:
            measured = move(folder, urls.ingest, urls.dagster)
    section = written(measured, given.documents, given.seed)
    if given.write:
        section.write()


def move(folder: Path, url: str, dagster_url: str) -> dict[str, Any]:
    """Load, move, switch to and fro, rebuild and retire; returns what each took and said."""
    config, base = folder / "ingest.toml", '[source]\nurl = "inbox"\n'
    environment = {**os.environ, "INGEST_DATABASE__URL": url, "INGEST_DATABASE__DAGSTER_URL": dagster_url}
    took: dict[str, Any] = {}

    def command(*arguments: str) -> Any:
        line = [sys.executable, "-m", "ingest_assets", "--config", str(config), *arguments, "--json"]
        began = time.perf_counter()
        done = subprocess.run(line, env=environment, stdout=subprocess.PIPE, check=True)
        took[" ".join(arguments)] = time.perf_counter() - began
        return json.loads(done.stdout)

    config.write_text(base + MODEL.format(256) + PRICE)
    took["chunks"] = command("run")["totals"]["chunks"]
    config.write_text(base + MODEL.format(256) + PRICE + MODEL.format(64) + PRICE)
    load = Load(url)
    try:
        time.sleep(5)
        took["planned"] = command("plan", "--model", "v64")
        load.doing = "while it is built"
        took["sent"] = command("run")
        load.doing = "during switches, rebuild, retirement"
        command("models", "activate", "v64")
        command("models", "rollback")
        with Database.connect(url) as database:
            began = time.perf_counter()
            rollback(database)  # from the rollback
            took["switch"] = time.perf_counter() - began
        command("rebuild-index")
        command("models", "retire", "v256")
        load.doing = "during a plan for another chunker"
        config.write_text(base + MODEL.format(64) + PRICE + "[chunker]\nmax_tokens = 300\nmin_tokens = 75\n")
        took["another chunker"] = command("plan")
    finally:
        load.stop()
    took |= {"seconds": load.seconds, "answers": load.answers}
    return took


def written(found: dict[str, Any], documents: int, seed: int) -> Section:
    """Return what was measured as a section of the results."""
    section = Section(
        "a move to a second version", f"{documents} documents, {found['chunks']:,} chunks, 256 to 64 dimensions "
        f"(seed {seed})",
        "Commands as processes of their own, their start included, beside an application that searches without "
        "a pause. Targets: no failed or mixed answer, cost equal to the plan, rollback under a second.",
        subject="Retrieval index",
    )  # fmt: skip
    plan, sent = found["planned"], found["sent"]
    [spend] = [item for item in sent["spend"] if item["model"] == "v64"]
    section.add("planned: texts, tokens, cost", f"{plan['units']:,}, {plan['tokens']:,}, {plan['cost']:.6f}")
    section.add("sent: texts, tokens, cost", f"{spend['units']:,}, {spend['tokens']:,}, {spend['cost']:.6f}")
    section.add(
        "`run` of the second version, s; of it embedding", f"{found['run']:.1f}; {sent['seconds']['embed']:.1f}"
    )
    for doing, seconds in found["seconds"].items():
        cuts = statistics.quantiles(seconds, n=20)
        shown = f"{len(seconds):,}, {statistics.median(seconds) * 1000:.1f}, {cuts[-1] * 1000:.1f}"
        section.add(f"searches {doing}: number, p50, p95 in ms", f"{shown}, longest {max(seconds) * 1000:.0f}")
    wrong = sum(count for answer, count in found["answers"].items() if not answer.startswith("v"))
    section.add("**answers that failed, were short or mixed**", f"**{wrong}**")
    for name in ("models activate v64", "models rollback", "rebuild-index", "models retire v256"):
        section.add(f"`{name}`, s", f"{found[name]:.2f}")
    changes = found["another chunker"]["changes"]
    shown = f"{changes['rechunked']:,}, {changes['chunks']:,}, {found['plan']:.1f}"
    section.add("`plan` for another chunker: documents, chunks, s", shown)
    section.add("**the switch back itself, without the start of a process**", f"**{found['switch'] * 1000:.0f} ms**")
    return section


if __name__ == "__main__":
    main()
