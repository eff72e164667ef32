"""Deletion end to end: withheld and approved, proven by a receipt, and never before what came with it is embedded."""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from ingest_assets.database import Database
from ingest_assets.definitions import build_definitions
from ingest_assets.defs.instance import open_instance
from ingest_assets.defs.resources import close_process_platform
from ingest_assets.errors import Refused
from ingest_assets.receipts import prove_deletion
from ingest_assets.settings import LOCAL_MODEL, ModelSettings, SourceSettings, load_settings
from ingest_assets.source import open_source
from ingest_assets_tests.embedding_server import EmbeddingServer
from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.pipeline import Pipeline
from ingest_assets_tests.texts import paragraphs

NARROW = LOCAL_MODEL.model_copy(update={"version": "wordllama-64-v1", "dimensions": 64})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A source folder."""
    made = tmp_path / "source"
    made.mkdir()
    return made


@pytest.fixture
def pipeline(database: Database, folder: Path) -> Pipeline:
    """The steps over the folder, at two versions."""
    return Pipeline(database, open_source(SourceSettings(url=f"file://{folder}")), [LOCAL_MODEL, NARROW])


def metered_model(server: EmbeddingServer) -> ModelSettings:
    """Return a version that the server embeds and counts."""
    given = {"version": "v1", "provider": "openai", "model": "m", "dimensions": 8, "base_url": server.url}
    return ModelSettings.model_validate(given)


def test_a_receipt_says_what_went_and_proves_that_nothing_is_left_at_any_version(
    pipeline: Pipeline, folder: Path
) -> None:
    """Every table and every version is counted when it is asked, not remembered."""
    (folder / "gone.md").write_text(paragraphs(1, 12))
    (folder / "kept.md").write_text(paragraphs(2, 12))
    pipeline.run()
    with pytest.raises(Refused, match=r"gone\.md is not deleted: its object was in the source"):
        prove_deletion(pipeline.database, "gone.md")
    (folder / "gone.md").unlink()
    pipeline.discover()
    with pytest.raises(Refused, match="not deleted yet"):
        prove_deletion(pipeline.database, "gone.md")
    pipeline.run()
    proof = prove_deletion(pipeline.database, "gone.md")
    [receipt] = proof["receipts"]
    chunks = receipt["removed"]["chunks"]
    assert chunks > 1
    assert (receipt["cause"], proof["is_deleted"], proof["came_back"], proof["is_zero"]) == (
        "gone from the source", True, False, True,
    )  # fmt: skip
    versions = [LOCAL_MODEL.version, NARROW.version]
    for table in ("chunk_vectors", "retrieval_index"):
        assert [receipt["removed"][f"{table}/{version}"] for version in versions] == [chunks, chunks]
    assert receipt["removed"]["documents"] == 1
    assert set(receipt["removed"]) == set(proof["remaining"])
    assert set(proof["remaining"].values()) == {0}
    for name in (proof["source_uri"], proof["document_id"]):
        assert prove_deletion(pipeline.database, name)["receipts"] == proof["receipts"]


def test_a_receipt_is_not_zero_while_any_row_is_left(pipeline: Pipeline, folder: Path) -> None:
    """A row that somebody put back by hand is found, in the retrieval index too."""
    (folder / "gone.md").write_text(paragraphs(1, 3))
    pipeline.run()
    columns = "chunk_id, document_id, generation, chunk_index, source_key, text, heading, metadata, embedding"
    with pipeline.database.connection() as connection:
        connection.execute("CREATE TABLE kept AS TABLE serving.index_2")
        (folder / "gone.md").unlink()
        pipeline.run()
        connection.execute(f"INSERT INTO serving.index_2 ({columns}) SELECT {columns} FROM kept".encode())
    proof = prove_deletion(pipeline.database, "gone.md")
    assert not proof["is_zero"]
    assert {name for name, count in proof["remaining"].items() if count} == {f"retrieval_index/{NARROW.version}"}


def test_a_receipt_of_a_document_that_came_back_speaks_of_what_was_deleted(pipeline: Pipeline, folder: Path) -> None:
    """The new document is none of the old rows, and the receipt says that there is one."""
    (folder / "back.md").write_text(paragraphs(1, 6))
    pipeline.run()
    (folder / "back.md").unlink()
    pipeline.run()
    (folder / "back.md").write_text(paragraphs(1, 6))
    pipeline.run()
    proof = prove_deletion(pipeline.database, "back.md")
    assert (proof["is_deleted"], proof["came_back"], proof["is_zero"]) == (False, True, True)
    (folder / "back.md").unlink()
    pipeline.run()
    proof = prove_deletion(pipeline.database, "back.md")
    assert [receipt["generation"] for receipt in proof["receipts"]] == [3, 1]
    assert (proof["came_back"], proof["is_zero"]) == (False, True)


def test_sentences_of_dead_letters_go_with_their_document(pipeline: Pipeline, folder: Path) -> None:
    """A letter may speak of content; its stage and reason stay."""
    (folder / "bad.pdf").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    pipeline.run()
    (folder / "bad.pdf").unlink()
    pipeline.run()
    proof = prove_deletion(pipeline.database, "bad.pdf")
    assert (proof["receipts"][0]["removed"]["dead_letters"], proof["remaining"]["dead_letters"]) == (1, 0)
    with pipeline.database.connection() as connection:
        letters = connection.execute("SELECT reason, detail, resolution FROM ingest.dead_letters").fetchall()
    assert letters == [{"reason": "unsupported_type", "detail": "", "resolution": "deleted"}]


def test_the_receipt_command_proves_or_says_what_to_do(deployment: Deployment) -> None:
    """Exit code 0 with the proof, 1 for what was never seen or is not deleted."""
    path = deployment.write("manuals/pump.md", paragraphs(1, 2))
    deployment.command("run")
    assert "never" not in deployment.json("receipt", "manuals/pump.md", code=1)["error"]
    assert "ever seen" in deployment.json("receipt", "manuals/other.md", code=1)["error"]
    path.unlink()
    deployment.command("run")
    assert "Nothing of what was deleted is left." in deployment.command("receipt", "manuals/pump.md")
    assert deployment.json("receipt", "manuals/pump.md")["is_zero"]


def test_renaming_two_hundred_files_sends_nothing(
    database: Database, folder: Path, embedding_server: EmbeddingServer
) -> None:
    """The renamed documents take the vectors over before the old ones go, whatever the order of events."""
    pipeline = Pipeline(
        database, open_source(SourceSettings(url=f"file://{folder}")), [metered_model(embedding_server)]
    )
    for number in range(200):
        (folder / f"{number:03}.txt").write_text(f"Report {number}. " + paragraphs(number, 1))
    pipeline.run()
    paid = embedding_server.billed_items
    for path in sorted(folder.iterdir()):
        path.rename(folder / f"renamed {path.name}")
    pipeline.discover()
    assert pipeline.delete() == []
    pipeline.ingest()
    assert pipeline.delete() == []
    pipeline.embed()
    assert {item.result for item in pipeline.delete()} == {"deleted"}
    assert (paid, embedding_server.billed_items) == (200, 200)
    with database.connection() as connection:
        found = connection.execute("SELECT source_key FROM serving.index_1 ORDER BY 1").fetchall()
    assert [item["source_key"] for item in found] == [f"renamed {number:03}.txt" for number in range(200)]


def test_withheld_deletions_can_be_approved_in_the_ui(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check says that they are withheld and what to launch; a run without that says so too."""
    for number in range(13):
        deployment.write(f"{number}.txt", f"Note {number}. " + paragraphs(number, 1))
    deployment.command("run")
    *gone, _ = sorted(deployment.inbox.iterdir())
    for path in gone:
        path.unlink()
    [failed] = [item for item in deployment.json("run", code=1)["checks"] if not item["passed"]]
    assert failed["check"] == "source_reconciliation"
    withheld = {item["document"]: item["problem"] for item in failed["metadata"]["sample"]}
    assert set(withheld) == {path.name for path in gone}
    assert set(withheld.values()) == {"gone, and its deletion is withheld until somebody approves it"}
    assert "approve_withheld: true" in failed["metadata"]["remedy"]
    assert deployment.json("status", gone[0].name)["deletion"] == "withheld"

    for name, value in deployment.environment.items():
        if name.startswith("INGEST_"):
            monkeypatch.setenv(name, value)
    refused = launch_deletion(deployment, {})
    assert not refused.success
    [event] = refused.get_step_failure_events()
    assert "approve_withheld: true" in str(event.step_failure_data.user_failure_data)
    assert deployment.json("status")["documents"]["total"] == 13
    assert launch_deletion(deployment, {"approve_withheld": True}).success
    assert deployment.json("status")["documents"]["total"] == 1
    assert all(item["passed"] for item in deployment.json("verify"))


def launch_deletion(deployment: Deployment, config: dict[str, Any]) -> dg.ExecuteInProcessResult:
    """Launch the deletion job with this config, as from the UI's launchpad."""
    job = build_definitions().resolve_job_def("delete_documents")
    close_process_platform()
    with open_instance(load_settings()) as instance:
        result = job.execute_in_process(
            run_config={"ops": {"confirm_and_delete": {"config": config}}}, instance=instance, raise_on_error=False
        )
    close_process_platform()
    return result
