"""Housekeeping: keys of what is gone go, but never under something unfinished; old events go, no state is lost."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime

import dagster as dg
import psycopg
import pytest
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill

from ingest_assets.definitions import build_definitions
from ingest_assets.defs.housekeeping import keep_house
from ingest_assets.defs.instance import open_instance
from ingest_assets.defs.partitions import add_documents, document_versions, documents
from ingest_assets.defs.requests import ASSETS
from ingest_assets.defs.resources import close_process_platform, process_platform
from ingest_assets.platform import Platform
from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.texts import paragraphs

VERSION = "wordllama-256-v1"


@pytest.fixture
def platform(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> Iterator[Platform]:
    """The platform of a deployment that ingested three documents, of which one is bad and one was deleted again."""
    for name, value in deployment.environment.items():
        if name.startswith("INGEST_"):
            monkeypatch.setenv(name, value)
    deployment.configure('[source]\nurl = "inbox"\ndeletion_grace_seconds = 0\n')
    deployment.write("good.md", "# Pumps\n\n" + paragraphs(1, 3))
    deployment.write("gone.md", "# Valves\n\n" + paragraphs(2, 3))
    deployment.write("bad.pdf", b"\x89PNG\r\n\x1a\n" + bytes(100))
    deployment.json("run", code=1)
    (deployment.inbox / "gone.md").unlink()
    deployment.json("run", code=1)
    close_process_platform()
    yield process_platform()
    close_process_platform()


@pytest.fixture
def instance(platform: Platform) -> Iterator[dg.DagsterInstance]:
    """The instance of that deployment."""
    with open_instance(platform.settings) as opened:
        yield opened


def keys(instance: dg.DagsterInstance) -> list[str]:
    """Return the document partitions."""
    return sorted(instance.get_dynamic_partitions("documents"))


def state(instance: dg.DagsterInstance) -> dict[str, dict[str, str]]:
    """Return the state of every partition as the UI shows it."""
    found = {}
    for kind, definition in (("ingest", documents), ("embed", document_versions)):
        names = list(definition.get_partition_keys(dynamic_partitions_store=instance))
        for asset in ASSETS[kind]:  # type: ignore[index]
            statuses = instance.get_status_by_partition(dg.AssetKey(asset), names, definition) or {}
            found[asset] = {str(key): status.value for key, status in statuses.items() if status}
    return found


def age(url: str, days: int) -> None:
    """Make everything in Dagster's log older."""
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE event_logs SET timestamp = timestamp - make_interval(days => %s)", [days])
        connection.execute("UPDATE runs SET update_timestamp = update_timestamp - make_interval(days => %s)", [days])


def events(url: str) -> dict[str, int]:
    """Return the rows of the event log by type."""
    with psycopg.connect(url) as connection:
        return dict(
            connection.execute(
                "SELECT coalesce(dagster_event_type, 'message'), count(*) FROM event_logs GROUP BY 1"
            ).fetchall()
        )


def test_the_key_of_a_deleted_document_goes_and_its_green_with_it(
    deployment: Deployment, platform: Platform, instance: dg.DagsterInstance
) -> None:
    """A document that comes back under the same key starts without the state of its former life."""
    assert keys(instance) == ["bad.pdf", "gone.md", "good.md"]
    assert keep_house(instance, platform)["removed partition keys"] == 1
    assert keys(instance) == ["bad.pdf", "good.md"]
    assert keep_house(instance, platform)["removed partition keys"] == 0
    add_documents(instance, ["gone.md"])
    assert state(instance) == {
        "documents": {"good.md": "MATERIALIZED", "bad.pdf": "FAILED"},
        "chunks": {"good.md": "MATERIALIZED", "bad.pdf": "FAILED"},
        **{asset: {f"good.md|{VERSION}": "MATERIALIZED"} for asset in ASSETS["embed"]},
    }


@pytest.mark.parametrize("covered_by", ["a run that names it", "a run of its partition", "a range", "a backfill"])
def test_a_key_stays_while_something_unfinished_covers_it(
    platform: Platform, instance: dg.DagsterInstance, covered_by: str
) -> None:
    """A backfill whose key is gone fails as a whole, and a range whose end is gone cannot start."""
    tags = {
        "a run of its partition": {"dagster/partition": "gone.md"},
        "a range": {"dagster/asset_partition_range_start": "bad.pdf", "dagster/asset_partition_range_end": "good.md"},
    }
    if covered_by == "a backfill":
        graph = build_definitions().resolve_asset_graph()
        backfill = PartitionBackfill.from_asset_partitions(
            "abcdefgh",
            graph,
            ["good.md"],
            [dg.AssetKey("documents")],
            datetime.now(tz=UTC).timestamp(),
            {},
            instance,
            all_partitions=False,
            title=None,
            description=None,
            run_config=None,
        )
        instance.add_backfill(backfill)
    else:
        job = build_definitions().resolve_implicit_global_asset_job_def()
        selected = {dg.AssetKey(name) for name in ASSETS["ingest"]}
        named = {"ops": {"ingest_documents": {"config": {"keys": ["gone.md"] if covered_by not in tags else []}}}}
        instance.create_run_for_job(
            job,
            run_config=named,
            asset_selection=selected,
            tags=tags.get(covered_by, {}),
            status=dg.DagsterRunStatus.NOT_STARTED.value,
        )
    assert keep_house(instance, platform)["removed partition keys"] == 0
    assert "gone.md" in keys(instance)
    if covered_by == "a backfill":
        instance.update_backfill(backfill.with_status(BulkActionStatus.CANCELED))
    else:
        [run] = instance.get_runs(filters=dg.RunsFilter(statuses=[dg.DagsterRunStatus.NOT_STARTED]))
        instance.report_run_canceled(run)
    assert keep_house(instance, platform)["removed partition keys"] == 1


def test_a_document_without_a_partition_gets_one(platform: Platform, instance: dg.DagsterInstance) -> None:
    """Whatever removed it, nothing stays out of sight for more than a day."""
    instance.delete_dynamic_partition("documents", "good.md")
    assert keep_house(instance, platform)["added partition keys"] == 1
    assert "good.md" in keys(instance)


def test_a_version_that_nobody_declared_goes_and_those_of_the_settings_stay(
    deployment: Deployment, platform: Platform, instance: dg.DagsterInstance
) -> None:
    """Somebody typed it into the UI's picker; a declared version may have its partition before its first run."""
    deployment.configure(
        '[source]\nurl = "inbox"\n'
        + "".join(
            f'[[models]]\nversion = "{version}"\nprovider = "local"\nmodel = "wordllama-l2-supercat"\n'
            f"dimensions = {dimensions}\n"
            for version, dimensions in ((VERSION, 256), ("declared", 64))
        )
    )
    instance.add_dynamic_partitions("embedding_model_versions", ["declared", "mistyped"])
    close_process_platform()
    done = keep_house(instance, process_platform())
    assert done["removed versions"] == 1
    assert set(instance.get_dynamic_partitions("embedding_model_versions")) == {VERSION, "declared"}


def test_old_events_go_and_the_state_of_no_partition_is_lost(
    deployment: Deployment, platform: Platform, instance: dg.DagsterInstance
) -> None:
    """What the UI shows of partitions and checks is the same before and after, and so is why a run failed."""
    deployment.write("good.md", "# Pumps\n\n" + paragraphs(3, 3))
    deployment.json("run", code=1)
    age(deployment.dagster_url, 31)
    before, counted = state(instance), events(deployment.dagster_url)
    done = keep_house(instance, process_platform())
    left = events(deployment.dagster_url)
    assert state(instance) == {
        asset: {key: value for key, value in found.items() if not key.startswith("gone.md")}
        for asset, found in before.items()
    }
    assert done["deleted events"] > sum(counted.values()) / 2
    assert left["STEP_FAILURE"] == counted["STEP_FAILURE"]
    assert left["ASSET_MATERIALIZATION"] == 5  # one each of the five assets, of one good document
    assert "message" not in left
    assert "STEP_START" not in left
    names = {check.name for check in build_definitions().resolve_asset_graph().asset_check_keys}
    assert left["ASSET_CHECK_EVALUATION"] == len(names)
    # Planned and materialized in five assets for the good document, planned in two for the bad one.
    assert done["event rows per document"] == (5 * 2 + 2) / 2


def test_events_of_today_stay(deployment: Deployment, platform: Platform, instance: dg.DagsterInstance) -> None:
    """People read yesterday's runs."""
    before = events(deployment.dagster_url)
    assert keep_house(instance, platform)["deleted events"] == 0
    after = events(deployment.dagster_url)
    assert {name: count for name, count in before.items() if not name.startswith("ASSET_MATERIALIZATION")} == {
        name: count for name, count in after.items() if not name.startswith("ASSET_MATERIALIZATION")
    }


def test_the_job_says_what_it_did(deployment: Deployment, platform: Platform, instance: dg.DagsterInstance) -> None:
    """An operator reads in the run what went and what a document costs."""
    done = build_definitions().resolve_job_def("housekeeping").execute_in_process(instance=instance)
    assert done.success
    [output] = [event for event in done.all_node_events if event.event_type_value == "STEP_OUTPUT"]
    metadata = output.step_output_data.metadata
    assert metadata["removed partition keys"].value == 1
    assert metadata["event bytes per document"].value > 0
    assert json.dumps({name: value.value for name, value in metadata.items()})
