"""The assets as Dagster runs them: named in the config, by partition key, by range; what is green, red and recorded."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from ingest_assets.checks import CHECKS
from ingest_assets.definitions import build_definitions
from ingest_assets.defs.columns import TABLES
from ingest_assets.defs.instance import open_instance
from ingest_assets.defs.partitions import (
    add_documents,
    document_version,
    document_versions,
    documents,
    synchronise_versions,
)
from ingest_assets.defs.requests import ASSETS, DueRun, due_runs, keys_in_flight
from ingest_assets.defs.resources import close_process_platform, process_platform
from ingest_assets.defs.runs import execute, report_dead_runs
from ingest_assets.defs.sensors import due_deletions, due_embeddings, due_from_source
from ingest_assets.models import declare_models
from ingest_assets.platform import Platform
from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.texts import paragraphs

VERSION = "wordllama-256-v1"
GREEN, RED = "MATERIALIZED", "FAILED"


@pytest.fixture
def platform(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> Iterator[Platform]:
    """The deployment's platform, opened in this process as a run worker opens it."""
    for name, value in deployment.environment.items():
        if name.startswith("INGEST_"):
            monkeypatch.setenv(name, value)
    close_process_platform()
    yield process_platform()
    close_process_platform()


@pytest.fixture
def instance(platform: Platform) -> Iterator[dg.DagsterInstance]:
    """The deployment's Dagster instance, with its versions as partitions."""
    with open_instance(platform.settings) as opened:
        synchronise_versions(opened, declare_models(platform.database, platform.settings.models))
        yield opened


def statuses(instance: dg.DagsterInstance, asset: str) -> dict[str, str | None]:
    """Return the state that the UI shows for each document of an asset."""
    by_version = asset in ASSETS["embed"]
    definition: dg.PartitionsDefinition = document_versions if by_version else documents
    keys = list(definition.get_partition_keys(dynamic_partitions_store=instance))
    found = instance.get_status_by_partition(dg.AssetKey(asset), keys, definition) or {}
    return {str(key).partition("|")[0]: status.value if status else None for key, status in found.items()}


def checks_of(instance: dg.DagsterInstance, run_id: str) -> dict[str, bool]:
    """Return the results of checks that a run stored."""
    events = [
        event
        for event in instance.all_logs(run_id)
        if event.dagster_event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION
    ]
    evaluations = [event.asset_check_evaluation for event in events]
    return {item.check_name: item.passed for item in evaluations if item is not None}


def run_due(instance: dg.DagsterInstance, platform: Platform, due: list[DueRun]) -> list[dg.ExecuteInProcessResult]:
    """Execute requested runs as the daemon would."""
    return [execute(build_definitions(), instance, platform.database, item) for item in due]


def three_documents(deployment: Deployment) -> None:
    """Two good documents and a bad one between them."""
    deployment.write("a.md", "# Pumps\n\n" + paragraphs(1, 6))
    deployment.write("b.pdf", b"\x89PNG\r\n\x1a\n" + bytes(100))
    deployment.write("c.md", "# Valves\n\n" + paragraphs(2, 6))


def test_one_bad_document_of_three_is_red_and_its_neighbours_are_green_published_and_found(
    deployment: Deployment, platform: Platform, instance: dg.DagsterInstance
) -> None:
    """The run fails and names the document, yet costs the others nothing, and every check has a result."""
    three_documents(deployment)
    [ingest] = run_due(instance, platform, due_from_source(instance, platform))
    assert not ingest.success
    for asset in ASSETS["ingest"]:
        assert statuses(instance, asset) == {"a.md": GREEN, "b.pdf": RED, "c.md": GREEN}
    assert set(checks_of(instance, ingest.run_id)) == {check.name for check in CHECKS}
    [embed] = run_due(instance, platform, due_embeddings(instance, platform))
    assert embed.success
    for asset in ASSETS["embed"]:
        assert statuses(instance, asset) == {"a.md": GREEN, "b.pdf": None, "c.md": GREEN}
    results = checks_of(instance, embed.run_id)
    assert results == {check.name: check.name != "unresolved_dead_letters" for check in CHECKS}
    assert deployment.json("search", "valves")[0]["document"] in ("a.md", "c.md")


def test_a_failed_run_names_the_document_and_the_reason(
    deployment: Deployment, platform: Platform, instance: dg.DagsterInstance
) -> None:
    """An operator reads what to look at in the run's own error."""
    three_documents(deployment)
    [ingest] = run_due(instance, platform, due_from_source(instance, platform))
    [event] = ingest.get_step_failure_events()
    failure = event.step_failure_data.user_failure_data
    assert failure is not None
    assert "b.pdf (unsupported_type)" in (failure.description or "")
    assert (failure.metadata["good"].value, failure.metadata["rejected"].value) == (2, 1)


def test_materializations_carry_metadata_worth_reading(
    deployment: Deployment, platform: Platform, instance: dg.DagsterInstance
) -> None:
    """Counts, tokens and a preview per partition."""
    three_documents(deployment)
    run_due(instance, platform, due_from_source(instance, platform))
    run_due(instance, platform, due_embeddings(instance, platform))
    records = instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=dg.AssetKey("chunks"), asset_partitions=["a.md"]), limit=1
    ).records
    materialization = records[0].asset_materialization
    assert materialization is not None
    metadata = {name: value.value for name, value in materialization.metadata.items()}
    assert metadata["chunks"] == deployment.json("status", "a.md")["chunks"]
    assert metadata["tokens"] > 0
    assert str(metadata["preview"]).startswith("# Pumps")
    assert materialization.tags["dagster/code_version"]


def test_a_run_by_partition_key_does_that_document(
    deployment: Deployment, platform: Platform, instance: dg.DagsterInstance
) -> None:
    """Materializing one partition in the UI works without any config."""
    three_documents(deployment)
    due_from_source(instance, platform)
    job = build_definitions().resolve_implicit_global_asset_job_def()
    ingest = [dg.AssetKey(name) for name in ASSETS["ingest"]]
    embed = [dg.AssetKey(name) for name in ASSETS["embed"]]
    assert job.execute_in_process(instance=instance, asset_selection=ingest, partition_key="a.md").success
    key = document_version("a.md", VERSION)
    assert job.execute_in_process(instance=instance, asset_selection=embed, partition_key=key).success
    assert statuses(instance, "documents") == {"a.md": GREEN, "b.pdf": None, "c.md": None}
    assert statuses(instance, "retrieval_index") == {"a.md": GREEN, "b.pdf": None, "c.md": None}
    assert deployment.json("status", "a.md")["status"] == "complete"


def test_a_run_from_the_ui_is_in_the_lane_of_its_version(
    deployment: Deployment, request: pytest.FixtureRequest
) -> None:
    """Nobody waits for a version that is being built: it keeps to the share of a backfill without any tag."""
    models = "".join(
        f'[[models]]\nversion = "v{size}"\nprovider = "local"\nmodel = "wordllama-l2-supercat"\ndimensions = {size}\n'
        for size in (256, 64)
    )
    deployment.configure(f'[source]\nurl = "inbox"\n{models}')
    deployment.write("a.md", paragraphs(1, 6))
    instance = request.getfixturevalue("instance")
    due_from_source(instance, request.getfixturevalue("platform"))
    job = build_definitions().resolve_implicit_global_asset_job_def()
    ingest, embed = ([dg.AssetKey(name) for name in ASSETS[kind]] for kind in ("ingest", "embed"))
    assert job.execute_in_process(instance=instance, asset_selection=ingest, partition_key="a.md").success
    for version in ("v256", "v64"):
        key = document_version("a.md", version)
        assert job.execute_in_process(instance=instance, asset_selection=embed, partition_key=key).success
    lanes = deployment.query("SELECT embedding_model_version AS version, lane FROM ingest.embedding_runs")
    assert {item["version"]: item["lane"] for item in lanes} == {"v256": "incremental", "v64": "backfill"}


def test_a_run_by_range_marks_exactly_the_bad_document_red(
    deployment: Deployment, platform: Platform, instance: dg.DagsterInstance
) -> None:
    """A backfill's range run is as fine-grained as a run that names its documents."""
    three_documents(deployment)
    due_from_source(instance, platform)
    job = build_definitions().resolve_implicit_global_asset_job_def()
    tags = {"dagster/asset_partition_range_start": "a.md", "dagster/asset_partition_range_end": "c.md"}
    ingest = [dg.AssetKey(name) for name in ASSETS["ingest"]]
    assert not job.execute_in_process(
        instance=instance, asset_selection=ingest, tags=tags, raise_on_error=False
    ).success
    assert statuses(instance, "chunks") == {"a.md": GREEN, "b.pdf": RED, "c.md": GREEN}


def test_a_document_without_text_ends_a_backfill_green(
    deployment: Deployment, platform: Platform, instance: dg.DagsterInstance
) -> None:
    """Over all documents of a version, those without text materialize with nothing to do and the reason."""
    three_documents(deployment)
    run_due(instance, platform, due_from_source(instance, platform))
    job = build_definitions().resolve_implicit_global_asset_job_def()
    tags = {
        "dagster/asset_partition_range_start": f"a.md|{VERSION}",
        "dagster/asset_partition_range_end": f"c.md|{VERSION}",
    }
    embed = [dg.AssetKey(name) for name in ASSETS["embed"]]
    assert job.execute_in_process(instance=instance, asset_selection=embed, tags=tags).success
    assert statuses(instance, "chunk_vectors") == {"a.md": GREEN, "b.pdf": GREEN, "c.md": GREEN}


def test_only_selected_assets_are_recorded(
    deployment: Deployment, platform: Platform, instance: dg.DagsterInstance
) -> None:
    """The step is always done whole; the UI's subset decides what is marked."""
    three_documents(deployment)
    due_from_source(instance, platform)
    job = build_definitions().resolve_implicit_global_asset_job_def()
    assert job.execute_in_process(
        instance=instance, asset_selection=[dg.AssetKey("documents")], partition_key="a.md"
    ).success
    assert statuses(instance, "documents")["a.md"] == GREEN
    assert statuses(instance, "chunks").get("a.md") is None
    assert deployment.json("status", "a.md")["chunks"] > 0


def test_a_run_without_documents_fails_with_what_to_do(
    deployment: Deployment, platform: Platform, instance: dg.DagsterInstance
) -> None:
    """An empty run must not look like a success."""
    job = build_definitions().resolve_implicit_global_asset_job_def()
    ingest = [dg.AssetKey(name) for name in ASSETS["ingest"]]
    with pytest.raises(dg.Failure, match="names no document"):
        job.execute_in_process(instance=instance, asset_selection=ingest)


def test_a_run_that_got_fewer_documents_than_promised_fails(
    deployment: Deployment, platform: Platform, instance: dg.DagsterInstance
) -> None:
    """A range whose documents were removed meanwhile does not end green."""
    add_documents(instance, ["a.md"])
    job = build_definitions().resolve_implicit_global_asset_job_def()
    ingest = [dg.AssetKey(name) for name in ASSETS["ingest"]]
    with pytest.raises(dg.Failure, match="asked for 2 documents and found 1"):
        job.execute_in_process(instance=instance, asset_selection=ingest, partition_key="a.md", tags={"documents": "2"})


def test_every_check_can_be_run_alone(deployment: Deployment, platform: Platform, instance: dg.DagsterInstance) -> None:
    """An operator re-runs a check without re-running what it checks."""
    three_documents(deployment)
    run_due(instance, platform, due_from_source(instance, platform))
    definitions = build_definitions()
    for check in CHECKS:
        key = dg.AssetCheckKey(dg.AssetKey(check.asset), check.name)
        job = definitions.resolve_implicit_global_asset_job_def().get_subset(
            asset_selection=set(), asset_check_selection={key}
        )
        result = job.execute_in_process(instance=instance)
        assert result.success
        assert set(checks_of(instance, result.run_id)) == {check.name}


def test_what_is_in_flight_is_not_requested_again(
    deployment: Deployment, platform: Platform, instance: dg.DagsterInstance
) -> None:
    """A tick while the queue is full adds nothing."""
    three_documents(deployment)
    [due] = due_from_source(instance, platform)
    job = build_definitions().resolve_implicit_global_asset_job_def()
    instance.create_run_for_job(
        job, run_config=due.run_config, tags=due.tags, status=dg.DagsterRunStatus.NOT_STARTED.value
    )
    assert due_from_source(instance, platform) == []
    deployment.write("d.md", "# New\n\n" + paragraphs(3, 3))
    [again] = due_from_source(instance, platform)
    assert again.keys == ("d.md",)


def test_a_dead_run_is_reported_and_its_documents_are_requested_again(
    deployment: Deployment, platform: Platform, instance: dg.DagsterInstance
) -> None:
    """A process that was killed does not keep its documents in flight for ever."""
    three_documents(deployment)
    [due] = due_from_source(instance, platform)
    job = build_definitions().resolve_implicit_global_asset_job_def()
    run = instance.create_run_for_job(
        job, run_config=due.run_config, tags=due.tags, status=dg.DagsterRunStatus.STARTED.value
    )
    with platform.database.connection() as connection:
        connection.execute(
            "INSERT INTO ingest.run_leases SELECT %s, %s, 999999, 0, now() + interval '1 minute'",
            [run.run_id, __import__("socket").gethostname()],
        )
    assert [item.keys for item in due_from_source(instance, platform)] == [due.keys]
    found = instance.get_run_by_id(run.run_id)
    assert found is not None
    assert found.status == dg.DagsterRunStatus.FAILURE
    assert report_dead_runs(instance, platform.database) == []


def test_a_deletion_waits_for_what_came_with_it(
    deployment: Deployment, platform: Platform, instance: dg.DagsterInstance
) -> None:
    """A rename must find the old vectors: they go after the new document is embedded, or when the grace is over."""
    deployment.configure('[source]\nurl = "inbox"\ndeletion_grace_seconds = 900\n')
    path = deployment.write("old.md", "# Pumps\n\n" + paragraphs(1, 6))
    for find in (due_from_source, due_embeddings):
        run_due(instance, platform, find(instance, platform))
    path.rename(deployment.inbox / "new.md")
    ingest = due_from_source(instance, platform)
    assert due_deletions(instance, platform) == []
    run_due(instance, platform, ingest)
    assert due_deletions(instance, platform) == []
    run_due(instance, platform, due_embeddings(instance, platform))
    [deletion] = due_deletions(instance, platform)
    assert deletion.keys == ("old.md",)
    run_due(instance, platform, [deletion])
    assert deployment.json("status")["documents"]["total"] == 1


def test_runs_are_cut_to_the_limit_and_any_set_fits() -> None:
    """A thousand scattered documents are two runs of five hundred."""
    runs = list(due_runs("ingest", [f"{number}.md" for number in range(0, 3000, 3)], 500))
    assert [len(run.keys) for run in runs] == [500, 500]
    assert keys_in_flight([], "ingest") == set()


def test_definitions_load_without_any_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A code location must load on a machine where nothing is configured yet."""
    monkeypatch.chdir(tmp_path)
    definitions = build_definitions()
    dg.Definitions.validate_loadable(definitions)
    assert list(tmp_path.iterdir()) == []


GRAPH = """
chunk_vectors: deps chunks; group ingest; kinds pgvector, postgres; by document, embedding_model_version
chunks: deps documents; group ingest; kinds postgres; by documents
dead_letters: deps chunks; group ingest; kinds postgres; by document, embedding_model_version
documents: deps none; group ingest; kinds file, postgres; by documents
retrieval_index: deps chunk_vectors; group ingest; kinds pgvector, postgres; by document, embedding_model_version
"""


def test_the_asset_graph_is_the_one_that_is_written_here() -> None:
    """A change of names, dependencies or partitions is made on purpose."""
    lines = []
    for spec in sorted(build_definitions().resolve_all_asset_specs(), key=lambda item: item.key.to_user_string()):
        deps = ", ".join(sorted(dep.asset_key.to_user_string() for dep in spec.deps)) or "none"
        definition = spec.partitions_def
        names = (
            [item.name for item in definition.partitions_defs]
            if isinstance(definition, dg.MultiPartitionsDefinition)
            else [definition.name if isinstance(definition, dg.DynamicPartitionsDefinition) else "none"]
        )
        kinds = ", ".join(sorted(spec.kinds))
        lines.append(
            f"{spec.key.to_user_string()}: deps {deps}; group {spec.group_name}; kinds {kinds}; "
            f"by {', '.join(str(name) for name in names)}"
        )
        assert spec.description and spec.owners and spec.code_version
    assert lines == GRAPH.strip().splitlines()


@pytest.mark.parametrize("asset", [name for kind in ASSETS for name in ASSETS[kind]])
def test_the_ui_shows_each_asset_with_its_owner_its_kinds_and_the_columns_of_its_table(
    platform: Platform, asset: str
) -> None:
    """What a person reads of a table is what the table is."""
    spec = next(
        spec
        for part in build_definitions().assets or ()
        for spec in part.specs
        if spec.key.to_user_string() == asset  # type: ignore[union-attr]
    )
    assert spec.owners
    assert spec.kinds
    assert spec.description
    schema, name, columns = spec.metadata["dagster/table_name"].split(".")[0], *TABLES[asset]
    with platform.database.connection() as connection:
        found = connection.execute(
            "SELECT column_name, data_type FROM information_schema.columns"
            " WHERE table_schema = %s AND table_schema || '.' || table_name = %s",
            [schema, name],
        ).fetchall()
    types = {item["column_name"]: item["data_type"] for item in found}
    assert {column: types.get(column) for column, _, _ in columns} == {column: kind for column, kind, _ in columns}
    assert [column.name for column in spec.metadata["dagster/column_schema"].columns] == [name for name, *_ in columns]


def test_a_rejected_document_says_beside_its_partition_why(
    deployment: Deployment, platform: Platform, instance: dg.DagsterInstance
) -> None:
    """Whoever clicks the red partition reads the reason and what to do."""
    three_documents(deployment)
    run_due(instance, platform, due_from_source(instance, platform))
    [record] = instance.fetch_observations(
        dg.AssetRecordsFilter(asset_key=dg.AssetKey("documents"), asset_partitions=["b.pdf"]), limit=5
    ).records
    observation = record.asset_observation
    assert observation is not None
    metadata = {name: value.value for name, value in observation.metadata.items()}
    assert (metadata["reason"], metadata["stage"]) == ("unsupported_type", "extract")
    assert "materialize this partition again" in str(metadata["what to do"])
