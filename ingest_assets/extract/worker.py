"""The process that extracts: one document after the other, within limits, until the run hangs up.

What does not belong here: the run's side (`process.py`, `pool.py`), and how formats are read. Nothing here is imported
by the run: `python -m ingest_assets.extract.worker PARENT_PID` talks over its standard input.
"""

import ctypes
import io
import logging
import os
import resource
import select
import signal
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace

from ingest_assets.errors import DocumentRejected, EnvironmentProblem, Reason
from ingest_assets.extract import extract
from ingest_assets.extract.limits import Memory, limited, set_limit
from ingest_assets.extract.messages import (
    ANSWER_LIMIT_BYTES,
    Answer,
    Channel,
    ChannelClosed,
    Request,
    decode_request,
    encode_answer,
)

IDLE_SECONDS = 60.0  # a worker that nobody needs any more leaves
DOCUMENTS = 2000  # read by one worker; starting one costs half a second
GROWTH_BYTES = 128 * 1024 * 1024  # kept after a document, beyond what a new worker has
FILE_BYTES = 256 * 1024 * 1024  # a worker writes only last words, and pictures of pages that are to be recognised
NOTES_CHARACTERS = 8000
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_OVERSIZED = Answer(None, Reason.TOO_LARGE, "Reading it needs more memory than is allowed.", is_last=True)
_OVERSIZED_MESSAGE = encode_answer(_OVERSIZED)  # there may be no memory left to make it when it is needed


def main() -> None:
    """Answer requests until the run is gone or has been silent for long."""
    _die_with(int(sys.argv[1]))
    set_limit(resource.RLIMIT_CORE, 0)
    set_limit(resource.RLIMIT_FSIZE, FILE_BYTES)
    log = io.StringIO()
    logging.basicConfig(stream=log, format="%(name)s: %(message)s", level=logging.WARNING)
    channel = Channel(socket.socket(fileno=os.dup(0)))
    channel.send(encode_answer(Answer()))  # ready
    first = Memory.now()
    try:
        for count in range(1, DOCUMENTS + 1):
            if not select.select([channel], [], [], IDLE_SECONDS)[0]:
                return
            _serve(channel, log, first, is_last=count == DOCUMENTS)
    except (ChannelClosed, OSError):
        return  # the run is gone


def _serve(channel: Channel, log: io.StringIO, first: Memory, *, is_last: bool) -> None:
    before = Memory.now()
    before.forget_peak()
    request, data = decode_request(channel.receive()), channel.receive()
    try:
        with limited(request.settings, before):
            answer = _answer(request, data, before)
            grown_bytes = Memory.now().allocated_bytes - len(data) - first.allocated_bytes
            is_last = is_last or answer.is_last or grown_bytes > GROWTH_BYTES
            message = encode_answer(replace(answer, notes=log.getvalue()[-NOTES_CHARACTERS:], is_last=is_last))
    except MemoryError:
        message = _OVERSIZED_MESSAGE
    channel.send(message if len(message) <= ANSWER_LIMIT_BYTES else _OVERSIZED_MESSAGE)
    log.seek(0)
    log.truncate()


def _answer(request: Request, data: bytes, before: Memory) -> Answer:
    try:
        return Answer(extract(data, request.key, request.settings))
    except EnvironmentProblem as error:
        return Answer(problem=str(error))
    except DocumentRejected as error:
        # Libraries that get no memory call the document damaged.
        is_suspect = error.reason is Reason.CORRUPT and before.is_peak_suspect(request.settings.memory_limit_mb)
        if is_suspect or any(isinstance(cause, MemoryError) for cause in _causes(error)):
            return _OVERSIZED
        return Answer(None, error.reason, error.detail)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _die_with(parent: int) -> None:
    """End when the run's process does, also in the middle of a document; elsewhere than on Linux, after it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit()


if __name__ == "__main__":
    main()
