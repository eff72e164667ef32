"""What alerts are sent to in tests: an HTTP endpoint and a mail server, both real, on free ports.

Not here: what a message must say.
"""

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Endpoint:
    """An HTTP endpoint that keeps what it takes; while `status` is not 200 it takes nothing."""

    port: int = 0
    status: int = 200
    received: list[dict[str, Any]] = field(default_factory=list)

    @property
    def address(self) -> str:
        """The address for Apprise, with a password in it."""
        return f"json://user:s3cret@127.0.0.1:{self.port}/hook"


@contextmanager
def http_endpoint() -> Iterator[Endpoint]:
    """Serve an endpoint while the block runs."""
    endpoint = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if endpoint.status == 200:
                endpoint.received.append(body)
            self.send_response(endpoint.status)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as above
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    endpoint.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()


@dataclass
class MailServer:
    """An SMTP server that keeps what it takes."""

    port: int = 0
    received: list[tuple[str, str]] = field(default_factory=list)  # subject, text

    @property
    def address(self) -> str:
        """The address for Apprise."""
        return f"mailto://127.0.0.1:{self.port}?mode=insecure&from=ingest@example.org&to=ops@example.org"


@contextmanager
def mail_server() -> Iterator[MailServer]:
    """Serve mail while the block runs."""
    mail = MailServer()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self._say("220 sink")
            while line := self.rfile.readline():
                verb = line.strip().upper()
                if verb == b"DATA":
                    self._say("354 go on")
                    mail.received.append(self._message())
                    self._say("250 taken")
                elif verb == b"QUIT":
                    self._say("221 bye")
                    return
                else:
                    self._say("250 sink")

        def _message(self) -> tuple[str, str]:
            lines = []
            while (line := self.rfile.readline()) != b".\r\n":
                lines.append(line.removeprefix(b"."))
            message = message_from_bytes(b"".join(lines), policy=default)
            body = message.get_body(("plain", "html"))
            assert body is not None
            return str(message["subject"]), str(body.get_content())

        def _say(self, text: str) -> None:
            self.wfile.write(text.encode() + b"\r\n")

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    mail.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield mail
    finally:
        server.shutdown()
        server.server_close()
