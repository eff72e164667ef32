"""Finding what changed: 50,000 objects of a bucket tick by tick, and 1,000 scattered edits in 10,000 documents.

    .venv/bin/python benchmarks/discovery.py [--objects N] [--documents N] [--write]

Ticks are those of the source sensor on a Dagster instance of their own, partitions included; the bucket is moto's,
whose pages take it longer the more objects it holds, so that part is given too. Memory is what this process grew by at
most. The edits are ingested by `ingest-assets run` from a folder, with the local model.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
from s3_store import BUCKET, PREFIX, key_of, running_store, text_of

from ingest_assets.chunk import chunker_version
from ingest_assets.defs.instance import open_instance
from ingest_assets.defs.sensors import due_from_source
from ingest_assets.discovery import pending_documents
from ingest_assets.extract import extractor_version
from ingest_assets.platform import open_platform

RESULTS = Path(__file__).with_name("results.md")
EDITS = 50
SCATTERED = 1000
# As if every object had been ingested: what is measured here is finding, not reading.
DECIDE = """
UPDATE ingest.documents SET etag = seen_etag, size_bytes = seen_size_bytes, last_modified = seen_last_modified,
    status = 'accepted', text = 'read', generation = 1, extractor_version = %s, chunker_version = %s
"""


@dataclass
class Ticks:
    """What the ticks of one listing took."""

    seconds: list[float] = field(default_factory=list)
    found: int = 0  # documents that a run is requested for, or would be in the next ticks
    grown_mib: float = 0.0

    @property
    def line(self) -> str:
        """Return a row of the table."""
        return (
            f"{len(self.seconds)} | {sum(self.seconds):.1f} s | {max(self.seconds):.1f} s | {self.found:,} | "
            f"{self.grown_mib:.0f} MiB"
        )


def peak_mib() -> float:
    """Return the most memory this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def listed(instance: Any, platform: Any) -> Ticks:
    """Tick until a listing has come to its end."""
    ticks, before, last = Ticks(), peak_mib(), listings(platform)
    while listings(platform) == last:
        began = time.perf_counter()
        due_from_source(instance, platform)
        ticks.seconds.append(time.perf_counter() - began)
    ticks.found, ticks.grown_mib = len(pending_documents(platform.database, *versions(platform))), peak_mib() - before
    return ticks


def versions(platform: Any) -> tuple[str, str]:
    """Return the versions of extractor and chunker that documents are read with."""
    return extractor_version(platform.settings.extract), chunker_version(platform.settings.chunker)


def listings(platform: Any) -> int:
    """Return the number of the last listing that came to its end."""
    with platform.database.connection() as connection:
        row = connection.execute("SELECT max(listing_id) AS last FROM ingest.source_listings").fetchone()
    return int(row["last"] or 0)


def of_a_bucket(objects: int) -> list[str]:
    """Measure listings of a bucket: the first, one that finds nothing, and one that finds a few edits."""
    with running_store(objects) as endpoint, tempfile.TemporaryDirectory(prefix="ingest-bench-") as name:
        config = Path(name) / "ingest.toml"
        config.write_text(f'[source]\nurl = "s3://{BUCKET}/{PREFIX}"\nendpoint_url = "{endpoint}"\n')
        with open_platform(config) as platform, open_instance(platform.settings) as instance:
            began = time.perf_counter()
            pages = sum(1 for _ in platform.source.list())
            alone = time.perf_counter() - began
            first = listed(instance, platform)
            with platform.database.connection() as connection:
                connection.execute(DECIDE.encode(), versions(platform))
                connection.execute(b"VACUUM ANALYZE ingest.documents")
            unchanged = listed(instance, platform)
            client = boto3.client("s3", endpoint_url=endpoint)
            for number in random.Random(1).sample(range(objects), EDITS):
                client.put_object(Bucket=BUCKET, Key=PREFIX + key_of(number), Body=text_of(number, 1).encode())
            edited = listed(instance, platform)
    assert (first.found, unchanged.found, edited.found) == (objects, 0, EDITS)
    return [
        f"### Discovery of {objects:,} objects in a bucket",
        "",
        "| listing | ticks | in all | longest tick | documents found | memory grew by |",
        "|---|---|---|---|---|---|",
        f"| first | {first.line} |",
        f"| unchanged | {unchanged.line} |",
        f"| {EDITS} scattered edits | {edited.line} |",
        "",
        f"The store alone takes {alone:.1f} s for its {pages} pages.",
    ]


def run(config: Path) -> dict[str, Any]:
    """Make one pass and return its result, with its seconds."""
    command = [sys.executable, "-m", "ingest_assets", "--config", str(config), "run", "--json"]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return {**json.loads(done.stdout), "took": time.perf_counter() - began}


def of_scattered_edits(documents: int) -> list[str]:
    """Measure a pass over edits that lie everywhere in a corpus."""
    with tempfile.TemporaryDirectory(prefix="ingest-bench-") as name:
        inbox, config = Path(name) / "inbox", Path(name) / "ingest.toml"
        config.write_text('[source]\nurl = "inbox"\n')
        for number in range(documents):
            path = inbox / key_of(number)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text_of(number))
        loaded = run(config)
        for number in random.Random(2).sample(range(documents), SCATTERED):
            (inbox / key_of(number)).write_text(text_of(number, 1))
        edited = run(config)
        nothing = run(config)
    return [
        f"### {SCATTERED:,} scattered edits in {documents:,} documents",
        "",
        "| pass | runs | seconds | documents | texts sent |",
        "|---|---|---|---|---|",
        *(
            f"| {what} | {len(found['run_ids'])} | {found['took']:.0f} | {found['documents']:,} | "
            f"{found['embedded']:,} |"
            for what, found in (("first load", loaded), ("after the edits", edited), ("nothing changed", nothing))
        ),
    ]


def main() -> None:
    """Measure, print, and append to the results with --write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--objects", type=int, default=50_000)
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--write", action="store_true", help="append to benchmarks/results.md")
    options = parser.parse_args()
    lines = [*of_a_bucket(options.objects), "", *of_scattered_edits(options.documents)]
    print("\n".join(lines))
    if options.write:
        with RESULTS.open("a") as results:
            results.write("\n".join(["", *lines, ""]))


if __name__ == "__main__":
    main()
