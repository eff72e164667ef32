"""5,000 documents through the real sensors and daemon: how many a minute, in how many runs, with what bookkeeping.

    .venv/bin/python benchmarks/daemon.py [--documents N] [--write]

The documents lie in the folder when `ingest-assets dev` starts; when all of them are searchable one more is dropped,
and timed until `search` finds it. Local model, embedded Postgres.
"""

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg

from ingest_assets.embedded import database_urls
from ingest_assets.settings import load_settings

RESULTS = Path(__file__).with_name("results.md")
LIMIT_SECONDS = 1800.0
QUERY = "the heron sleeps beside the seventh lock"


def command(config: Path, *arguments: str) -> Any:
    """Return the JSON of a command."""
    done = subprocess.run(
        [sys.executable, "-m", "ingest_assets", "--config", str(config), *arguments, "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    return json.loads(done.stdout)


def free_port() -> int:
    """Return a port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def started(config: Path) -> "subprocess.Popen[bytes]":
    """Start `dev`; what it says goes into a file beside the settings, for nobody reads a pipe."""
    with config.with_name("dev.log").open("w") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "ingest_assets", "--config", str(config), "dev", "--port", str(free_port())],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def ended(dev: "subprocess.Popen[bytes]") -> None:
    """End it as Ctrl-C does."""
    os.kill(dev.pid, signal.SIGINT)
    dev.wait(timeout=120)


def measured(folder: Path, documents: int) -> dict[str, Any]:
    """Return the figures of one deployment in an empty folder."""
    inbox, config = folder / "inbox", folder / "ingest.toml"
    inbox.mkdir()
    config.write_text('[source]\nurl = "inbox"\n')
    for number in range(documents):
        text = f"Note {number}. The pump of station {number % 97} was inspected on day {number}.\n\n"
        (inbox / f"{number:05}.md").write_text(text * 3)
    began = time.monotonic()
    dev = started(config)
    try:
        with database_urls(load_settings(config)) as urls:
            while served(urls.ingest) < documents:
                assert time.monotonic() - began < LIMIT_SECONDS, "not all documents are served in time"
                time.sleep(1)
            loaded = time.monotonic() - began
            (inbox / "new.md").write_text(f"Tonight {QUERY}, and nobody minds.")
            dropped = time.monotonic()
            while not any(hit["document"] == "new.md" for hit in command(config, "search", QUERY)):
                assert time.monotonic() - dropped < LIMIT_SECONDS, "the new document is not found in time"
            found = time.monotonic() - dropped
            return {"loaded": loaded, "found": found, **of_dagster(urls.dagster)}
    finally:
        ended(dev)


def served(url: str) -> int:
    """Return how many documents readers can find."""
    try:
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT count(*) FROM serving.publications").fetchone()
    except psycopg.Error:
        return 0
    assert row is not None
    return int(row[0])


def of_dagster(url: str) -> dict[str, Any]:
    """Return runs, the longest tick of a sensor, and the seconds that runs told Dagster about partitions."""
    with psycopg.connect(url) as connection:
        runs = connection.execute("SELECT count(*), count(*) FILTER (WHERE status = 'SUCCESS') FROM runs").fetchone()
        tick = connection.execute(
            "SELECT max(extract(epoch FROM update_timestamp - timestamp)) FROM job_ticks WHERE status <> 'STARTED'"
        ).fetchone()
        lines = connection.execute("SELECT event FROM event_logs WHERE event LIKE '%was told about partitions in%'")
        told = sum(float(re.findall(r"partitions in ([\d.]+) s", line[0])[0]) for line in lines)
    assert runs is not None
    assert tick is not None
    return {"runs": runs[0], "succeeded": runs[1], "tick": float(tick[0]), "told": told}


def main() -> None:
    """Measure, print, and append to the results with --write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=5000)
    parser.add_argument("--write", action="store_true", help="append to benchmarks/results.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ingest-bench-") as name:
        found = measured(Path(name), options.documents)
    lines = [
        f"### {options.documents} documents through sensors and daemon",
        "",
        "| figure | value |",
        "|---|---|",
        f"| from the start of `dev` until all are searchable | {found['loaded']:.0f} s |",
        f"| documents a minute | {60 * options.documents / found['loaded']:.0f} |",
        f"| runs launched, of them successful | {found['runs']}, {found['succeeded']} |",
        f"| bookkeeping per document (events of five assets) | {1000 * found['told'] / options.documents:.1f} ms |",
        f"| longest tick of a sensor | {found['tick']:.1f} s |",
        f"| one more file, until it is searchable | {found['found']:.1f} s |",
    ]
    print("\n".join(lines))
    if options.write:
        with RESULTS.open("a") as results:
            results.write("\n".join(["", *lines, ""]))


if __name__ == "__main__":
    main()
