"""An OpenAI-compatible embedding server that meters what it is sent, fast enough to measure clients with.

    .venv/bin/python benchmarks/metered_server.py [--tokens-per-minute N] [--requests-per-minute N] [--help]

It prints its address, serves `POST /v1/embeddings`, and answers `GET /stats` (counters), `GET /log` (each request and
whether it was let in) and `POST /reset`. What does not belong here: what is let in, billed and answered
(`metering.py`), corpora and clients. A text's tokens are its words: corpora for this server hold words that are one
cl100k token each, with one blank between them, so that server and clients count alike and nothing is tokenised here.
"""

import argparse
import asyncio
import json
import signal
import time
from collections.abc import Callable
from dataclasses import MISSING, fields
from http import HTTPStatus

from metering import Counters, Meter, Reply, Rules, error_reply


class Connection(asyncio.Protocol):
    """One kept-alive HTTP/1.1 connection whose client waits for an answer before it asks again."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.loop = asyncio.get_running_loop()
        self.buffer = bytearray()
        self.body_at = 0  # 0 while the head has not arrived
        self.needed = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Collect a request, and answer when it is whole."""
        self.buffer += data
        if not self.body_at:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            self.body_at = end + 4
            self.needed = self.body_at + _content_length(bytes(self.buffer[:end]))
        if len(self.buffer) >= self.needed:
            request = bytes(self.buffer[: self.needed])
            body_at = self.body_at
            del self.buffer[: self.needed]
            self.body_at = 0
            self._respond(request[: request.index(b"\r\n")].split(b" "), request[body_at:])

    def _respond(self, line: list[bytes], body: bytes) -> None:
        meter, path = self.meter, b" ".join(line[:2])
        if path == b"POST /v1/embeddings":
            counters = meter.counters
            counters.in_flight += 1
            counters.in_flight_maximum = max(counters.in_flight_maximum, counters.in_flight)
            seconds, reply = meter.embeddings(body)
            self.loop.call_later(seconds, self._finish, counters, reply)
        elif path == b"GET /stats":
            self._send((200, json.dumps(meter.counters.stats()).encode(), ""))
        elif path == b"GET /log":
            self._send((200, json.dumps(meter.counters.log).encode(), ""))
        elif path == b"POST /reset":
            meter.reset()
            self._send((200, b"{}", ""))
        else:
            self._send(error_reply(HTTPStatus.NOT_FOUND, "no such path"))

    def _finish(self, counters: Counters, reply: Reply | None) -> None:
        counters.in_flight -= 1
        counters.last_answer_at = time.monotonic()
        if reply is None:
            self.transport.abort()
        else:
            self._send(reply)

    def _send(self, reply: Reply) -> None:
        if not self.transport.is_closing():
            status, body, header = reply
            length = f"content-length: {len(body)}\r\n"
            head = f"HTTP/1.1 {status} -\r\ncontent-type: application/json\r\n{length}{header}\r\n"
            self.transport.write(head.encode() + body)


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


async def serve(rules: Rules, port: int, announce: Callable[[str], None]) -> None:
    """Serve on a port (0 takes a free one) until SIGTERM or SIGINT."""
    meter, loop, stop = Meter(rules), asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    listening = await loop.create_server(lambda: Connection(meter), "127.0.0.1", port, backlog=256)
    announce(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1")
    await stop.wait()
    listening.close()


def main() -> None:
    """Read the rules from the command line, one option for each, and serve."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    for rule in fields(Rules):
        assert rule.default is not MISSING
        name = f"--{rule.name.replace('_', '-')}"
        if isinstance(rule.default, bool):
            parser.add_argument(name, action=argparse.BooleanOptionalAction, default=rule.default)
        else:
            parser.add_argument(name, type=float if rule.default is None else type(rule.default), default=rule.default)
    given = vars(parser.parse_args())
    port = given.pop("port")
    asyncio.run(serve(Rules(**given), port, lambda url: print(url, flush=True)))


if __name__ == "__main__":
    main()
