"""moto's server in a process of its own, with a bucket of many small objects that were not uploaded one by one.

    .venv/bin/python benchmarks/s3_store.py OBJECTS

Prints its endpoint url and serves until its standard input closes.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from moto.server import ThreadedMotoServer

BUCKET = "corpus"
PREFIX = "in/"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


def key_of(number: int) -> str:
    """Return the key of one object, below the prefix."""
    return f"{number % 100:02}/note {number:06}.md"


def text_of(number: int, edition: int = 0) -> str:
    """Return the text of one object: three paragraphs, of which an edition changes the last."""
    stations = " ".join(f"Station {number}.{part} reports a level of {number * part} mm." for part in range(30))
    return (
        f"# Note {number}\n\n{stations}\n\n## Findings\n\n{stations}\n\n## Edition {edition}\n\nRead on day {edition}."
    )


@contextlib.contextmanager
def running_store(objects: int) -> Iterator[str]:
    """Run the server with so many objects, and give its endpoint url; this process gets credentials for it."""
    os.environ.update(CREDENTIALS)
    server = subprocess.Popen(
        [sys.executable, str(Path(__file__)), str(objects)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        yield server.stdout.readline().strip()
    finally:
        server.stdin.close()
        server.wait()


def main() -> None:
    """Fill the bucket and serve it."""
    os.environ.update(CREDENTIALS)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    boto3.client("s3", endpoint_url=f"http://{host}:{port}").create_bucket(Bucket=BUCKET)
    backend = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    for number in range(int(sys.argv[1])):
        backend.put_object(BUCKET, PREFIX + key_of(number), text_of(number).encode())
    print(f"http://{host}:{port}", flush=True)
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    main()
