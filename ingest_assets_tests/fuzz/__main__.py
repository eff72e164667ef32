"""Feeds damaged documents to every parser for some minutes; any finding is saved, and makes the command fail.

What does not belong here: making documents (mutations.py) and reading them (worker.py). A worker that says nothing
for the time limit of the processor hangs, one that dies has crashed; the next begins behind the document that did it.
"""

import argparse
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

import psutil

from ingest_assets_tests.fuzz.worker import make_input

KINDS = ("docx", "html", "md", "txt", "pdf")
FOLDER = Path("build/fuzz")


class Campaign:
    """One format: its workers, one after the other, until the time is up."""

    def __init__(self, kind: str, options: argparse.Namespace) -> None:
        self._kind = kind
        self._options = options
        self._last = options.first - 1
        self.findings = 0

    def run(self, seconds: float) -> None:
        """Feed documents for so many seconds, and say how many there were."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._watch(end)
        _say(f"{self._kind}: {self._last + 1 - self._options.first} documents, {self.findings} findings")

    def _watch(self, end: float) -> None:
        arguments = [self._kind, str(self._options.seed), str(self._last + 1), str(self._options.memory_limit_mb)]
        command = [sys.executable, "-m", "ingest_assets_tests.fuzz.worker", *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as worker:
            try:
                self._listen(worker, end)
            finally:
                worker.kill()

    def _listen(self, worker: subprocess.Popen[str], end: float) -> None:
        said: queue.Queue[str] = queue.Queue()
        threading.Thread(target=_pass_on, args=(worker.stdout, said), daemon=True).start()
        process = psutil.Process(worker.pid)
        began = _busy_seconds(process)
        while True:
            try:
                line = said.get(timeout=1)
            except queue.Empty:
                if _busy_seconds(process) - began > self._options.seconds:
                    return self._save(f"no answer in {self._options.seconds:g} seconds")
                continue
            began = _busy_seconds(process)
            if not line:
                if worker.wait() != 0:
                    self._save(f"the process dies ({worker.returncode})")
                return None
            number, _, complaint = line.partition(": ")
            self._last = int(number)
            if complaint:
                self._save(complaint)
            elif time.monotonic() > end:
                return None

    def _save(self, complaint: str) -> None:
        self.findings += 1
        key, data = make_input(self._kind, self._options.seed, self._last)
        path = FOLDER / f"{self._kind}-{self._options.seed}-{self._last}-{key}"
        FOLDER.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        _say(f"{self._kind} seed {self._options.seed} number {self._last}: {complaint}; saved as {path}")


def _busy_seconds(process: psutil.Process) -> float:
    """Return the processor's time, not the clock's: a busy machine is no hang. A dead process used none."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _pass_on(stream: IO[str] | None, said: "queue.Queue[str]") -> None:
    for line in stream or ():
        said.put(line.strip())
    said.put("")


def main() -> int:
    """Run the campaigns and return 1 where anything was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=1.0, help="in all, shared by the formats")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="formats")
    parser.add_argument("--seed", type=int, default=time.time_ns() // 10**9, help="of the inputs; printed")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--seconds", type=float, default=20.0, help="of the processor for one document")
    parser.add_argument("--memory-limit-mb", type=int, default=1024, help="for one document, in MiB")
    options = parser.parse_args()
    _say(f"seed {options.seed}")
    campaigns = [Campaign(kind, options) for kind in options.kinds]
    for campaign in campaigns:
        campaign.run(options.minutes * 60 / len(campaigns))
    return int(any(campaign.findings for campaign in campaigns))


if __name__ == "__main__":
    sys.exit(main())
