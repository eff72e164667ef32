"""`ingest-assets dev`: the real daemon, webserver and sensors, from a dropped file to an answer."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.texts import paragraphs

SEARCHABLE_SECONDS = 60


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


def is_up(port: int) -> bool:
    """Tell whether the UI answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/server_info", timeout=2) as answer:
            return "dagster_version" in json.load(answer)
    except OSError:
        return False


@pytest.mark.daemon
def test_a_dropped_file_is_searchable_changes_and_disappears_while_dev_runs(deployment: Deployment) -> None:
    """The whole platform as a person uses it, ended by Ctrl-C without a process left behind."""
    port = free_port()
    process = deployment.start("dev", "--port", str(port))
    group: list[psutil.Process] = []
    try:
        wait_for(lambda: is_up(port), 90, "the UI")

        def found(text: str) -> bool:
            hits = deployment.json("search", "spare pumps on the shelf", "-k", "1")
            return bool(hits) and text in hits[0]["text"]

        deployment.write("pumps.md", "# Pumps\n\nThree spare pumps stand on the shelf.\n\n" + paragraphs(1, 6))
        wait_for(lambda: found("Three spare pumps"), SEARCHABLE_SECONDS, "the dropped document in search")
        deployment.write("pumps.md", "# Pumps\n\nSeven spare pumps stand on the shelf.\n\n" + paragraphs(1, 6))
        wait_for(lambda: found("Seven spare pumps"), SEARCHABLE_SECONDS, "the changed document in search")
        (deployment.inbox / "pumps.md").unlink()
        wait_for(
            lambda: deployment.json("search", "spare pumps on the shelf") == [], SEARCHABLE_SECONDS, "the deletion"
        )
        group = psutil.Process(process.pid).children(recursive=True)
        assert group
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=60)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0
    _, alive = psutil.wait_procs(group, timeout=10)
    assert alive == []


def test_a_taken_port_is_said_before_anything_starts(deployment: Deployment) -> None:
    """Exit code 2 and the option that helps."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = deployment.start("dev", "--port", str(taken.getsockname()[1]))
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "--port" in errors


def test_dagsters_own_commands_load_the_workspace_on_the_instance_of_the_settings(deployment: Deployment) -> None:
    """`dagster dev -w workspace.yaml` in a checkout finds the same definitions and the same database as `dev`."""
    project = Path(__file__).parents[1]
    command = [sys.executable, "-m", "dagster", "definitions", "validate", "-w", "workspace.yaml"]
    ran = subprocess.run(
        command, cwd=project, env=deployment.environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    code = (
        "import sys; from dagster import DagsterInstance; from dagster._core.instance import InstanceRef\n"
        "instance = DagsterInstance.from_ref(InstanceRef.from_dir(sys.argv[1], config_dir='.'))\n"
        "print(type(instance.event_log_storage).__name__, instance.run_storage.postgres_url)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(deployment.folder)],
        cwd=project,
        env=deployment.environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.stdout.split() == ["BatchingEventLogStorage", deployment.dagster_url], ran.stderr
