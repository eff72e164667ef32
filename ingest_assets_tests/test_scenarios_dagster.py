"""Scenarios E of the public reports: odd partition keys, a flood of documents, two runs for one document.

Each scenario file holds its steps and its expectation.
"""

from collections.abc import Iterator

import dagster as dg
import pytest

from ingest_assets.definitions import build_definitions
from ingest_assets.defs.instance import open_instance
from ingest_assets.defs.partitions import document_version, document_versions, documents
from ingest_assets.defs.requests import ASSETS, DueRun
from ingest_assets.defs.resources import PlatformResource, close_process_platform, process_platform
from ingest_assets.defs.runs import execute
from ingest_assets.defs.sensors import RUNS_PER_TICK, due_embeddings, due_from_source, source_sensor
from ingest_assets.identity import partition_key
from ingest_assets_tests.embedding_server import EmbeddingServer
from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.scenario_scripts import scenario


@pytest.fixture
def metered(
    deployment: Deployment, embedding_server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Deployment]:
    """A deployment on a metered server, open in this process."""
    deployment.configure(
        '[source]\nurl = "inbox"\nlisting_interval_seconds = 0\n'
        'max_documents_per_run = 50\n[[models]]\nversion = "v1"\nprovider = "openai"\n'
        f'model = "m"\ndimensions = 8\nbase_url = "{embedding_server.url}"\n'
    )
    deployment.extra_environment["OPENAI_API_KEY"] = "a-key"
    for name, value in deployment.environment.items():
        if name.startswith(("INGEST_", "OPENAI_")):
            monkeypatch.setenv(name, value)
    close_process_platform()
    yield deployment
    close_process_platform()


@pytest.fixture
def instance(metered: Deployment) -> Iterator[dg.DagsterInstance]:
    """The instance of that deployment."""
    with open_instance(process_platform().settings) as opened:
        yield opened


def note(number: int) -> str:
    """Return a document of one chunk."""
    return f"Note {number}. The pump was inspected on day {number}, and its seal was replaced."


def queue(instance: dg.DagsterInstance, due: DueRun) -> None:
    """Make a run as the daemon does for a request, and leave it waiting."""
    job = build_definitions().resolve_implicit_global_asset_job_def()
    instance.create_run_for_job(
        job,
        run_config=due.run_config,
        tags=due.tags,
        asset_selection=set(due.assets),
        status=dg.DagsterRunStatus.NOT_STARTED.value,
    )


def test_odd_keys_each_become_one_partition_that_is_launched_and_backfilled(
    metered: Deployment, instance: dg.DagsterInstance
) -> None:
    """E01: no key is dropped, merged with another, or refused by a range."""
    keys = scenario("E01")["object_keys"]
    partitions = [partition_key(key) for key in keys]
    assert len(set(partitions)) == len(keys)
    storable = [key for key in keys if len(key.encode()) < 250 and not key.startswith(("/", "..")) and key.strip()]
    for number, key in enumerate(storable):
        metered.write(key, note(number))
    due_from_source(instance, process_platform())
    found = {item["source_key"]: item["partition_key"] for item in metered.query("SELECT * FROM ingest.documents")}
    assert found == {key: partition_key(key) for key in storable}
    ordered = instance.get_dynamic_partitions("documents")
    assert sorted(ordered) == sorted(found.values())
    job = build_definitions().resolve_implicit_global_asset_job_def()
    ingest, embed = ([dg.AssetKey(name) for name in ASSETS[kind]] for kind in ("ingest", "embed"))
    one = job.execute_in_process(instance=instance, asset_selection=ingest, partition_key=partition_key(storable[0]))
    assert one.success
    ends = {"dagster/asset_partition_range_start": ordered[0], "dagster/asset_partition_range_end": ordered[-1]}
    assert job.execute_in_process(instance=instance, asset_selection=ingest, tags=ends).success
    due_embeddings(instance, process_platform())
    ends = {name: str(document_version(key, "v1")) for name, key in ends.items()}
    assert job.execute_in_process(instance=instance, asset_selection=embed, tags=ends).success
    for asset, definition in (("documents", documents), ("chunk_vectors", document_versions)):
        names = definition.get_partition_keys(dynamic_partitions_store=instance)
        states = instance.get_status_by_partition(dg.AssetKey(asset), list(names), definition) or {}
        assert [str(key) for key, state in states.items() if state is None or state.value != "MATERIALIZED"] == []
    assert len(metered.query("SELECT DISTINCT source_key FROM serving.index_1")) == len(storable)


def test_a_flood_of_documents_is_bounded_by_tick_and_survives_a_tick_that_is_lost(
    metered: Deployment, instance: dg.DagsterInstance
) -> None:
    """E02: each document is in exactly one run, whichever of a tick's requests became runs before it died."""
    total = 50 * RUNS_PER_TICK + 120
    for number in range(total):
        metered.write(f"{number:05}.md", note(number))

    def tick() -> list[dg.RunRequest]:
        with dg.build_sensor_context(instance=instance, resources={"platform": PlatformResource()}) as context:
            data = source_sensor.evaluate_tick(context)
        return list(data.run_requests or [])

    def keys(request: dg.RunRequest) -> list[str]:
        return list(request.run_config["ops"]["ingest_documents"]["config"]["keys"])

    asked = tick()
    assert len(asked) == RUNS_PER_TICK
    assert sorted(map(keys, tick())) == sorted(map(keys, asked))  # the first was lost before it left anything
    made = [DueRun("ingest", tuple(keys(request))) for request in asked[:7]]
    for due in made:
        queue(instance, due)
    rest = tick()
    in_runs = [key for due in made for key in due.keys]
    assert set(in_runs).isdisjoint(key for request in rest for key in keys(request))
    for request in rest:
        queue(instance, DueRun("ingest", tuple(keys(request))))
    in_runs += [key for request in (*rest, *tick()) for key in keys(request)]
    assert sorted(in_runs) == [f"{number:05}.md" for number in range(total)]


def test_two_runs_for_one_document_pay_once_and_a_failed_document_can_be_asked_for_again(
    metered: Deployment, instance: dg.DagsterInstance, embedding_server: EmbeddingServer
) -> None:
    """E04: what takes over a lost run and whoever else asks meet, and neither harms the other."""
    for number in range(40):
        metered.write(f"{number}.md", note(number))
    platform = process_platform()
    for due in due_from_source(instance, platform):
        execute(build_definitions(), instance, platform.database, due)
    [lost] = due_embeddings(instance, platform)
    queue(instance, lost)
    assert due_embeddings(instance, platform) == []
    [waiting] = instance.get_runs(filters=dg.RunsFilter(statuses=[dg.DagsterRunStatus.NOT_STARTED]))
    instance.report_run_failed(waiting, "its worker was lost")
    again = due_embeddings(instance, platform)
    assert sorted(key for due in again for key in due.keys) == sorted(lost.keys)
    embedding_server.seconds = 0.2
    both = [metered.start("run", "--json") for _ in range(2)]
    assert [(process.communicate(timeout=120), process.returncode)[1] for process in both] == [0, 0]
    assert sorted(embedding_server.texts) == sorted(note(number) for number in range(40))
    assert due_embeddings(instance, platform) == []
