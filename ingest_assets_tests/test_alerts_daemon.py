"""Alerts from the real daemon, which is lost and started again in between; and of a daemon that is not there."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.remote_origin import InProcessCodeLocationOrigin, RemoteInstigatorOrigin, RemoteRepositoryOrigin
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    SensorInstigatorData,
    TickData,
    TickStatus,
)
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._daemon.types import DaemonHeartbeat
from dagster_shared.error import SerializableErrorInfo

from ingest_assets.alerts import Trouble
from ingest_assets.defs.instance import open_instance, prepare_home
from ingest_assets.defs.troubles import STILL_SECONDS, sensors_in_trouble
from ingest_assets.settings import load_settings
from ingest_assets_tests.alert_receivers import http_endpoint, mail_server
from ingest_assets_tests.embedding_server import EmbeddingServer, error
from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.running_dev import Dev, running_dev, wait_for

LETTER, HASH = "The check unresolved_dead_letters fails", "The check hash_freshness fails"
RUN = "Runs of chunk_vectors at v1 fail"
LOCATION = "query { repositoriesOrError { ... on RepositoryConnection { nodes { name location { name } } } } }"
LAUNCH = """mutation($place: String!, $repository: String!, $job: String!) { launchRun(executionParams: {
    selector: {repositoryLocationName: $place, repositoryName: $repository, jobName: $job}
    runConfigData: "{}" }) { __typename ... on PythonError { message } } }"""


def launch(dev: Dev, job: str) -> None:
    """Launch a job as its page in the UI does."""
    [found] = dev.graphql(LOCATION)["repositoriesOrError"]["nodes"]
    variables = {"place": found["location"]["name"], "repository": found["name"], "job": job}
    launched = dev.graphql(LAUNCH, **variables)["launchRun"]
    assert launched["__typename"] == "LaunchRunSuccess", launched


@pytest.mark.daemon
def test_the_daemon_tells_once_across_a_restart_and_says_when_it_is_well_again(
    deployment: Deployment, embedding_server: EmbeddingServer
) -> None:
    """A dead letter, a failed run, a broken hash, by HTTP and by mail: each once, nothing again after the restart."""
    with http_endpoint() as endpoint, mail_server() as mail:
        deployment.configure(
            '[source]\nurl = "inbox"\n[[models]]\nversion = "v1"\nprovider = "openai"\nmodel = "m"\ndimensions = 8\n'
            f'base_url = "{embedding_server.url}"\n'
        )
        deployment.extra_environment["INGEST_ALERTS__URLS"] = f"{endpoint.address} {mail.address}"
        deployment.extra_environment["OPENAI_API_KEY"] = "a-key"

        def told(text: str) -> list[str]:
            """Return the lines that say this, in every message so far."""
            return [line for item in endpoint.received for line in item["message"].splitlines() if text in line]

        deployment.write("good.md", "The good pump was inspected on the first day.")
        deployment.write("bad.md", b"\x89PNG\r\n\x1a\n" + bytes(100))
        with running_dev(deployment) as dev:
            wait_for(lambda: told(LETTER), 150, "the message about the dead letter")
            deployment.query("UPDATE ingest.chunks SET text = text || '!'")
            launch(dev, "check_everything")
            wait_for(lambda: told(HASH), 150, "the message about the broken hash")
            embedding_server.always = error(401, "Incorrect API key", code="invalid_api_key")
            deployment.write("more.md", "Another pump was inspected on the second day.")
            wait_for(lambda: told(RUN), 150, "the message about the failed run")
            dev.kill()
        before = len(endpoint.received)
        with running_dev(deployment) as dev:
            time.sleep(75)  # two looks of the sensor and more
            assert len(endpoint.received) == before
            embedding_server.always = None
            deployment.write("bad.md", "The bad pump was inspected on the third day, and its seal was replaced.")
            deployment.query("UPDATE ingest.chunks SET text = rtrim(text, '!') WHERE text LIKE '%!'")
            wait_for(
                lambda: all(told(text)[-1].startswith("Well again") for text in (LETTER, RUN)), 240, "what is mended"
            )
            launch(dev, "check_everything")
            wait_for(lambda: told(HASH)[-1].startswith("Well again"), 150, f"the recovery of {told(HASH)}")
    for trouble in (LETTER, HASH, RUN):
        first, last = told(trouble)
        assert not first.startswith("Well again"), first
        assert last.startswith("Well again"), last
    wait_for(lambda: len(mail.received) == len(endpoint.received), 30, "the same by mail")
    assert [subject for subject, _ in mail.received] == [item["title"] for item in endpoint.received]


@pytest.fixture
def instance(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    """An instance on which nothing runs."""
    for name, value in deployment.environment.items():
        if name.startswith("INGEST_"):
            monkeypatch.setenv(name, value)
    with open_instance(load_settings()) as opened:
        yield opened


def add_sensor(instance: dg.DagsterInstance, name: str, status: InstigatorStatus, tick: TickStatus, ago: float) -> None:
    """Note a sensor with one tick, as the daemon does."""
    location = InProcessCodeLocationOrigin(LoadableTargetOrigin(module_name="ingest_assets.definitions"))
    origin = RemoteInstigatorOrigin(RemoteRepositoryOrigin(location, "__repository__"), name)
    data = SensorInstigatorData(min_interval=10)
    instance.add_instigator_state(InstigatorState(origin, InstigatorType.SENSOR, status, data))
    error = SerializableErrorInfo("the settings file has a mistake", [], "SettingsError")
    instance.create_tick(
        TickData(
            instigator_origin_id=origin.get_id(),
            instigator_name=name,
            instigator_type=InstigatorType.SENSOR,
            status=tick,
            timestamp=time.time() - ago,
            error=error if tick == TickStatus.FAILURE else None,
            selector_id=origin.get_selector().get_id() if hasattr(origin, "get_selector") else None,
        )
    )


def heartbeat(instance: dg.DagsterInstance, ago: float) -> None:
    """Note when the daemon last showed that it lives."""
    instance.add_daemon_heartbeat(DaemonHeartbeat(time.time() - ago, "SENSOR", None))


def found(instance: dg.DagsterInstance) -> dict[str, Trouble]:
    """Return what is wrong with sensors and the daemon."""
    return {trouble.key: trouble for trouble in sensors_in_trouble(instance)}


def test_a_daemon_that_stands_still_is_one_trouble_not_one_for_each_sensor(instance: dg.DagsterInstance) -> None:
    """Seen from outside: the daemon cannot say so itself."""
    assert found(instance) == {}
    for name in ("source_sensor", "embedding_sensor"):
        add_sensor(instance, name, InstigatorStatus.RUNNING, TickStatus.SKIPPED, ago=2 * STILL_SECONDS)
    heartbeat(instance, ago=2 * STILL_SECONDS)
    assert set(found(instance)) == {"daemon"}
    heartbeat(instance, ago=1)
    location: Any = found(instance)["location"]
    assert location.count == 2
    assert location.command == "dagster definitions validate -w workspace.yaml"
    assert "embedding_sensor, source_sensor" in location.where


def test_a_location_that_never_loaded_is_told_from_outside_after_some_minutes(instance: dg.DagsterInstance) -> None:
    """The daemon runs and knows of no sensor; while it starts that is nothing yet."""
    heartbeat(instance, ago=1)
    location = found(instance)["location"]
    assert "has not loaded" in location.what
    assert location.patience_seconds == STILL_SECONDS
    add_sensor(instance, "source_sensor", InstigatorStatus.RUNNING, TickStatus.SKIPPED, ago=5)
    assert found(instance) == {}


@pytest.mark.daemon
def test_a_location_that_cannot_be_imported_is_told_from_outside(
    deployment: Deployment, instance: dg.DagsterInstance
) -> None:
    """The real daemon lives and says nothing about it; whoever watches from outside does."""
    (deployment.folder / "half_upgraded.py").write_text("import a_module_that_is_not_installed\n")
    (deployment.folder / "workspace.yaml").write_text(
        f"load_from:\n  - python_file: {deployment.folder / 'half_upgraded.py'}\n"
    )
    home = {"DAGSTER_HOME": str(prepare_home(load_settings()))}
    with (deployment.folder / "daemon.log").open("w") as log:
        daemon = subprocess.Popen(
            [Path(sys.executable).parent / "dagster-daemon", "run", "-w", "workspace.yaml"],
            cwd=deployment.folder,
            env=deployment.environment | home,
            stdout=log,
            stderr=log,
        )
    try:
        location: Trouble = wait_for(lambda: found(instance).get("location"), 60, "the location that does not load")
    finally:
        daemon.terminate()
        daemon.wait(timeout=30)
    assert "a_module_that_is_not_installed" in (deployment.folder / "daemon.log").read_text()
    assert location.what == "The code location has not loaded: the daemon runs, and no sensor has ever ticked."
    assert location.command == "dagster definitions validate -w workspace.yaml"


def test_a_sensor_that_fails_or_is_switched_off_is_told_by_name(instance: dg.DagsterInstance) -> None:
    """The others go on, and what they do is no trouble."""
    heartbeat(instance, ago=1)
    add_sensor(instance, "source_sensor", InstigatorStatus.RUNNING, TickStatus.FAILURE, ago=5)
    add_sensor(instance, "embedding_sensor", InstigatorStatus.STOPPED, TickStatus.SKIPPED, ago=900)
    add_sensor(instance, "deletion_sensor", InstigatorStatus.RUNNING, TickStatus.SKIPPED, ago=5)
    assert {key: trouble.what for key, trouble in found(instance).items()} == {
        "sensor/source_sensor": "The sensor source_sensor fails: the settings file has a mistake.",
        "sensor/embedding_sensor": "The sensor embedding_sensor is switched off.",
    }
