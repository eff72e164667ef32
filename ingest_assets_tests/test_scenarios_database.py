"""Scenarios D of the public reports: dimensions, changed models, deadlocks and equal texts.

Each scenario file holds its steps and its expectation. Not here: a database in trouble (test_database_trouble.py).
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from ingest_assets.claims import Claims
from ingest_assets.database import Connection, Database, one
from ingest_assets.errors import DatabaseUnavailable
from ingest_assets.identity import text_sha256
from ingest_assets.ledger import Ledger
from ingest_assets.models import ModelVersion, declare_models, ensure_ann_index
from ingest_assets.planning import Plan
from ingest_assets.publish import publish_documents
from ingest_assets.records import Unit
from ingest_assets.settings import ModelSettings
from ingest_assets.unit_writer import UnitWriter
from ingest_assets_tests.embedding_queue import Queue, raise_on_insert, texts
from ingest_assets_tests.embedding_server import EmbeddingServer
from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.scenario_scripts import scenario
from ingest_assets_tests.texts import paragraphs

FILES = Path(__file__).parent / "cases" / "files"
MOST_HALFVEC = 4000  # dimensions that an HNSW index takes


def declared(model: str, dimensions: int, url: str = "http://127.0.0.1:1/v1", version: str = "v1") -> str:
    """Return a settings file with one model."""
    return (
        f'[source]\nurl = "inbox"\n[[models]]\nversion = "{version}"\nprovider = "openai"\nmodel = "{model}"\n'
        f'dimensions = {dimensions}\nbase_url = "{url}"\nmax_batch_items = 4\n'
    )


@pytest.mark.parametrize(
    "dimensions", [item for item in scenario("D01")["configure_dimension"] if item <= MOST_HALFVEC]
)
def test_d01_dimensions_that_an_index_takes_get_one(
    database: Database, dimensions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The column's type is chosen when the version is declared, so the index can be built whenever it is due."""
    monkeypatch.setattr("ingest_assets.models.ANN_INDEX_ROWS", 1)
    given = {"version": "v1", "provider": "openai", "model": "m", "dimensions": dimensions}
    [model] = declare_models(database, [ModelSettings.model_validate(given)])
    with database.connection() as connection:
        connection.execute(
            f"INSERT INTO {model.serving_name} (chunk_id, document_id, generation, chunk_index, source_key, text,"
            " heading, metadata, embedding) SELECT gen_random_uuid(), gen_random_uuid(), 1, 0, 'k', 't', '{}', '{}',"
            f" array_fill(0.5, ARRAY[{dimensions}])::vector FROM generate_series(1, 3)".encode()
        )
        assert ensure_ann_index(database, model)
        [column] = connection.execute(
            "SELECT format_type(atttypid, atttypmod) AS type FROM pg_attribute"
            " WHERE attrelid = %s::regclass AND attname = 'embedding'",
            [model.serving_name],
        ).fetchall()
    assert column["type"] == f"{'vector' if dimensions <= 2000 else 'halfvec'}({dimensions})"


@pytest.mark.parametrize("dimensions", [item for item in scenario("D01")["configure_dimension"] if item > MOST_HALFVEC])
def test_d01_more_dimensions_are_refused_before_anything_is_made(deployment: Deployment, dimensions: int) -> None:
    """No version is recorded by halves."""
    deployment.configure(declared("m", dimensions))
    assert "dimensions" in deployment.json("run", code=2)["error"]
    assert deployment.query("SELECT 1 FROM ingest.embedding_models") == []
    assert deployment.query("SELECT 1 FROM pg_tables WHERE schemaname = 'serving' AND tablename LIKE 'index%'") == []


def test_d01_a_version_that_cannot_be_made_leaves_nothing(database: Database) -> None:
    """Its row and its tables come in one transaction."""
    with database.connection() as connection:
        connection.execute("CREATE TABLE serving.index_1 ()")
    given = {"version": "v1", "provider": "openai", "model": "m", "dimensions": 8}
    with pytest.raises(psycopg.errors.DuplicateTable):
        declare_models(database, [ModelSettings.model_validate(given)])
    with database.connection() as connection:
        assert connection.execute("SELECT 1 FROM ingest.embedding_models").fetchall() == []
        assert connection.execute("SELECT 1 FROM pg_tables WHERE tablename LIKE 'chunk_vectors_%'").fetchall() == []


def test_d02_a_changed_model_is_refused_under_its_label_and_kept_apart_under_another(
    deployment: Deployment, embedding_server: EmbeddingServer
) -> None:
    """Every row names its version; the steps of the scenario in their order."""
    url = embedding_server.url
    embedding_server.dimensions = 1024
    deployment.configure(declared("m1", 1024, url))
    deployment.write("a.md", paragraphs(1, 3))
    deployment.command("run")
    paid = len(embedding_server.requests)
    deployment.write("b.md", paragraphs(2, 3))
    for model, dimensions, told in (("m2", 1024, "model m1, not m2"), ("m1", 768, "dimensions 1024, not 768")):
        deployment.configure(declared(model, dimensions, url))
        assert told in deployment.json("run", code=2)["error"]
    assert len(embedding_server.requests) == paid
    [kept] = deployment.query("SELECT count(*) AS vectors FROM ingest.chunk_vectors")
    deployment.configure(declared("m1", 1024, url) + declared("m2", 1024, url, "v2").partition('inbox"\n')[2])
    deployment.command("run")
    chunks = deployment.json("status")["chunks"]
    assert deployment.json("status")["vectors"] == {"v1": chunks, "v2": chunks} and chunks > kept["vectors"]
    served = deployment.query("SELECT version, status, dimensions FROM ingest.embedding_models ORDER BY number")
    assert [(row["version"], row["status"]) for row in served] == [("v1", "active"), ("v2", "building")]
    assert {request.parameters["model"] for request in embedding_server.requests} == {"m1", "m2"}
    hits = deployment.json("search", "chlorine of the reservoir", "-k", "50")
    assert len({hit["chunk_id"] for hit in hits}) == len(hits) == chunks


def test_d02_of_two_workers_with_other_models_under_one_label_one_is_refused(
    deployment: Deployment, embedding_server: EmbeddingServer
) -> None:
    """Whichever declares first, the other sends and writes nothing."""
    deployment.write("a.md", paragraphs(1, 6))
    processes = []
    for model in ("old", "new"):
        deployment.configure(declared(model, 8, embedding_server.url))
        (deployment.folder / "ingest.toml").rename(deployment.folder / f"{model}.toml")
        deployment.extra_environment["INGEST_CONFIG"] = str(deployment.folder / f"{model}.toml")
        processes.append(deployment.start("run", "--json"))
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    assert sorted(process.returncode for process in processes) == [0, 2], outputs
    refused = [process.returncode for process in processes].index(2)
    assert "never changes its meaning" in outputs[refused]
    [recorded] = deployment.query("SELECT model FROM ingest.embedding_models")
    assert recorded["model"] == ("old", "new")[1 - refused]
    assert {request.parameters["model"] for request in embedding_server.requests} == {recorded["model"]}


def open_writer(database: Database, model: ModelVersion, documents: list[Any], run_id: str) -> UnitWriter:
    """Return the writer of one run, whose plan is recorded."""
    ledger = Ledger(run_id, model.version, None)
    with database.connection() as connection:
        watermark = one(connection, "current_watermark")["watermark"]
        ledger.open(connection, "incremental", watermark, Plan(model.version, 0, 0, 0, None, None))
    queue = {"version": model.version, "watermark": watermark, "document_ids": documents}
    return UnitWriter(database, queue, ledger, Claims(database, queue, run_id))


def test_d03_writers_of_shared_texts_in_opposite_order_never_fail(
    database: Database, embedding_server: EmbeddingServer
) -> None:
    """Rows are locked by id, whatever order the answers come in; 50 rounds of two runs over 100 shared texts."""
    queue = Queue(database, embedding_server)
    for key in ("a.md", "b.md"):
        queue.add(key, texts(100))
    (model, _), documents = queue.declare(), queue.documents
    units = [Unit(text_sha256(text), text, 3) for text in texts(100)]
    vectors = np.tile(np.arange(1, 9, dtype=np.float32), (len(units), 1))
    together = threading.Barrier(2, timeout=30)

    def rounds(run_id: str, direction: int) -> None:
        writer = open_writer(database, model, documents[::direction], run_id)
        for _ in range(50):
            together.wait()
            writer.write(units[::direction], vectors, {})
            publish_documents(database, model, documents[::direction], tolerance=0, run_id=run_id)

    with ThreadPoolExecutor(2) as pool:
        workers = [pool.submit(rounds, "first", 1), pool.submit(rounds, "second", -1)]
        assert [worker.exception() for worker in workers] == [None, None]
    with database.connection() as connection:
        [found] = connection.execute(
            "SELECT (SELECT count(*) FROM ingest.chunk_vectors) AS vectors,"
            " (SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()) AS deadlocks"
        ).fetchall()
    assert found == {"vectors": 200, "deadlocks": 0}


@pytest.mark.parametrize("sqlstate", ["40P01", "40001"])
def test_d03_a_transaction_is_run_again_as_a_whole_and_not_for_ever(database: Database, sqlstate: str) -> None:
    """What was half done is undone before it is done again."""
    with database.connection() as connection:
        connection.execute("CREATE TABLE public.notes (round integer)")
        raise_on_insert(connection.execute, "public.notes", sqlstate, times=2)  # type: ignore[arg-type]
    begun: list[int] = []

    def work(connection: Connection) -> None:
        begun.append(len(begun))
        connection.execute("INSERT INTO public.notes VALUES (%s)", begun[-1:])

    database.transact(work)
    with database.connection() as connection:
        assert connection.execute("SELECT round FROM public.notes").fetchall() == [{"round": 2}]
        connection.execute("ALTER SEQUENCE trouble MINVALUE -1000 RESTART WITH -1000")
    with pytest.raises(DatabaseUnavailable, match="run again"):
        database.transact(work)
    assert len(begun) == 3 + 6


def test_d05_equal_sections_of_a_document_are_rows_of_their_own(
    deployment: Deployment, embedding_server: EmbeddingServer
) -> None:
    """Twelve rows with one text, paid for once and found twelve times."""
    deployment.configure(declared("m", 8, embedding_server.url))
    deployment.write("D05.md", (FILES / "D05.md").read_bytes())
    deployment.command("run")
    [found] = deployment.query(
        "SELECT count(*) AS rows, count(DISTINCT chunk_id) AS ids, count(DISTINCT text_sha256) AS texts"
        " FROM ingest.chunk_vectors"
    )
    assert found["rows"] == found["ids"] == deployment.json("status")["chunks"]
    assert len(embedding_server.texts) == found["texts"]
