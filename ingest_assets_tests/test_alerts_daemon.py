"""Alerts from the real daemon, which is lost and started again in between; and of a daemon that is not there."""

import time
from collections.abc import Iterator
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
from ingest_assets.defs.instance import open_instance
from ingest_assets.defs.troubles import STILL_SECONDS, sensors_in_trouble
from ingest_assets.settings import load_settings
from ingest_assets_tests.alert_receivers import http_endpoint, mail_server
from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.running_dev import running_dev, wait_for


@pytest.mark.daemon
def test_the_daemon_tells_once_across_a_restart_and_says_when_it_is_well_again(deployment: Deployment) -> None:
    """A dead letter: one message by HTTP and one by mail, none after the restart, one more when it is mended."""
    with http_endpoint() as endpoint, mail_server() as mail:
        deployment.extra_environment["INGEST_ALERTS__URLS"] = f"{endpoint.address} {mail.address}"
        deployment.write("bad.md", b"\x89PNG\r\n\x1a\n" + bytes(100))
        with running_dev(deployment) as dev:
            wait_for(lambda: endpoint.received and mail.received, 150, "the message about the dead letter")
            dev.kill()
        with running_dev(deployment):
            time.sleep(75)  # two looks of the sensor and more
            assert len(endpoint.received) == len(mail.received) == 1
            deployment.write("bad.md", "The pump was inspected on the third day, and its seal was replaced.")
            wait_for(lambda: len(endpoint.received) == len(mail.received) == 2, 150, "the message about the recovery")
    first, last = (item["title"] for item in endpoint.received)
    assert first.startswith("ingest-assets: wrong: The check unresolved_dead_letters fails")
    assert last.startswith("ingest-assets: well again: The check unresolved_dead_letters fails")
    assert [subject for subject, _ in mail.received] == [first, last]


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
