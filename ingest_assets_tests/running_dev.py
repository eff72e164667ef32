"""`ingest-assets dev` in a process group of its own, and the questions that the UI asks it.

Not here: what a test expects of the answers.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psutil

from ingest_assets_tests.fixtures_deployment import Deployment

START_SECONDS, STOP_SECONDS = 90, 60


def free_port() -> int:
    """Return a port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(condition: Callable[[], Any], seconds: float, what: str) -> Any:
    """Return the first true answer, or fail naming what did not come."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if answer := condition():
            return answer
        time.sleep(0.5)
    raise AssertionError(f"not within {seconds} s: {what}")


@dataclass(frozen=True)
class Dev:
    """A running `ingest-assets dev`."""

    process: "subprocess.Popen[bytes]"
    url: str

    def is_up(self) -> bool:
        """Tell whether the UI answers."""
        try:
            with urllib.request.urlopen(f"{self.url}/server_info", timeout=2) as answer:
                return "dagster_version" in json.load(answer)
        except OSError:
            return False

    def graphql(self, query: str, **variables: Any) -> dict[str, Any]:
        """Ask as the UI does, and return the data."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.url}/graphql", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            found = json.load(answer)
        assert "errors" not in found, found["errors"]
        data: dict[str, Any] = found["data"]
        return data

    def kill(self) -> None:
        """End the webserver, the daemon and every run at once, as a lost machine does."""
        everything = [*psutil.Process(self.process.pid).children(recursive=True), psutil.Process(self.process.pid)]
        for process in everything:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait(timeout=STOP_SECONDS)


@contextmanager
def running_dev(deployment: Deployment) -> Iterator[Dev]:
    """Start `dev`, wait until the UI answers, and end it with Ctrl-C unless it is dead already."""
    port = free_port()
    # Into a file: nobody reads while it runs, and a full pipe stops whoever writes into it.
    with (deployment.folder / "dev.log").open("a") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "ingest_assets", "dev", "--port", str(port)],
            cwd=deployment.folder,
            env=deployment.environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    dev = Dev(process, f"http://127.0.0.1:{port}")
    try:
        wait_for(dev.is_up, START_SECONDS, "the UI")
        yield dev
    finally:
        if dev.process.poll() is None:
            dev.process.send_signal(signal.SIGINT)
            try:
                dev.process.wait(timeout=STOP_SECONDS)
            finally:
                if dev.process.poll() is None:
                    os.killpg(dev.process.pid, signal.SIGKILL)
