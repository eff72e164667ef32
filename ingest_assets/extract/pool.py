"""Gives documents to extraction workers and judges what comes back, so that a document costs only itself.

What does not belong here: the workers (`process.py` on this side, `worker.py` on theirs), and what a document's text
or rejection means for the index. Nothing starts before there is something to read.
"""

import atexit
import logging
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

from ingest_assets.errors import DocumentRejected, EnvironmentProblem, Reason
from ingest_assets.extract.limits import is_suspect
from ingest_assets.extract.messages import Answer, ChannelClosed, Request
from ingest_assets.extract.process import END_SECONDS, WorkerProcess, await_any
from ingest_assets.records import Extracted
from ingest_assets.settings import ExtractSettings

logger = logging.getLogger(__name__)

T = TypeVar("T")
Finding = Extracted | DocumentRejected
WORKERS = min(4, os.cpu_count() or 1)
BYTES_IN_WORK = 64 * 1024 * 1024  # of documents that are read side by side; a larger one is read alone
PATIENCE_SECONDS = 0.1  # a worker is started beside others only when they are busy for so long
LOOK_SECONDS = 0.02

_waiting: list[WorkerProcess] = []  # of this process, for its next run
_lock = threading.Lock()


@dataclass(slots=True)
class _Job(Generic[T]):
    ticket: T
    data: bytes
    request: Request
    began: float = 0.0

    @property
    def left_seconds(self) -> float:
        return self.began + self.request.settings.timeout_seconds - time.monotonic()


class Workers(Generic[T]):
    """The workers of one run. Documents come back as they are done, each with the ticket it was submitted with.

    Workers outlive a run that ends well and serve the next one of this process; an error or an abandoned run ends them.
    """

    def __init__(self, settings: ExtractSettings) -> None:
        self._settings = settings
        self._idle: list[WorkerProcess] = []
        self._starting: list[WorkerProcess] = []
        self._busy: dict[WorkerProcess, _Job[T]] = {}
        self._found: deque[tuple[T, Finding]] = deque()

    def __enter__(self) -> Self:
        with _lock:
            for worker in _waiting:
                if worker.is_alive():
                    self._idle.append(worker)
                else:
                    worker.end()
            _waiting.clear()
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        for worker in [*self._busy, *self._starting, *(self._idle if error else ())]:
            worker.end()
        if not error:
            with _lock:
                _waiting.extend(self._idle)

    def warm(self) -> None:
        """Let a worker start while something else is done; free of cost where one is there."""
        if not (self._idle or self._starting or self._busy):
            self._starting.append(WorkerProcess.start())

    def submit(self, ticket: T, data: bytes, key: str) -> None:
        """Give a document to a worker; waits while all are busy.

        Raises:
            EnvironmentProblem: no worker can be started, or a document before this one needs what is not installed.
        """
        while not (self._idle and self._has_room(len(data))):
            self._start_if_worth_it(len(data))
            self._look(PATIENCE_SECONDS)
        self._give(self._idle.pop(), _Job(ticket, data, Request(key, self._settings)))

    def finished(self) -> Iterator[tuple[T, Finding]]:
        """Yield what is done by now."""
        self._look(0.0)
        while self._found:
            yield self._found.popleft()

    def drain(self) -> Iterator[tuple[T, Finding]]:
        """Yield everything that was submitted, waiting for it."""
        yield from self.finished()
        while self._busy:
            self._look(PATIENCE_SECONDS)
            yield from self.finished()

    def _has_room(self, size_bytes: int) -> bool:
        return not self._busy or size_bytes + sum(len(job.data) for job in self._busy.values()) <= BYTES_IN_WORK

    def _start_if_worth_it(self, size_bytes: int) -> None:
        """Start another worker when the others have been busy for a while."""
        if self._starting or self._idle or len(self._busy) >= WORKERS or not self._has_room(size_bytes):
            return
        since = min((job.began for job in self._busy.values()), default=0.0)
        if time.monotonic() - since > PATIENCE_SECONDS:
            self._starting.append(WorkerProcess.start())

    def _give(self, worker: WorkerProcess, job: _Job[T]) -> None:
        job.began = time.monotonic()
        self._busy[worker] = job
        try:
            worker.send(job.request, job.data, job.request.settings.timeout_seconds)
        except OSError:
            self._crashed(worker)

    def _look(self, seconds: float) -> None:
        """Wait up to so long for something to happen, and deal with all that did."""
        ready = await_any([*self._starting, *self._busy], seconds)
        for worker in list(self._starting):
            if worker in ready or worker.is_overdue:
                worker.await_ready()
                self._starting.remove(worker)
                self._idle.append(worker)
        for worker, job in list(self._busy.items()):
            if worker in ready:
                self._take(worker)
            elif job.left_seconds <= 0 and not await_any([worker], 0.0):  # it may have answered since
                worker.end()
                self._done(worker, _timeout(job.request))

    def _take(self, worker: WorkerProcess) -> None:
        try:
            answer = worker.receive()
        except (ChannelClosed, OSError):
            self._crashed(worker)
            return
        if answer.is_last:
            worker.end()
            self.warm()
        else:
            self._idle.append(worker)
        self._done(worker, _finding(answer, self._busy[worker].request))

    def _done(self, worker: WorkerProcess, finding: Finding) -> None:
        self._found.append((self._busy.pop(worker).ticket, finding))

    def _crashed(self, worker: WorkerProcess) -> None:
        """Try a document again that a worker died of: another document may have left the worker damaged."""
        job = self._busy[worker]
        ending = worker.end(END_SECONDS)
        _log(job.request, ending.last_words)
        if ending.code == -signal.SIGXCPU:
            self._done(worker, _timeout(job.request))
            return
        self._done(worker, _read_alone(job.request, job.data))


def _read_alone(request: Request, data: bytes) -> Finding:
    """Read a document in a worker of its own, watched all the time, so that its end says what it died of."""
    worker = WorkerProcess.start()
    try:
        worker.await_ready()
        return _watched(worker, request, data)
    finally:
        worker.end()


def _watched(worker: WorkerProcess, request: Request, data: bytes) -> Finding:
    deadline = time.monotonic() + request.settings.timeout_seconds
    try:
        worker.send(request, data, request.settings.timeout_seconds)
        while not await_any([worker], LOOK_SECONDS):
            if time.monotonic() > deadline:
                return _timeout(request)
            worker.observe()
        return _finding(worker.receive(), request)
    except (ChannelClosed, OSError):
        code = worker.end(END_SECONDS).code
    if code == -signal.SIGXCPU:
        return _timeout(request)
    limit_mb = request.settings.memory_limit_mb
    if is_suspect(worker.peak_bytes - worker.first_bytes, limit_mb):
        return DocumentRejected(Reason.TOO_LARGE, f"Reading it needs more than {limit_mb} MiB of memory.")
    how = f"signal {-code}" if code is not None and code < 0 else f"code {code}"
    return DocumentRejected(Reason.CORRUPT, f"The program that reads it crashed twice ({how}).")


def _timeout(request: Request) -> DocumentRejected:
    return DocumentRejected(Reason.TIMEOUT, f"Reading it took more than {request.settings.timeout_seconds:g} seconds.")


def _finding(answer: Answer, request: Request) -> Finding:
    _log(request, answer.notes)
    if answer.problem:
        raise EnvironmentProblem(answer.problem)
    if answer.extracted is not None:
        return answer.extracted
    return DocumentRejected(answer.reason or Reason.CORRUPT, answer.detail)


def _log(request: Request, notes: str) -> None:
    if notes:
        logger.warning("Extracting %s\n%s", request.key, notes)


@atexit.register
def end_waiting() -> None:
    """End the workers that wait for the next run."""
    with _lock:
        for worker in _waiting:
            worker.end()
        _waiting.clear()


# A fork would send its documents through the same channels, and each process would get the answers of the other.
os.register_at_fork(after_in_child=_waiting.clear)
