"""S3 and SQS for tests: moto's server over HTTP, and a small store that fails on demand; all speak real HTTP.

What does not belong here: anything that patches our code.
"""

import hashlib
import json
import threading
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import boto3
import pytest
from botocore.config import Config
from moto.server import ThreadedMotoServer

from ingest_assets.source.queue import EventQueue, QueueMessage

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}


def make_client(endpoint_url: str, *, max_attempts: int = 2) -> "S3Client":
    """Return a client with credentials of its own, which needs nothing from the environment."""
    session = boto3.session.Session("testing", "testing", region_name="us-east-1")
    retries = Config(retries={"total_max_attempts": max_attempts, "mode": "standard"})
    return session.client("s3", endpoint_url=endpoint_url, config=retries)


@pytest.fixture
def aws_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the process credentials that open nothing real, and hide those of the machine."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="session")
def moto_server() -> Iterator[str]:
    """Run moto's server on a free port and give its endpoint url."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="session")
def s3(moto_server: str) -> "S3Client":
    """Give a client of the moto server."""
    return make_client(moto_server)


@pytest.fixture
def bucket(s3: "S3Client", aws_environment: None) -> str:
    """Give the name of a fresh, unversioned bucket; the environment holds credentials for it."""
    name = f"docs-{uuid.uuid4().hex[:12]}"
    s3.create_bucket(Bucket=name)
    return name


class TestQueue:
    """A queue of the moto server, and what people send to it."""

    __test__ = False

    def __init__(self, endpoint_url: str) -> None:
        session = boto3.session.Session("testing", "testing", region_name="us-east-1")
        self.client: SQSClient = session.client("sqs", endpoint_url=endpoint_url)
        # What was received and not deleted comes again at once, so that a test need not wait for it.
        self.url = self.client.create_queue(
            QueueName=f"events-{uuid.uuid4().hex[:12]}", Attributes={"VisibilityTimeout": "0"}
        )["QueueUrl"]

    def send(self, *bodies: str) -> None:
        """Send messages, each by itself, in this order."""
        for body in bodies:
            self.client.send_message(QueueUrl=self.url, MessageBody=body)

    def hide_for(self, seconds: int) -> None:
        """Set how long a received message stays hidden."""
        self.client.set_queue_attributes(QueueUrl=self.url, Attributes={"VisibilityTimeout": str(seconds)})

    def waiting(self) -> int:
        """Return how many messages are in the queue, hidden ones included."""
        found = self.client.get_queue_attributes(
            QueueUrl=self.url,
            AttributeNames=["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"],
        )["Attributes"]
        return sum(int(count) for count in found.values())


class DyingQueue(EventQueue):
    """A queue whose reader dies where it would delete what it has kept."""

    def delete(self, messages: Sequence[QueueMessage]) -> None:  # noqa: ARG002 - of the protocol
        """Die."""
        raise KeyboardInterrupt


def notification(*keys: str, bucket: str = "docs-in", name: str = "ObjectCreated:Put") -> str:
    """Return what S3 sends for some keys, which are encoded already."""
    records = [
        {"eventSource": "aws:s3", "eventName": name, "s3": {"bucket": {"name": bucket}, "object": {"key": key}}}
        for key in keys
    ]
    return json.dumps({"Records": records})


@pytest.fixture
def queue(moto_server: str, aws_environment: None) -> TestQueue:
    """Give a fresh queue; the environment holds credentials for it."""
    return TestQueue(moto_server)


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of the failing store to the GET of an object."""

    status: int = 200
    body: bytes = b""
    code: str = ""  # of an S3 error; makes the body
    promised_bytes: int | None = None  # Content-Length, where it is not that of the body
    headers: tuple[tuple[str, str], ...] = ()
    message: str = "scripted"
    etag: str = "0123"

    def content(self) -> bytes:
        """Return the body as it is sent."""
        if not self.code:
            return self.body
        return f"<Error><Code>{self.code}</Code><Message>{self.message}</Message></Error>".encode()


@dataclass
class FailingStore:
    """A store whose objects answer with the next scripted reply, else with their standing fault, else as they are.

    Keys are plain words. `listing` is said instead of what is there.
    """

    endpoint_url: str = ""
    replies: deque[Reply] = field(default_factory=deque)
    objects: dict[str, bytes] = field(default_factory=dict)
    faults: dict[str, Reply] = field(default_factory=dict)  # by key, until they are taken away
    listing: Reply | None = None
    object_requests: list[str] = field(default_factory=list)

    def answer(self, method: str, path: str) -> Reply:
        """Return the reply to one request and note it."""
        if "list-type=2" in path:
            return self.listing or self._listed()
        self.object_requests.append(f"{method} {path}")
        if self.replies:
            return self.replies.popleft()
        key = path.split("?", maxsplit=1)[0].split("/", 2)[2]
        if key in self.faults:
            return self.faults[key]
        if key not in self.objects:
            return Reply(404, code="NoSuchKey")
        return Reply(body=self.objects[key], etag=_etag(self.objects[key]))

    def _listed(self) -> Reply:
        entries = "".join(
            f"<Contents><Key>{key}</Key><LastModified>2024-05-03T10:00:00.000Z</LastModified>"
            f"<ETag>&quot;{_etag(data)}&quot;</ETag><Size>{len(data)}</Size></Contents>"
            for key, data in sorted(self.objects.items())
        )
        return Reply(
            body=f"<ListBucketResult>{entries}<KeyCount>{len(self.objects)}</KeyCount></ListBucketResult>".encode()
        )


def _etag(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()  # noqa: S324 - S3 names objects so


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: FailingStore

    def do_GET(self) -> None:
        """Send the reply; one that promises more than it sends ends with a closed connection."""
        reply = self.store.answer(self.command, self.path)
        content = reply.content()
        promised = len(content) if reply.promised_bytes is None else reply.promised_bytes
        self.send_response(reply.status)
        self.send_header("Content-Length", str(promised))
        self.send_header("ETag", f'"{reply.etag}"')
        self.send_header("Last-Modified", "Fri, 03 May 2024 10:00:00 GMT")
        for name, value in reply.headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)
            self.close_connection = promised != len(content)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def failing_store(aws_environment: None) -> Iterator[FailingStore]:
    """Run a store whose replies the test scripts."""
    store = FailingStore()
    handler = type("Handler", (_Handler,), {"store": store})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    store.endpoint_url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield store
    server.shutdown()
    server.server_close()
    thread.join()
