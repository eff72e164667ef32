"""An OpenAI-compatible embedding server that counts and bills what it is asked, limits it, and fails on order.

Here: the server, its standing rules (fields of `EmbeddingServer`) and single faults (`server.next(...)`). Vectors come
from the text's hash, so whoever knows the text knows the vector. Not here: the arithmetic of limits
(`rate_limits.py`), and anything that knows our code.
"""

import base64
import hashlib
import json
import math
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from ingest_assets_tests.rate_limits import RateLimits

Items = list[dict[str, Any]]


@dataclass(frozen=True)
class Reply:
    """What goes back over the wire; None as body closes the connection instead. Items are work done and billed."""

    status: int
    body: bytes | Items | None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Received:
    """One request as it came."""

    texts: list[str]
    parameters: dict[str, Any]  # the body without the texts
    authorization: str | None
    api_key: str | None = None  # the header of gateways in Azure's style
    query: str = ""


Fault = Callable[["EmbeddingServer", Received], Reply]


def vector_of(text: str, dimensions: int) -> NDArray[np.float32]:
    """Return the vector this server has for a text, norm 1."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
    numbers = np.random.default_rng(seed).standard_normal(dimensions)
    return (numbers / np.linalg.norm(numbers)).astype(np.float32)


def error(
    status: int,
    message: str = "no",
    *,
    code: str | None = None,
    kind: str = "invalid_request_error",
    param: str | None = None,
    retry_after: object = None,
) -> Fault:
    """Answer with an error in OpenAI's shape."""
    body = {"error": {"message": message, "type": kind, "code": code, "param": param}}
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return scripted(status, body, headers)


def scripted(status: int, body: object, headers: dict[str, str] | None = None) -> Fault:
    """Answer with exactly this; a string is sent as HTML, anything else as JSON."""
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    kind = "text/html" if isinstance(body, str) else "application/json"
    return lambda _server, _request: Reply(status, data, {"Content-Type": kind, **(headers or {})})


def rate_limited(retry_after: object = None) -> Fault:
    """Answer 429 as a limiter does."""
    return error(429, "Rate limit reached", code="rate_limit_exceeded", kind="requests", retry_after=retry_after)


def changed(change: Callable[[Items], Items]) -> Fault:
    """Answer 200 with the right items after `change` has spoiled them."""
    return lambda server, request: server.answer(change(server.items(request)))


INSUFFICIENT_QUOTA = error(429, "You exceeded your quota", code="insufficient_quota", kind="insufficient_quota")
HTML = scripted(200, "<html>gateway</html>")  # a gateway's page in place of an answer
REORDERED = changed(lambda items: items[::-1])  # all items, their indexes true
SHORT = changed(lambda items: items[:-1])
DUPLICATED = changed(lambda items: [items[0], *items[:-1]])  # and the last left out


def reset(_server: "EmbeddingServer", _request: Received) -> Reply:
    """Reset the connection instead of answering."""
    return Reply(0, None)


def lost(server: "EmbeddingServer", request: Received) -> Reply:
    """Reset the connection after the work is done and billed."""
    return Reply(0, server.items(request))


class EmbeddingServer:
    """A server on a free port; its fields are rules that may be changed while it runs."""

    def __init__(self, dimensions: int = 8) -> None:
        self.dimensions = dimensions
        self.encoding: Literal["as asked", "float", "base64", "doubles"] = "as asked"
        self.max_items: int | None = None  # more in one request is answered 400
        self.max_tokens: int | None = None  # the same, by count_tokens over the request
        self.max_input_tokens: int | None = None  # the same, for one text
        self.count_tokens: Callable[[str], int] = lambda text: len(text.split())
        self.poison: set[str] = set()  # texts that make their whole request a 400
        self.names_poison = False  # that answer says which text it is
        self.toxic: set[str] = set()  # texts that make their whole request a 500, always
        self.zero: set[str] = set()  # texts whose vector is zeros
        self.nan: set[str] = set()  # texts whose vector holds a null, as JSON has no NaN
        self.refused_parameters: set[str] = set()
        self.seconds: float = 0.0  # latency of a request
        self.seconds_per_item: float = 0.0
        self.requests_per_minute: float | None = None
        self.items_per_minute: float | None = None
        self.tokens_per_minute: float | None = None  # by count_tokens
        self.burst_seconds = 1.0  # of each rate that a rested server lets in at once
        self.says_retry_after = True  # when it answers 429
        self.always: Fault | None = None  # answers every request that has no fault of its own
        self.requests: list[Received] = []
        self.most_at_once = 0
        self.billed_items = 0
        self.billed_tokens = 0
        self.answered_429 = 0
        self._rate_limits = RateLimits()
        self._faults: deque[Fault] = deque()
        self._at_once = 0
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.rules = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.005,), daemon=True)

    @property
    def url(self) -> str:
        """The base_url for a client."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def texts(self) -> list[str]:
        """Every text that was ever sent, as often as it was sent."""
        return [text for request in self.requests for text in request.texts]

    def next(self, *faults: Fault) -> None:
        """Answer the coming requests so, one fault each, in the order they arrive."""
        self._faults.extend(faults)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def respond(self, request: Received) -> Reply:
        """Count a request and answer it."""
        with self._lock:
            self.requests.append(request)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            fault = self._faults.popleft() if self._faults else self._rule(request) or self.always
        try:
            time.sleep(self.seconds + self.seconds_per_item * len(request.texts))
            return self._bill(fault(self, request) if fault else self.answer(self.items(request)), request)
        finally:
            with self._lock:
                self._at_once -= 1

    def items(self, request: Received) -> Items:
        """Return the right items for a request, in its encoding."""
        asked = request.parameters.get("encoding_format", "float")
        encoding = asked if self.encoding == "as asked" else self.encoding
        dimensions = request.parameters.get("dimensions", self.dimensions)
        vectors = (self._vector(text, dimensions) for text in request.texts)
        return [
            {"object": "embedding", "index": index, "embedding": _encoded(vector, encoding)}
            for index, vector in enumerate(vectors)
        ]

    def answer(self, items: Items) -> Reply:
        """Return a successful answer with these items; its usage is that of the whole request."""
        return Reply(200, items, {"Content-Type": "application/json"})

    def _bill(self, reply: Reply, request: Received) -> Reply:
        """Count what a reply costs, and put work that was done on the wire."""
        tokens = sum(map(self.count_tokens, request.texts))
        with self._lock:
            self.answered_429 += reply.status == 429
            if not isinstance(reply.body, list):
                return reply
            self.billed_items += len(request.texts)
            self.billed_tokens += tokens
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        body = {"object": "list", "model": "m", "data": reply.body, "usage": usage}
        return Reply(reply.status, json.dumps(body).encode() if reply.status else None, reply.headers)

    def _vector(self, text: str, dimensions: int) -> NDArray[np.float32]:
        if text in self.zero:
            return np.zeros(dimensions, dtype=np.float32)
        vector = vector_of(text, dimensions)
        if text in self.nan:
            vector[0] = np.nan
        return vector

    def _limit(self, texts: list[str]) -> Fault | None:
        rates = {"requests": self.requests_per_minute, "items": self.items_per_minute, "tokens": self.tokens_per_minute}
        amounts = {"requests": 1, "items": len(texts), "tokens": sum(map(self.count_tokens, texts))}
        wait = self._rate_limits.admit(rates, amounts, self.burst_seconds)
        return rate_limited(math.ceil(wait * 1000) / 1000 if self.says_retry_after else None) if wait else None

    def _rule(self, request: Received) -> Fault | None:
        if (limited := self._limit(request.texts)) is not None:
            return limited
        for parameter in self.refused_parameters & request.parameters.keys():
            return error(400, f"Unrecognized request argument: {parameter}", param=None)
        tokens = [self.count_tokens(text) for text in request.texts]
        if self.max_items is not None and len(tokens) > self.max_items:
            return error(400, f"too many inputs, at most {self.max_items}")
        if self.max_input_tokens is not None and max(tokens) > self.max_input_tokens:
            return error(400, f"This model's maximum context length is {self.max_input_tokens} tokens.")
        if self.max_tokens is not None and sum(tokens) > self.max_tokens:
            return error(400, "max_tokens_per_request", code="max_tokens_per_request")
        if any(not text.strip() for text in request.texts):
            return error(400, "'$.input' is invalid.")
        return self._bad_text(request.texts)

    def _bad_text(self, texts: list[str]) -> Fault | None:
        if self.toxic.intersection(texts):
            return error(500, "The server had an error while processing your request", kind="server_error")
        for index, text in enumerate(texts):
            if text in self.poison:
                param = f"input[{index}]" if self.names_poison else "input"
                return error(400, f"The input was rejected: {text}", param=param)
        return None


def _encoded(vector: NDArray[np.float32], encoding: str) -> object:
    if encoding == "base64":
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()
    if encoding == "doubles":
        return base64.b64encode(vector.astype("<f8").tobytes()).decode()
    return [None if np.isnan(number) else float(number) for number in vector]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    rules: EmbeddingServer

    def handle_error(self, request: object, client_address: object) -> None:
        """Stay quiet: clients that go away in the middle are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        given = body.pop("input")
        texts = [given] if isinstance(given, str) else list(given)
        address, headers = urlsplit(self.path), self.headers
        received = Received(texts, body, headers.get("Authorization"), headers.get("api-key"), address.query)
        is_known = address.path.endswith("/embeddings")
        self._send(self.server.rules.respond(received) if is_known else Reply(404, b"not found"))

    def do_GET(self) -> None:
        """Show a page, as what a redirect leads to does."""
        self._send(Reply(200, b"<html>Sign in</html>", {"Content-Type": "text/html"}))

    def _send(self, reply: Reply) -> None:
        if not isinstance(reply.body, bytes):
            # Lingering for no time makes close() send RST, as a crashed peer does.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
            return
        headers = {**reply.headers, "Content-Length": str(len(reply.body))}
        lines: Iterable[str] = (f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"HTTP/1.1 {reply.status} -\r\n{''.join(lines)}\r\n"
        self.wfile.write(head.encode() + reply.body)

    def log_message(self, *_: object) -> None:
        """Stay quiet."""
