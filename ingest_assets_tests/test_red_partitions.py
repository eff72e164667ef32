"""What red and green mean: red until the cause is gone, also where nothing was left to try; green only when it is."""

from collections.abc import Iterator

import dagster as dg
import pytest

from ingest_assets.definitions import build_definitions
from ingest_assets.defs.instance import open_instance
from ingest_assets.defs.partitions import document_version
from ingest_assets.defs.requests import ASSETS
from ingest_assets.defs.resources import close_process_platform, process_platform
from ingest_assets.defs.runs import execute
from ingest_assets.defs.sensors import due_deletions, due_embeddings, due_from_source
from ingest_assets_tests.embedding_server import EmbeddingServer
from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.test_dagster import GREEN, RED, statuses

GOOD, POISON = "The good pump was inspected on the third day.", "The poisonous pump was inspected on the second day."


@pytest.fixture
def instance(
    deployment: Deployment, embedding_server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dg.DagsterInstance]:
    """The instance of a deployment on a metered server that refuses one text; both documents are ingested."""
    deployment.configure(
        '[source]\nurl = "inbox"\nlisting_interval_seconds = 0\n'
        'deletion_grace_seconds = 0\n[[models]]\nversion = "v1"\nprovider = "openai"\n'
        f'model = "m"\ndimensions = 8\nbase_url = "{embedding_server.url}"\n'
    )
    for name, value in {**deployment.environment, "OPENAI_API_KEY": "a-key"}.items():
        if name.startswith(("INGEST_", "OPENAI_")):
            monkeypatch.setenv(name, value)
    embedding_server.poison.add(POISON)
    deployment.write("good.md", GOOD)
    deployment.write("poison.md", POISON)
    close_process_platform()
    with open_instance(process_platform().settings) as opened:
        for due in due_from_source(opened, process_platform()):
            execute(build_definitions(), opened, process_platform().database, due)
        yield opened
    close_process_platform()


def embed_as_a_sensor_asks(instance: dg.DagsterInstance) -> list[bool]:
    """Execute what the embedding sensor requests, and tell which runs succeeded."""
    platform = process_platform()
    return [
        execute(build_definitions(), instance, platform.database, due).success
        for due in due_embeddings(instance, platform)
    ]


def materialize(instance: dg.DagsterInstance, kind: str, key: str) -> dg.ExecuteInProcessResult:
    """Materialize one partition as a person does in the UI."""
    assets = [dg.AssetKey(name) for name in ASSETS[kind]]  # type: ignore[index]
    partition = key if kind == "ingest" else document_version(key, "v1")
    job = build_definitions().resolve_implicit_global_asset_job_def()
    return job.execute_in_process(
        instance=instance, asset_selection=assets, partition_key=partition, raise_on_error=False
    )


def test_a_document_with_a_dead_letter_is_red_whoever_looks_and_green_when_its_cause_is_gone(
    deployment: Deployment, instance: dg.DagsterInstance, embedding_server: EmbeddingServer
) -> None:
    """Materializing the red partition tries the unit again; only an embedding that succeeds makes it green."""
    assert embed_as_a_sensor_asks(instance) == [False]
    assert statuses(instance, "chunk_vectors") == {"good.md": GREEN, "poison.md": RED}
    assert not materialize(instance, "embed", "poison.md").success
    assert statuses(instance, "retrieval_index") == {"good.md": GREEN, "poison.md": RED}
    assert embedding_server.texts.count(POISON) > 1
    embedding_server.poison.clear()
    assert materialize(instance, "embed", "poison.md").success
    for asset in ASSETS["embed"]:
        assert statuses(instance, asset) == {"good.md": GREEN, "poison.md": GREEN}
    assert "poison.md" in {hit["document"] for hit in served(deployment)}


def served(deployment: Deployment) -> list[dict[str, str]]:
    """Return the documents that readers can find."""
    return deployment.query("SELECT source_key AS document FROM serving.index_1")


def test_a_sensor_does_not_ask_again_for_what_was_given_up(
    deployment: Deployment, instance: dg.DagsterInstance, embedding_server: EmbeddingServer
) -> None:
    """What a person did not ask for is not paid for again."""
    embed_as_a_sensor_asks(instance)
    sent = len(embedding_server.texts)
    assert embed_as_a_sensor_asks(instance) == []
    assert len(embedding_server.texts) == sent


def test_a_failed_run_that_is_started_again_by_hand_tries_again(
    deployment: Deployment, instance: dg.DagsterInstance, embedding_server: EmbeddingServer
) -> None:
    """Re-execute in the UI does what a person expects of it."""
    [due] = due_embeddings(instance, process_platform())
    first = execute(build_definitions(), instance, process_platform().database, due)
    embedding_server.poison.clear()
    job = build_definitions().resolve_implicit_global_asset_job_def()
    tags = {**due.tags, "dagster/parent_run_id": first.run_id, "dagster/root_run_id": first.run_id}
    again = job.execute_in_process(instance=instance, run_config=due.run_config, tags=tags, asset_selection=due.assets)
    assert again.success
    assert statuses(instance, "chunk_vectors") == {"good.md": GREEN, "poison.md": GREEN}


def test_a_rejected_document_stays_red_until_it_is_replaced(
    deployment: Deployment, instance: dg.DagsterInstance
) -> None:
    """The UI's button is no way to hide a rejection."""
    deployment.write("bad.md", b"\x89PNG\r\n\x1a\n" + bytes(100))
    [due] = due_from_source(instance, process_platform())
    execute(build_definitions(), instance, process_platform().database, due)
    assert not materialize(instance, "ingest", "bad.md").success
    assert statuses(instance, "documents")["bad.md"] == RED
    deployment.write("bad.md", GOOD)
    assert materialize(instance, "ingest", "bad.md").success
    assert statuses(instance, "documents")["bad.md"] == GREEN


def test_the_partition_of_a_document_that_is_gone_says_so_and_brings_nothing_back(
    deployment: Deployment, instance: dg.DagsterInstance
) -> None:
    """A backfill over documents that vanish meanwhile ends green, and nothing of them is left or made."""
    (deployment.inbox / "good.md").unlink()
    due_from_source(instance, process_platform())
    embed_as_a_sensor_asks(instance)
    for due in due_deletions(instance, process_platform()):
        execute(build_definitions(), instance, process_platform().database, due)
    for kind, asset in (("ingest", "documents"), ("embed", "chunk_vectors")):
        ran = materialize(instance, kind, "good.md")
        assert ran.success
        messages = [entry.user_message for entry in instance.all_logs(ran.run_id)]
        assert any("1 documents are gone: good.md" in message for message in messages)
        partition = "good.md" if kind == "ingest" else "good.md|v1"
        [record] = instance.fetch_materializations(
            dg.AssetRecordsFilter(asset_key=dg.AssetKey(asset), asset_partitions=[partition]), limit=1
        ).records
        assert record.asset_materialization is not None
        assert record.asset_materialization.metadata["result"].value == "gone"
    assert (
        deployment.query(
            "SELECT 1 FROM ingest.chunks JOIN ingest.documents d USING (document_id) WHERE d.source_key = 'good.md'"
        )
        == []
    )


def test_a_version_that_is_retired_or_unknown_is_refused_with_what_there_is(instance: dg.DagsterInstance) -> None:
    """A range over a version that is gone ends with a sentence, not with a traceback."""
    instance.add_dynamic_partitions("embedding_model_versions", ["v0"])
    assets = [dg.AssetKey(name) for name in ASSETS["embed"]]
    job = build_definitions().resolve_implicit_global_asset_job_def()
    ran = job.execute_in_process(
        instance=instance,
        asset_selection=assets,
        partition_key=document_version("good.md", "v0"),
        raise_on_error=False,
    )
    [event] = ran.get_step_failure_events()
    failure = event.step_failure_data.user_failure_data
    assert failure is not None
    assert "'v0' is retired or unknown" in (failure.description or "")
