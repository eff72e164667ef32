"""A local endpoint of Bedrock's runtime that knows Titan and Cohere embedding models, and fails on order.

Here: `POST /model/{modelId}/invoke` with the shapes, refusals and errors of the real one. Vectors come from the text's
hash, as in `embedding_server.py`. Not here: other operations, signatures, and anything that knows our code.
"""

import json
import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import unquote

from ingest_assets_tests.embedding_server import vector_of

TITAN_TOKENS, COHERE_TEXTS, COHERE_CHARACTERS = 8192, 96, 2048
REFORMAT = "please reformat your input and try again."


@dataclass(frozen=True)
class Reply:
    """What goes back over the wire; None as body closes the connection instead."""

    status: int
    body: bytes | None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Invocation:
    """One request as it came."""

    model: str
    body: dict[str, Any]
    authorization: str

    @property
    def texts(self) -> list[str]:
        """The texts to embed, however the model takes them."""
        return self.body["texts"] if "texts" in self.body else [self.body["inputText"]]

    @property
    def access_key(self) -> str:
        """The id of the key that signed."""
        found = re.search(r"Credential=(\w+)/", self.authorization)
        return found[1] if found else ""


def error(status: int, code: str, message: str = "", headers: dict[str, str] | None = None) -> Reply:
    """Answer with an error in the shape of AWS."""
    return Reply(status, json.dumps({"message": message}).encode(), {"x-amzn-ErrorType": code, **(headers or {})})


def malformed(message: str) -> Reply:
    """Refuse a body that does not fit the model's schema."""
    return error(400, "ValidationException", f"Malformed input request: {message}, {REFORMAT}")


def answer(body: object, tokens: int | None = None) -> Reply:
    """Answer with this body, and say what is billed where `tokens` is given."""
    headers = {"Content-Type": "application/json"}
    if tokens is not None:
        headers["X-Amzn-Bedrock-Input-Token-Count"] = str(tokens)
    return Reply(200, json.dumps(body).encode(), headers)


RESET = Reply(0, None)


class BedrockServer:
    """An endpoint on a free port; its fields are rules that may be changed while it runs."""

    def __init__(self) -> None:
        self.expired_keys: set[str] = set()  # access keys whose sessions have ended
        self.blocked: set[str] = set()  # texts that a guardrail refuses
        self.seconds = 0.0  # latency of a request
        self.always: Reply | None = None  # answers every request
        self.requests: list[Invocation] = []
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.rules = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.005,), daemon=True)

    @property
    def url(self) -> str:
        """The endpoint for a client."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def respond(self, request: Invocation) -> Reply:
        """Count a request and answer it."""
        with self._lock:
            self.requests.append(request)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            time.sleep(self.seconds)
            return self.always or self._refusal(request) or self._answer(request)
        finally:
            with self._lock:
                self._at_once -= 1

    def _refusal(self, request: Invocation) -> Reply | None:
        if request.access_key in self.expired_keys:
            return error(403, "ExpiredTokenException", "The security token included in the request is expired")
        if "titan-embed-text" in request.model:
            return _titan_refusal(request.model, request.body)
        if "cohere.embed" in request.model:
            return _cohere_refusal(request.model, request.body) or self._guardrail(request.texts)
        return error(400, "ValidationException", "The provided model identifier is invalid.")

    def _guardrail(self, texts: list[str]) -> Reply | None:
        if self.blocked.isdisjoint(texts):
            return None
        return error(400, "ValidationException", "The content was blocked.")

    def _answer(self, request: Invocation) -> Reply:
        tokens = sum(len(text.split()) for text in request.texts)
        if "titan" in request.model:
            size = request.body.get("dimensions", 1536 if "v1" in request.model else 1024)
            vector = vector_of(request.texts[0], size).tolist()
            return answer({"embedding": vector, "inputTextTokenCount": tokens})
        size = request.body.get("output_dimension", 1536 if "v4" in request.model else 1024)
        # Questions have other vectors than passages with the same words.
        prefix = "? " if request.body["input_type"] == "search_query" else ""
        vectors = [vector_of(prefix + text, size).tolist() for text in request.texts]
        by_type = {"float": vectors} if "embedding_types" in request.body else vectors
        return answer({"embeddings": by_type, "id": "1", "texts": request.texts}, tokens)


def _titan_refusal(model: str, body: dict[str, Any]) -> Reply | None:
    known = {"inputText"} if "v1" in model else {"inputText", "dimensions", "normalize", "embeddingTypes"}
    if (foreign := _foreign(body, known)) is not None:
        return foreign
    if not isinstance(body["inputText"], str):
        return malformed("#/inputText: expected type: String, found: JSONArray")
    if not body["inputText"]:
        return malformed("#/inputText: expected minLength: 1, actual: 0")
    if body.get("dimensions", 1024) not in (1024, 512, 256):
        return malformed("#/dimensions: is not a valid enum value")
    if (tokens := len(body["inputText"].split())) > TITAN_TOKENS:
        message = f"Too many input tokens. Max input tokens: {TITAN_TOKENS}, request input token count: {tokens} "
        return error(400, "ValidationException", f"400 Bad Request: {message}")
    return None


def _cohere_refusal(model: str, body: dict[str, Any]) -> Reply | None:
    known = {"texts", "input_type", "truncate", "embedding_types"}
    is_v4 = "v4" in model
    if (foreign := _foreign(body, known | {"output_dimension"} if is_v4 else known)) is not None:
        return foreign
    if "input_type" not in body:
        return malformed("#: required key [input_type] not found")
    if len(body["texts"]) > COHERE_TEXTS:
        return malformed(f"#/texts: expected maximum item count: {COHERE_TEXTS}, found: {len(body['texts'])}")
    for index, text in enumerate(body["texts"]):
        if len(text) > COHERE_CHARACTERS and not is_v4:
            return malformed(f"#/texts/{index}: expected maxLength: {COHERE_CHARACTERS}, actual: {len(text)}")
    return None


def _foreign(body: dict[str, Any], known: set[str]) -> Reply | None:
    foreign = sorted(body.keys() - known)
    return malformed(f"#: extraneous key [{foreign[0]}] is not permitted") if foreign else None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    rules: BedrockServer

    def handle_error(self, request: object, client_address: object) -> None:
        """Stay quiet: clients that go away in the middle are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        found = re.fullmatch(r"/model/([^/]+)/invoke", self.path)
        if found is None:
            self._send(error(404, "UnknownOperationException"))
            return
        received = Invocation(unquote(found[1]), body, self.headers.get("Authorization", ""))
        self._send(self.server.rules.respond(received))

    def _send(self, reply: Reply) -> None:
        if reply.body is None:
            self.close_connection = True
            return
        self.send_response(reply.status)
        for name, value in {**reply.headers, "Content-Length": str(len(reply.body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)

    def log_message(self, *_: object) -> None:
        """Stay quiet."""
