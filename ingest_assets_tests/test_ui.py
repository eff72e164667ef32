"""What the Dagster UI is given to show: reasons of red partitions, links, tags, and answers to odd requests.

What does not belong here: the browser (`test_browser.py`).
"""

from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest

from ingest_assets.definitions import build_definitions
from ingest_assets.defs.instance import open_instance
from ingest_assets.defs.partition_metadata import source_link
from ingest_assets.defs.requests import ASSETS
from ingest_assets.defs.resources import close_process_platform, process_platform
from ingest_assets.defs.runs import execute
from ingest_assets.defs.sensors import due_embeddings, due_from_source
from ingest_assets_tests.embedding_server import EmbeddingServer
from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.test_dagster import statuses

POISON = "The poisonous pump was inspected on the second day."


@pytest.fixture
def instance(
    deployment: Deployment, embedding_server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dg.DagsterInstance]:
    """The instance of a deployment whose only document is not text, and another whose text the provider refuses."""
    deployment.configure(
        '[source]\nurl = "inbox"\n[[models]]\nversion = "v1"\nprovider = "openai"\n'
        f'model = "m"\ndimensions = 8\nbase_url = "{embedding_server.url}"\n'
    )
    for name, value in {**deployment.environment, "OPENAI_API_KEY": "a-key"}.items():
        if name.startswith(("INGEST_", "OPENAI_")):
            monkeypatch.setenv(name, value)
    embedding_server.poison.add(POISON)
    deployment.write("poison.md", POISON)
    deployment.write("picture.md", b"\x89PNG\r\n\x1a\n" + bytes(100))
    close_process_platform()
    with open_instance(process_platform().settings) as opened:
        for due in due_from_source(opened, process_platform()):
            execute(build_definitions(), opened, process_platform().database, due)
        yield opened
    close_process_platform()


def observed(instance: dg.DagsterInstance, asset: str, partition: str) -> dict[str, Any]:
    """Return what a red partition shows."""
    wanted = dg.AssetRecordsFilter(asset_key=dg.AssetKey(asset), asset_partitions=[partition])
    [record] = instance.fetch_observations(wanted, limit=1).records
    assert record.event_log_entry.asset_observation is not None
    return {name: value.value for name, value in record.event_log_entry.asset_observation.metadata.items()}


def test_a_red_partition_says_why_what_to_do_and_which_run_gave_up(
    deployment: Deployment, instance: dg.DagsterInstance
) -> None:
    """A failed partition has no materialization, so the reason is an observation of it."""
    for asset in ASSETS["ingest"]:
        shown = observed(instance, asset, "picture.md")
        assert (shown["source_key"], shown["reason"], shown["stage"]) == ("picture.md", "unsupported_type", "extract")
        assert shown["source object"] == str(deployment.inbox / "picture.md")
        assert "materialize this partition" in shown["what to do"]
    [due] = due_embeddings(instance, process_platform())
    ran = execute(build_definitions(), instance, process_platform().database, due)
    for asset in ASSETS["embed"]:
        shown = observed(instance, asset, "poison.md|v1")
        assert shown["reason"] == "content_rejected: 1"
        assert (shown["chunks"], shown["vectors"], shown["dead_letters"]) == (1, 0, 1)
        assert shown["given up by"] == ran.run_id
        assert POISON not in str(shown)


def test_runs_are_tagged_with_lane_version_and_documents_and_not_with_zeros(
    instance: dg.DagsterInstance, embedding_server: EmbeddingServer
) -> None:
    """The list of runs is searched by tags; each is a line there, so a count of nothing is none."""
    embedding_server.poison.clear()
    [due] = due_embeddings(instance, process_platform())
    ran = execute(build_definitions(), instance, process_platform().database, due)
    run = instance.get_run_by_id(ran.run_id)
    assert run is not None
    shown = {name: value for name, value in run.tags.items() if not name.startswith("dagster/")}
    assert (shown["lane"], shown["embedding_model_version"], shown["documents"]) == ("incremental", "v1", "1")
    assert shown["ingest/embedded_texts"] == "1"
    assert "0" not in shown.values()


def test_a_source_object_is_shown_as_somebody_opens_it() -> None:
    """A path on this machine, an object of an S3-compatible store, or a page of the console; odd names included."""
    assert source_link("file:///srv/in%20box/50%25.md", None) == dg.MetadataValue.path("/srv/in box/50%.md")
    assert source_link("s3://corpus/a b?.md", "http://127.0.0.1:9000/") == dg.MetadataValue.url(
        "http://127.0.0.1:9000/corpus/a%20b%3F.md"
    )
    assert source_link("s3://corpus/a#1.md", None) == dg.MetadataValue.url(
        "https://s3.console.aws.amazon.com/s3/object/corpus?prefix=a%231.md"
    )


def test_crashes_are_retried_and_failures_that_name_themselves_are_not(instance: dg.DagsterInstance) -> None:
    """The instance's settings say it, and the failure of a run that rejected a document obeys."""
    assert instance.run_retries_enabled
    assert instance.run_retries_max_retries == 2
    assert not instance.run_retries_retry_on_asset_or_op_failure
    assert instance.run_monitoring_enabled
    assert not instance.nux_enabled


def test_a_range_whose_end_was_removed_is_refused_by_name_and_marks_nothing(instance: dg.DagsterInstance) -> None:
    """Housekeeping removed the last key between the choice in the UI and the start of the run."""
    instance.delete_dynamic_partition("documents", "poison.md")
    before = statuses(instance, "documents")
    job = build_definitions().resolve_implicit_global_asset_job_def()
    with pytest.raises(dg.DagsterInvalidInvocationError, match=r"not a valid range(.|\n)*poison\.md"):
        job.execute_in_process(
            instance=instance,
            asset_selection=[dg.AssetKey(name) for name in ASSETS["ingest"]],
            tags={
                "dagster/asset_partition_range_start": "picture.md",
                "dagster/asset_partition_range_end": "poison.md",
            },
        )
    assert statuses(instance, "documents") == before
