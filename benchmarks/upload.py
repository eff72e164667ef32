"""From an upload to a searchable document through the real daemon: by events over SQS, and by listing alone.

    .venv/bin/python benchmarks/upload.py [--uploads N] [--write]

One object at a time into a bucket of moto's server with 200 others, and timed until `search` finds it. With events the
next listing would be tomorrow's; without, the source is listed every ten seconds.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from urllib.parse import quote_plus

import boto3
from daemon import command, ended, started
from s3_store import BUCKET, PREFIX, running_store

from ingest_assets.embedded import database_urls
from ingest_assets.settings import load_settings

RESULTS = Path(__file__).with_name("results.md")
OBJECTS = 200
LIMIT_SECONDS = 300.0


def measured(folder: Path, endpoint: str, uploads: int, *, by_events: bool) -> list[float]:
    """Return the seconds of each upload in one deployment."""
    config, source = folder / "ingest.toml", f'[source]\nurl = "s3://{BUCKET}/{PREFIX}"\nendpoint_url = "{endpoint}"\n'
    s3, sqs = boto3.client("s3", endpoint_url=endpoint), boto3.client("sqs", endpoint_url=endpoint)
    queue_url = sqs.create_queue(QueueName="events")["QueueUrl"]
    config.write_text(f'{source}queue_url = "{queue_url}"\nlisting_interval_seconds = 86400\n' if by_events else source)
    took = []
    with database_urls(load_settings(config)):
        command(config, "run")
        dev = started(config)
        try:
            for number in range(uploads):
                key = f"{'told' if by_events else 'listed'} {number}.md"
                words = f"lantern {number} of the harbour watch {by_events}"
                began = time.monotonic()
                s3.put_object(Bucket=BUCKET, Key=PREFIX + key, Body=f"Tonight the {words} was lit.".encode())
                if by_events:
                    place = {"bucket": {"name": BUCKET}, "object": {"key": quote_plus(PREFIX + key)}}
                    sqs.send_message(QueueUrl=queue_url, MessageBody=json.dumps({"Records": [{"s3": place}]}))
                while not any(hit["document"] == key for hit in command(config, "search", words)):
                    assert time.monotonic() - began < LIMIT_SECONDS, "the upload is not found in time"
                took.append(time.monotonic() - began)
        finally:
            ended(dev)
    return took


def main() -> None:
    """Measure, print, and append to the results with --write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--uploads", type=int, default=7)
    parser.add_argument("--write", action="store_true", help="append to benchmarks/results.md")
    options = parser.parse_args()
    lines = ["### From upload to searchable", "", "| by | uploads | least | middle | most |", "|---|---|---|---|---|"]
    with running_store(OBJECTS) as endpoint:
        for name, by_events in (("events over SQS", True), ("listing alone", False)):
            with tempfile.TemporaryDirectory(prefix="ingest-bench-") as folder:
                took = measured(Path(folder), endpoint, options.uploads, by_events=by_events)
            lines.append(
                f"| {name} | {len(took)} | {min(took):.0f} s | {statistics.median(took):.0f} s | {max(took):.0f} s |"
            )
    print("\n".join(lines))
    if options.write:
        with RESULTS.open("a") as results:
            results.write("\n".join(["", *lines, ""]))


if __name__ == "__main__":
    main()
