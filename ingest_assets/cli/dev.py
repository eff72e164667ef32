"""`ingest-assets dev`: everything a person needs on one machine, until Ctrl-C.

What does not belong here: the services themselves; Dagster's own `dev` command runs webserver, daemon and code.
"""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from ingest_assets.cli.context import settings_or_leave
from ingest_assets.cli.output import console, leave
from ingest_assets.embedded import DatabaseUrls
from ingest_assets.errors import EnvironmentProblem, IngestError
from ingest_assets.platform import open_platform
from ingest_assets.settings import AlertSettings, Settings

EXAMPLES = "Examples: `ingest-assets dev` · `ingest-assets --config prod.toml dev --port 3001`"
HOST = "127.0.0.1"
EVENTS_PER_STATEMENT = 1000
START_SECONDS = 90.0
STOP_SECONDS = 30.0


def dev(port: Annotated[int, typer.Option(help="Port of the UI.", min=1, max=65535)] = 3000) -> None:
    """Start the embedded services, the Dagster UI and the daemon, with sensors on; Ctrl-C ends all of it."""
    settings = settings_or_leave(as_json=False)
    try:
        _require_free(port)
        _make_inbox(settings)
        with open_platform() as platform:
            code = _serve(platform.settings, platform.urls, port)
    except IngestError as error:
        leave(error, as_json=False)
    raise typer.Exit(code)


def _serve(settings: Settings, urls: DatabaseUrls, port: int) -> int:
    from ingest_assets.defs.instance import prepare_home

    environment = {
        **os.environ,
        "DAGSTER_HOME": str(prepare_home(settings)),
        "INGEST_DATABASE__URL": urls.ingest,
        "INGEST_DATABASE__DAGSTER_URL": urls.dagster,
        # Dagster writes the planned events of a run that it makes for many partitions in batches, not one by one.
        "DAGSTER_EVENT_BATCH_SIZE": str(EVENTS_PER_STATEMENT),
    }
    if settings.alerts.ui_url == AlertSettings().ui_url:  # nobody named another place: links lead to this one
        environment["INGEST_ALERTS__UI_URL"] = f"http://{HOST}:{port}"
    command = [sys.executable, "-m", "dagster", "dev", "-m", "ingest_assets.definitions", "-h", HOST, "-p", str(port)]
    with _stop_requested() as is_stopping, _children(command, environment) as process:
        if _wait_until_up(process, port, is_stopping):
            console.print(f"[bold]Dagster UI: http://{HOST}:{port}[/bold]  (Ctrl-C ends everything)")
            console.print(f"Drop documents into {settings.source.url}", highlight=False)
        while process.poll() is None and not is_stopping:
            time.sleep(0.2)
    return 0 if is_stopping else process.returncode


@contextmanager
def _stop_requested() -> Iterator[list[int]]:
    """Note Ctrl-C and a termination instead of dying of them, so that everything can be ended in order."""
    received: list[int] = []
    previous = {number: signal.signal(number, lambda caught, _: received.append(caught)) for number in _SIGNALS}
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def _children(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run Dagster in a process group of its own and end the whole group, runs included."""
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        yield process
    finally:
        _end_group(process)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    for number, seconds in ((signal.SIGINT, STOP_SECONDS), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and _group_lives(process):
            time.sleep(0.1)


def _group_lives(process: subprocess.Popen[bytes]) -> bool:
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


def _wait_until_up(process: subprocess.Popen[bytes], port: int, is_stopping: list[int]) -> bool:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None and not is_stopping:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{port}/server_info", timeout=2):
                return True
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
    return False


def _require_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise EnvironmentProblem(f"Port {port} is taken; choose another with --port.") from error


def _make_inbox(settings: Settings) -> None:
    """Make the default inbox, so that a first `dev` has somewhere to drop documents; never a folder somebody named."""
    folder = Path(settings.source.url.removeprefix("file://"))
    if settings.source.url.startswith("file://") and folder.name == "inbox" and folder.parent.is_dir():
        folder.mkdir(exist_ok=True)
