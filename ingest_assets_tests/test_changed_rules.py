"""Another chunker or extractor: foreseen by the plan, found by difference, and paid for only where text is new."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ingest_assets.database import Database
from ingest_assets.defs.instance import open_instance
from ingest_assets.defs.resources import process_platform
from ingest_assets.defs.sensors import due_from_source
from ingest_assets.settings import ChunkerSettings, ExtractSettings, Settings
from ingest_assets.source.folder import FolderSource
from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.fixtures_kept import Kept
from ingest_assets_tests.pipeline import Pipeline
from ingest_assets_tests.texts import paragraphs

SOURCE = '[source]\nurl = "inbox"\nlisting_interval_seconds = 0\n'
MODELS = "".join(
    f'[[models]]\nversion = "v{size}"\nprovider = "local"\nmodel = "wordllama-l2-supercat"\ndimensions = {size}\n'
    "price_per_million_tokens = 0.02\n"
    for size in (256, 64)
)
DOCUMENTS = {f"long-{number}.md": f"# Note {number}\n\n" + paragraphs(number, 12) for number in range(4)} | {
    f"short-{number}.txt": f"Pump {number} is bled at the upper valve." for number in range(4)
}
SMALLER = "[chunker]\nmax_tokens = 120\nmin_tokens = 30\n"
PAGE = "<html><body><nav>Home Products Contact</nav><main><h1>Pump {0}</h1><p>{1}</p></main></body></html>"
RECORDED = {
    "documents": "SELECT to_jsonb(d) AS item FROM ingest.documents d ORDER BY document_id",
    "chunks": "SELECT to_jsonb(c) AS item FROM ingest.chunks c ORDER BY chunk_id",
    "vectors": "SELECT chunk_id, embedding_model_version, embedded_at FROM ingest.chunk_vectors ORDER BY 1, 2",
    "runs": "SELECT run_id FROM ingest.embedding_runs ORDER BY 1",
    "models": "SELECT to_jsonb(m) AS item FROM ingest.embedding_models m ORDER BY number",
}


@pytest.fixture(scope="module")
def kept(keeper: Callable[[dict[str, str]], Kept]) -> Kept:
    """Run a deployment once at two versions."""
    kept = keeper(DOCUMENTS)
    kept.make("embedded", SOURCE + MODELS)
    return kept


@pytest.fixture
def filled(kept: Kept) -> Iterator[Deployment]:
    """Long notes that another chunker cuts elsewhere, and short ones that stay one chunk, at two versions."""
    with kept.deployment("embedded", SOURCE + MODELS) as deployment:
        yield deployment


def recorded(deployment: Deployment) -> dict[str, list[dict[str, object]]]:
    """Return everything that a plan must leave alone."""
    return {name: deployment.query(statement) for name, statement in RECORDED.items()}


def served(deployment: Deployment) -> dict[str, tuple[str, ...]]:
    """Return the passages that readers are served of each document, in one look."""
    found = deployment.query("SELECT source_key, text FROM serving.index_1 ORDER BY source_key, chunk_index")
    return {
        key: tuple(row["text"] for row in found if row["source_key"] == key) for key in {r["source_key"] for r in found}
    }


def test_another_chunker_is_planned_to_the_text_and_nothing_is_recorded_by_the_plan(filled: Deployment) -> None:
    """The run sends what the plan said at each version, and keeps what did not change."""
    before, kept = recorded(filled), served(filled)
    filled.configure(SOURCE + MODELS + SMALLER)
    plan = filled.json("plan")
    assert recorded(filled) == before
    assert plan["changes"] == {
        "rechunked": 8, "reextracted": 0, "chunks": plan["changes"]["chunks"],
        "rejected": 0, "unreadable": 0, "unread": 0,
    }  # fmt: skip
    assert "8 documents are chunked again from stored text" in filled.command("plan")
    result = filled.json("run")
    assert [item["model"] for item in plan["versions"]] == ["v256", "v64"]
    assert result["embedded"] == sum(item["units"] for item in plan["versions"]) > 20
    assert result["sent_tokens"] == sum(item["tokens"] for item in plan["versions"])
    assert sum(item["cost"] for item in result["spend"]) == pytest.approx(sum(v["cost"] for v in plan["versions"]))
    assert filled.json("status")["chunks"] == plan["changes"]["chunks"]
    now = served(filled)
    assert {key: "".join(texts) for key, texts in now.items()} == {key: "".join(texts) for key, texts in kept.items()}
    assert all(now[key] == kept[key] for key in kept if key.startswith("short"))
    assert all(len(now[key]) > len(kept[key]) for key in kept if key.startswith("long"))
    assert set(map(str, before["vectors"])) & set(map(str, recorded(filled)["vectors"]))
    assert filled.json("plan")["units"] == 0


def test_the_sensor_requests_every_document_once_the_settings_name_another_chunker(
    filled: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a reload of the code location: its runs read the settings anew, too."""
    for name, value in filled.environment.items():
        if name.startswith("INGEST_"):
            monkeypatch.setenv(name, value)
    platform = process_platform()
    with open_instance(platform.settings) as instance:
        assert due_from_source(instance, platform) == []
        filled.configure(SOURCE + MODELS + SMALLER)
        filled.write("new.txt", "The new pump is bled at its lower valve.")
        new, due = due_from_source(instance, platform)
        assert (new.lane, new.keys, due.lane, len(due.keys)) == ("incremental", ("new.txt",), "backfill", 8)
        filled.json("run")
    lanes = (
        "SELECT DISTINCT lane, embedding_model_version AS model, planned_units > 10 AS many FROM ingest.embedding_runs"
    )
    found = filled.query(lanes + " WHERE started_at > (SELECT max(first_seen_at) FROM ingest.documents) ORDER BY 1, 2")
    assert [(row["lane"], row["model"], row["many"]) for row in found] == [
        ("backfill", "v256", True),
        ("backfill", "v64", False),
        ("backfill", "v64", True),
        ("incremental", "v256", False),
    ]


def test_readers_see_a_document_as_it_was_chunked_before_or_after_and_nothing_else(filled: Deployment) -> None:
    """While every document is chunked and embedded anew, a reader in a loop meets no part of one."""
    before = served(filled)
    is_over, seen = threading.Event(), set()

    def read() -> None:
        while not is_over.is_set():
            seen.update(served(filled).items())

    reader = threading.Thread(target=read)
    reader.start()
    try:
        filled.configure(SOURCE + MODELS + SMALLER)
        filled.json("run")
    finally:
        is_over.set()
        reader.join()
    after = served(filled)
    assert set(before.items()) <= seen
    assert seen <= set(before.items()) | set(after.items())
    assert {key for key, _ in seen} == before.keys()


def test_another_extractor_reads_anew_and_what_reads_the_same_keeps_its_vectors(filled: Deployment) -> None:
    """The plan reads the source as the run will; only pages with other text are sent."""
    for number in range(3):
        filled.write(f"page-{number}.html", PAGE.format(number, paragraphs(50 + number, 3)))
    filled.json("run")
    before = {str(row) for row in recorded(filled)["vectors"]}
    filled.configure(SOURCE + MODELS + "[extract]\nmain_content = true\n")
    plan = filled.json("plan", "--model", "v64")
    assert (plan["model"], plan["changes"]["rechunked"], plan["changes"]["reextracted"]) == ("v64", 0, 11)
    result = filled.json("run")
    assert result["embedded"] == 2 * plan["units"] > 0
    gone = before - {str(row) for row in recorded(filled)["vectors"]}
    assert 0 < len(gone) <= 2 * plan["versions"][0]["new_chunks"]
    assert "Contact" not in "".join(served(filled)["page-1.html"])
    assert all(check["passed"] for check in filled.json("verify"))


def test_stored_text_is_chunked_anew_when_the_source_cannot_be_read(database: Database, tmp_path: Path) -> None:
    """An object that changed as well is read; so is everything by another extractor."""
    for number in range(4):
        (tmp_path / f"{number}.md").write_text(f"# Note {number}\n\n" + paragraphs(number, 12))
    before = Settings()
    pipeline = Pipeline(database, FolderSource(tmp_path), settings=before)
    pipeline.run()
    (tmp_path / "3.md").write_text("# Note 3\n\nThe impeller was replaced by one of bronze.\n")
    pipeline.discover()
    for number in range(3):
        (tmp_path / f"{number}.md").unlink()
    pipeline.settings = Settings(chunker=ChunkerSettings(max_tokens=120, min_tokens=30))
    *outcomes, new = pipeline.ingest()
    assert (new.source_key, new.result) == ("3.md", "accepted")
    assert [(item.result, item.generation) for item in outcomes] == [("accepted", 2)] * 3
    assert [item.characters for item in outcomes] == [len(f"# Note {n}\n\n" + paragraphs(n, 12)) for n in range(3)]
    pipeline.embed()
    with database.connection() as connection:
        found = connection.execute("SELECT DISTINCT generation FROM serving.index_1").fetchall()
    assert found == [{"generation": 2}]
    pipeline.settings = Settings(extract=ExtractSettings(min_characters=1))
    assert [item.result for item in pipeline.ingest()] == ["missing"] * 3 + ["accepted"]
