"""Commands as processes of their own that begin at once: forked from a process that has loaded everything.

Loading takes seconds, and a process that is to be killed at a chosen moment is wanted many times. What does not belong
here: what is killed, and when.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ingest_assets_tests.fixtures_deployment import Deployment

LOADED = """
import json, os, sys
from ingest_assets.cli.app import app
import ingest_assets.changes, ingest_assets.definitions, ingest_assets.defs.passes, ingest_assets.status
print("loaded", flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        code = 70
        try:
            with open(os.devnull, "r+") as nowhere:
                for number in (0, 1, 2):
                    os.dup2(nowhere.fileno(), number)
            app(json.loads(line))
        except SystemExit as left:
            code = int(left.code or 0)
        finally:
            os._exit(code)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@dataclass
class Forked:
    """One command at work."""

    pid: int
    answers: Iterator[str]

    def kill(self) -> bool:
        """Kill it; False where it ended before."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        return self.wait() == -signal.SIGKILL

    def wait(self) -> int:
        """Wait for its end and return its exit code."""
        return int(next(self.answers))


class Commands:
    """Starts commands of one deployment."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._requests, self._answers = process.stdin, iter(process.stdout)
        assert next(self._answers).strip() == "loaded"

    def start(self, *arguments: str) -> Forked:
        """Start a command; the one before has ended."""
        self._requests.write(json.dumps(arguments) + "\n")
        self._requests.flush()
        return Forked(int(next(self._answers)), self._answers)


@contextmanager
def forked_commands(deployment: Deployment) -> Iterator[Commands]:
    """Load everything once; the process ends with the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", LOADED],
        cwd=deployment.folder,
        env=deployment.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Commands(process)
    finally:
        process.kill()
        process.wait()
