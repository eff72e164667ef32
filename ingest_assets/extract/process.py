"""One extraction worker as the run sees it: started, watched, ended.

What does not belong here: which document it gets and what its end means (`pool.py`), and the worker's own side
(`worker.py`).
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import IO, Self

import psutil

from ingest_assets.errors import EnvironmentProblem
from ingest_assets.extract.messages import (
    ANSWER_LIMIT_BYTES,
    Answer,
    Channel,
    ChannelClosed,
    Request,
    decode_answer,
    encode_request,
)
from ingest_assets.settings import harmless_environment

START_SECONDS = 60.0
END_SECONDS = 5.0  # for a worker that hung up to be gone
LAST_WORDS_CHARACTERS = 4000


@dataclass(frozen=True, slots=True)
class Ending:
    """How a worker ended."""

    code: int | None  # negative: the signal that ended it; None: ended by the run
    last_words: str  # what it wrote to its standard error, for example where it crashed


@dataclass(slots=True, eq=False)
class WorkerProcess:
    """A process that reads documents."""

    process: "subprocess.Popen[bytes]"
    channel: Channel
    errors: IO[bytes]
    started: float = field(default_factory=time.monotonic)
    first_bytes: int = 0  # resident when it was ready
    peak_bytes: int = 0  # the most that was seen resident
    ending: Ending | None = None

    @classmethod
    def start(cls) -> Self:
        """Start a worker, without waiting for it.

        It is a new interpreter, since a fork of a process with threads may hang; in a session of its own, where no
        Ctrl-C reaches it; and without secrets.

        Raises:
            EnvironmentProblem: the machine gives no further process.
        """
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-P", "-X", "faulthandler", "-m", "ingest_assets.extract.worker", str(os.getpid())]
        try:
            with theirs:
                errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
                process = subprocess.Popen(
                    command,
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    env={**harmless_environment(), "PYTHONPATH": os.pathsep.join(sys.path)},
                    start_new_session=True,
                )
        except OSError as error:
            ours.close()
            raise EnvironmentProblem(f"A process that extracts documents cannot be started: {error}.") from error
        return cls(process, Channel(ours), errors)

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when it is ready, has an answer, or died."""
        return self.channel.fileno()

    @property
    def is_overdue(self) -> bool:
        """Whether it should have been ready by now."""
        return time.monotonic() - self.started > START_SECONDS

    def await_ready(self) -> None:
        """Wait until it has started; at once where it is overdue.

        Raises:
            EnvironmentProblem: it does not start.
        """
        self.channel.settimeout(max(0.1, self.started + START_SECONDS - time.monotonic()))
        try:
            self.receive()
        except (ChannelClosed, OSError) as error:
            last_words = self.end(END_SECONDS).last_words
            said = last_words.rpartition("\n")[2] or "it says nothing"
            raise EnvironmentProblem(f"The process that extracts documents does not start: {said}.") from error
        self.observe()
        self.first_bytes = self.peak_bytes

    def send(self, request: Request, data: bytes, timeout_seconds: float) -> None:
        """Give it a document. Raises OSError where it is gone, or takes nothing for that long."""
        self.channel.settimeout(timeout_seconds)
        self.channel.send(encode_request(request))
        self.channel.send(data)

    def receive(self) -> Answer:
        """Return its answer. Raises ChannelClosed or OSError where it is gone or confused."""
        return decode_answer(self.channel.receive(ANSWER_LIMIT_BYTES))

    def observe(self) -> None:
        """Look how much memory it has."""
        try:
            self.peak_bytes = max(self.peak_bytes, psutil.Process(self.process.pid).memory_info().rss)
        except psutil.NoSuchProcess:
            return

    def is_alive(self) -> bool:
        """Tell whether it can be given a document."""
        return self.process.poll() is None

    def end(self, patience_seconds: float = 0.0) -> Ending:
        """End it, at once unless it is about to end by itself; calling twice is safe."""
        if self.ending is None:
            try:
                code: int | None = self.process.wait(patience_seconds)
            except subprocess.TimeoutExpired:
                code = None
            # Its group holds what it started itself.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.channel.close()
            self.ending = Ending(code, self._last_words())
        return self.ending

    def _last_words(self) -> str:
        with self.errors:
            self.errors.seek(0)
            return self.errors.read().decode(errors="replace")[-LAST_WORDS_CHARACTERS:].strip()


def await_any(workers: Collection[WorkerProcess], seconds: float) -> list[WorkerProcess]:
    """Wait up to so long and return those that are ready, have an answer, or died."""
    ready = wait([worker.fileno() for worker in workers], seconds)
    return [worker for worker in workers if worker.fileno() in ready]
