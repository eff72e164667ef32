"""`backfill --model V`: by the daemon where one runs, else here; in few runs, and never twice."""

import time
from collections.abc import Iterator

import dagster as dg
import pytest
from dagster._core.execution.backfill import BulkActionStatus
from dagster._daemon.types import DaemonHeartbeat
from hypothesis import given
from hypothesis import strategies as st

from ingest_assets.defs.backfills import DAEMONS, count_runs, fewest_runs, keys_in_backfills, unfinished_backfills
from ingest_assets.defs.instance import open_instance
from ingest_assets.defs.resources import close_process_platform, process_platform
from ingest_assets.defs.sensors import due_embeddings
from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.texts import paragraphs

MODELS = "".join(
    f'[[models]]\nversion = "v{size}"\nprovider = "local"\nmodel = "wordllama-l2-supercat"\ndimensions = {size}\n'
    for size in (256, 64)
)
DOCUMENTS = [f"{number}.md" for number in range(12)]


@pytest.fixture
def behind(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """A deployment with three complete documents and a version that was declared afterwards."""
    for name, value in deployment.environment.items():
        if name.startswith("INGEST_"):
            monkeypatch.setenv(name, value)
    deployment.configure(f'[source]\nurl = "inbox"\n{MODELS[: MODELS.index("[[models]]", 1)]}')
    for number in range(3):
        deployment.write(DOCUMENTS[number], f"# Note {number}\n\n" + paragraphs(number, 3))
    deployment.json("run")
    deployment.configure(f'[source]\nurl = "inbox"\n{MODELS}')
    return deployment


@pytest.fixture
def instance(behind: Deployment) -> Iterator[dg.DagsterInstance]:
    """The instance of that deployment, on which a daemon showed a moment ago that it lives."""
    close_process_platform()
    with open_instance(process_platform().settings) as opened:
        for kind in DAEMONS:
            opened.add_daemon_heartbeat(DaemonHeartbeat(time.time(), kind, None))
        yield opened
    close_process_platform()


def test_without_a_daemon_a_backfill_is_run_here(behind: Deployment) -> None:
    """The version is complete afterwards, and a second time there is nothing to do."""
    planned = behind.json("plan", "--model", "v64")["units"]
    found = behind.json("backfill", "--model", "v64")
    assert (found["embedded"], found["ingested"]) == (planned, 0)
    vectors = behind.json("status")["vectors"]
    assert vectors["v64"] == vectors["v256"] > 0
    assert behind.json("backfill", "--model", "v64")["documents"] == 0


def test_the_running_daemon_is_asked_once(behind: Deployment, instance: dg.DagsterInstance) -> None:
    """What was requested can be seen and cancelled in the UI; a second request is refused with what to do."""
    found = behind.json("backfill", "--model", "v64", "--approve-units", "1000")
    assert (found["documents"], found["runs"]) == (3, 1)
    [backfill] = unfinished_backfills(instance)
    assert backfill.backfill_id == found["backfill_id"]
    assert backfill.tags["lane"] == "backfill"
    assert backfill.run_config == {"ops": {"embed_documents": {"config": {"approved_units": 1000}}}}
    assert keys_in_backfills([backfill], "embed", "v64") == set(DOCUMENTS[:3])
    assert keys_in_backfills([backfill], "embed", "v256") == set()
    refused = behind.json("backfill", "--model", "v64", code=1)
    assert f"Backfill {backfill.backfill_id} is at work" in refused["error"]
    assert len(unfinished_backfills(instance)) == 1


def test_the_sensor_leaves_to_a_backfill_what_it_will_do_and_takes_what_is_cancelled(
    behind: Deployment, instance: dg.DagsterInstance
) -> None:
    """Two ways to ask for the same documents do not make two runs of them."""
    behind.json("backfill", "--model", "v64")
    assert due_embeddings(instance, process_platform()) == []
    [backfill] = unfinished_backfills(instance)
    instance.update_backfill(backfill.with_status(BulkActionStatus.CANCELED))
    [due] = due_embeddings(instance, process_platform())
    assert (due.version, due.lane, sorted(due.keys)) == ("v64", "backfill", DOCUMENTS[:3])


def test_a_version_that_is_not_declared_is_refused_with_those_that_are(behind: Deployment) -> None:
    """A typing error costs nothing."""
    refused = behind.json("backfill", "--model", "v65", code=1)
    assert refused["error"] == "The version v65 is not declared; there are: v256, v64."


@given(st.sets(st.sampled_from(DOCUMENTS)), st.integers(1, 12))
def test_a_backfill_asks_for_what_is_missing_in_no_more_runs_than_either_way(wanted: set[str], size: int) -> None:
    """Every wanted document is asked for, and filling the holes is done only where it saves runs."""
    asked = fewest_runs(wanted, DOCUMENTS, size)
    assert wanted <= set(asked)
    runs = count_runs(asked, DOCUMENTS, size)
    assert runs <= count_runs(wanted, DOCUMENTS, size)
    assert runs * size >= len(asked)
    if set(asked) != wanted:
        assert runs < count_runs(wanted, DOCUMENTS, size)


def test_runs_are_counted_as_dagster_cuts_them() -> None:
    """Ranges are cut, and two ranges never share a run."""
    assert count_runs(DOCUMENTS, DOCUMENTS, 5) == 3
    assert count_runs(DOCUMENTS[::2], DOCUMENTS, 5) == 6
    assert count_runs([*DOCUMENTS[:6], *DOCUMENTS[7:]], DOCUMENTS, 5) == 3
    assert fewest_runs(DOCUMENTS[::2], DOCUMENTS, 5) == DOCUMENTS[:11]
