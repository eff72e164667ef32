"""What a run and its extraction workers say to each other: a document to be read, and what was found in it.

What does not belong here: processes. JSON and not pickle, because whoever unpickles runs what it is sent: a file that
takes over a worker must not reach the run, which holds the credentials.
"""

import json
import socket
import struct
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from ingest_assets.errors import Reason
from ingest_assets.records import Extracted
from ingest_assets.settings import ExtractSettings

ANSWER_LIMIT_BYTES = 256 * 1024 * 1024  # a run holds the answer in its own memory, which nothing bounds
_SIZE = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class Request:
    """One document to be read, without its bytes."""

    key: str
    settings: ExtractSettings


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one document, and what the run should know about the worker."""

    extracted: Extracted | None = None
    reason: Reason | None = None  # of a rejection
    detail: str = ""
    problem: str = ""  # why no document of this kind can be read on this machine
    notes: str = ""  # what was logged meanwhile, tracebacks included
    is_last: bool = False  # the worker has read or grown enough and is to be replaced


class ChannelClosed(Exception):
    """The other side is gone, or does not say what it should."""


class Channel:
    """One end of a pair of sockets; messages follow each other with their sizes."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._stream = connected.makefile("rb")

    def fileno(self) -> int:
        """Return the descriptor to wait on; the sides take turns, so nothing read ahead is ever left in a buffer."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close this end."""
        self._stream.close()
        self._socket.close()

    def settimeout(self, seconds: float) -> None:
        """Let sends and receives fail with TimeoutError when the other side does nothing for so long."""
        self._socket.settimeout(seconds)

    def send(self, data: bytes) -> None:
        """Send a message. Raises OSError where the other side is gone."""
        self._socket.sendall(_SIZE.pack(len(data)))
        self._socket.sendall(data)

    def receive(self, limit_bytes: int | None = None) -> bytes:
        """Wait for a message. Raises ChannelClosed where none comes, or a longer one; OSError at the timeout."""
        [size] = _SIZE.unpack(self._read(_SIZE.size))
        if limit_bytes is not None and size > limit_bytes:
            raise ChannelClosed
        return self._read(size)

    def _read(self, size: int) -> bytes:
        data = self._stream.read(size)
        if len(data) < size:
            raise ChannelClosed
        return data


def encode_request(request: Request) -> bytes:
    """Return the message for a request; escapes keep names that are no valid Unicode."""
    return json.dumps({"key": request.key, "settings": request.settings.model_dump()}).encode()


def decode_request(message: bytes) -> Request:
    """Return the request of a message."""
    parts = json.loads(message)
    return Request(parts["key"], ExtractSettings(**parts["settings"]))


def encode_answer(answer: Answer) -> bytes:
    """Return the message for an answer. Raises ValueError for text that is no valid Unicode."""
    return _ANSWER.dump_json(answer)


def decode_answer(message: bytes) -> Answer:
    """Return the answer of a message. Raises ChannelClosed where it is none."""
    try:
        return _ANSWER.validate_json(message)
    except ValidationError:
        raise ChannelClosed from None  # its message would quote the document


_ANSWER = TypeAdapter(Answer)
