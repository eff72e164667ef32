"""What meets at one version at the same time: publishers, deletions, activation, rebuilding, retirement, readers.

Not here: processes that die (test_kill_versions.py), and races for what is paid for (test_embedding_runs.py).
"""

import threading
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import psycopg
import pytest
from pgvector import Vector

from ingest_assets.activation import activate
from ingest_assets.database import Database
from ingest_assets.deletion import delete_documents
from ingest_assets.errors import Refused
from ingest_assets.identity import document_id, text_sha256
from ingest_assets.models import ModelVersion, declare_models, ensure_ann_index
from ingest_assets.publish import publish_documents
from ingest_assets.rebuilding import rebuild_index
from ingest_assets.retirement import retire
from ingest_assets.settings import ModelSettings
from ingest_assets.source.folder import FolderSource
from ingest_assets.tenants import protect_tenants
from ingest_assets.verdicts import CheckContext
from ingest_assets_tests.embedding_queue import Queue
from ingest_assets_tests.embedding_server import EmbeddingServer, Received, Reply
from ingest_assets_tests.pipeline import Pipeline
from ingest_assets_tests.serving_rows import application, asked

PASSAGES = 5  # of each document
LOCAL = [
    ModelSettings(version=f"v{size}", provider="local", model="wordllama-l2-supercat", dimensions=size)
    for size in (256, 64)
]


def declared(database: Database, dimensions: int = 8) -> ModelVersion:
    """Declare one version that nobody embeds at."""
    settings = ModelSettings(version="v1", provider="openai", model="m", dimensions=dimensions)
    [model] = declare_models(database, [settings])
    return model


def embed_by_hand(
    database: Database, model: ModelVersion, documents: int, generation: int = 1, url: str = "file:///"
) -> list[UUID]:
    """Give documents a generation of chunks with vectors, drawn from their text; nothing of it is published."""
    names = [document_id(f"{url}{number}.md") for number in range(documents)]
    with database.connection() as connection, connection.transaction(), connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO ingest.documents (document_id, source_uri, source_key, partition_key, generation, status,"
            " text, metadata, media_type) VALUES (%s, %s, %s, %s, %s, 'accepted', 'text',"
            " jsonb_build_object('tenant', %s::text), 'text/plain')"
            " ON CONFLICT (document_id) DO UPDATE SET generation = excluded.generation",
            [
                (name, f"{url}{number}.md", f"{number}.md", f"{number}.md", generation, f"tenant {number % 2}")
                for number, name in enumerate(names)
            ],
        )
        chance = np.random.default_rng(generation)
        for number, name in enumerate(names):
            for index in range(PASSAGES):
                text, chunk = f"generation {generation} of {number}, passage {index}", uuid.uuid4()
                cursor.execute(
                    "INSERT INTO ingest.chunks (chunk_id, document_id, generation, chunk_index, text, text_sha256,"
                    " token_count, char_start, char_end, heading) VALUES (%s, %s, %s, %s, %s, %s, 6, 0, 1, '{Pump}')",
                    [chunk, name, generation, index, text, text_sha256(text)],
                )
                cursor.execute(
                    "INSERT INTO ingest.chunk_vectors (chunk_id, embedding_model_version, text_sha256, embedding,"
                    " run_id) VALUES (%s, %s, %s, %s, 'hand')",
                    [chunk, model.version, text_sha256(text), Vector(chance.standard_normal(model.dimensions))],
                )
    return names


def publish(database: Database, model: ModelVersion, documents: list[UUID]) -> None:
    """Publish what is complete."""
    publish_documents(database, model, documents, tolerance=0, run_id="hand")


def publish_one_by_one(database: Database, model: ModelVersion, documents: list[UUID]) -> None:
    """Publish each document by itself."""
    for document in documents:
        publish(database, model, [document])


def at_once(*works: Callable[[], None]) -> None:
    """Begin everything at the same moment, and raise what any of it raises."""
    barrier, failures = threading.Barrier(len(works)), list[BaseException]()

    def begin(work: Callable[[], None]) -> None:
        try:
            barrier.wait()
            work()
        except BaseException as error:  # noqa: BLE001  # of another thread; raised below
            failures.append(error)

    threads = [threading.Thread(target=begin, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def query(database: Database, statement: str, *parameters: Any) -> list[dict[str, Any]]:
    """Look into the database."""
    with database.connection() as connection:
        return connection.execute(statement.encode(), parameters).fetchall()


@pytest.fixture
def model(database: Database) -> ModelVersion:
    """One version of eight dimensions."""
    return declared(database)


def served(database: Database) -> list[dict[str, Any]]:
    """Return what the first version serves of each document."""
    return query(
        database,
        "SELECT source_key, min(generation) AS first, max(generation) AS last, count(*) AS passages"
        " FROM serving.index_1 GROUP BY source_key ORDER BY source_key",
    )


def test_two_publishers_of_the_same_documents_leave_one_generation_of_each(
    database: Database, model: ModelVersion
) -> None:
    """Both come to their end, whoever was first."""
    for generation in (1, 2, 3):
        names = embed_by_hand(database, model, 40, generation)
        at_once(*[partial(publish, database, model, names)] * 3)
        assert {(row["first"], row["last"], row["passages"]) for row in served(database)} == {
            (generation, generation, PASSAGES)
        }
        assert query(database, "SELECT count(*) AS n FROM serving.publications") == [{"n": 40}]
        assert query(database, "SELECT count(*) AS n FROM ingest.chunks") == [{"n": 40 * PASSAGES}]


def test_a_document_that_is_deleted_while_it_is_published_leaves_no_row(
    database: Database, model: ModelVersion, tmp_path: Path
) -> None:
    """Either order ends the same: the document is gone at every table, its neighbours are whole."""
    source = FolderSource(tmp_path)
    names = embed_by_hand(database, model, 60, url=source.url)
    gone = [f"{number}.md" for number in range(0, 60, 2)]
    query(
        database,
        "UPDATE ingest.documents SET missing_since = now(), deletion = 'allowed'"
        " WHERE source_key = ANY (%s) RETURNING 1",
        gone,
    )
    outcomes = []
    at_once(
        lambda: publish_one_by_one(database, model, names),
        lambda: publish_one_by_one(database, model, names[::-1]),
        lambda: outcomes.extend(delete_documents(database, source, gone, "deletion")),
    )
    assert len(outcomes) == 30
    assert {row["source_key"] for row in served(database)} == {f"{number}.md" for number in range(1, 60, 2)}
    assert {(row["first"], row["passages"]) for row in served(database)} == {(1, PASSAGES)}
    for table in ("serving.publications", "ingest.embedding_coverage", "ingest.chunks"):
        assert query(database, f"SELECT count(DISTINCT document_id) AS n FROM {table}") == [{"n": 30}], table
    assert query(database, "SELECT count(*) AS n FROM ingest.chunk_vectors") == [{"n": 30 * PASSAGES}]


def test_no_reader_is_taken_back_to_an_older_text_by_an_activation_beside_publishers(
    database: Database, tmp_path: Path
) -> None:
    """A switch counts what was published until its own transaction."""
    path, is_over, seen, switched = tmp_path / "a.md", threading.Event(), [], []
    pipeline = Pipeline(database, FolderSource(tmp_path), models=LOCAL)
    path.write_text("Edition 0 of this text about pumps.")
    pipeline.run()
    context = CheckContext(database, pipeline.source, 900)

    def look() -> None:
        with psycopg.connect(database.url) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            while not is_over.is_set():
                [number] = connection.execute("SELECT number FROM serving.active_model").fetchone() or [0]
                seen.append(connection.execute(f"SELECT generation FROM serving.index_{number}".encode()).fetchall())
                connection.rollback()
                is_over.wait(0.005)

    def switch() -> None:
        while not is_over.is_set():
            for version in ("v64", "v256"):
                try:
                    switched.append(activate(context, version, {"v64", "v256"}).previous)
                except Refused:
                    continue

    def edit() -> None:
        try:
            for edition in range(1, 7):
                path.write_text(f"Edition {edition} of this text about pumps.")
                pipeline.run()
        finally:
            is_over.set()

    at_once(look, switch, edit)
    assert seen == sorted(seen)
    assert {len(rows) for rows in seen} == {1}
    assert {"v64", "v256"} <= set(switched)
    assert seen[-1] > seen[0]


def test_a_retirement_is_refused_while_a_run_embeds_and_a_run_that_was_given_up_stops_with_a_reason(
    database: Database, embedding_server: EmbeddingServer
) -> None:
    """Nobody is told of a missing partition: the run says that its version was retired, and pays for nothing more."""
    queue, is_asked, may_answer = Queue(database, embedding_server), threading.Event(), threading.Event()
    queue.add("a.txt", [f"text {number}" for number in range(40)])

    def hesitate(server: EmbeddingServer, request: Received) -> Reply:
        is_asked.set()
        may_answer.wait(30)
        return server.answer(server.items(request))

    embedding_server.always = hesitate
    stopped: list[BaseException] = []

    def embed() -> None:
        try:
            queue.run(max_concurrency=1)
        except Refused as error:
            stopped.append(error)

    running = threading.Thread(target=embed)
    running.start()
    try:
        assert is_asked.wait(30)
        with pytest.raises(Refused, match="is embedding at v1"):
            retire(database, "v1")
        # As after a minute without a sign of life, on a host that nobody can look into.
        queue.query("UPDATE ingest.run_leases SET host = 'elsewhere', expires_at = now() - interval '1 minute'")
        retire(database, "v1")
    finally:
        may_answer.set()
        running.join()
    assert "v1 was retired while this run embedded it" in str(stopped[0])
    assert len(embedding_server.requests) <= 2
    assert queue.query("SELECT to_regclass('ingest.chunk_vectors_1') AS v, to_regclass('serving.index_1') AS s") == [
        {"v": None, "s": None}
    ]


def test_an_index_is_rebuilt_beside_publishers_and_readers_find_every_document_whole(
    database: Database, model: ModelVersion
) -> None:
    """What is published or deleted while it is built is in it when it takes the other's place."""
    names, is_over, looks = embed_by_hand(database, model, 20), threading.Event(), []
    publish(database, model, names)

    def publish_on() -> None:
        for generation in range(2, 12):
            publish(database, model, embed_by_hand(database, model, 20, generation))
        is_over.set()

    def rebuild() -> None:
        while not is_over.is_set():
            rebuild_index(database, model)

    def look() -> None:
        while not is_over.is_set():
            looks.append(served(database))

    at_once(publish_on, rebuild, look)
    assert all(len(found) == 20 for found in looks)
    assert all(row["first"] == row["last"] and row["passages"] == PASSAGES for found in looks for row in found)
    assert {row["last"] for row in served(database)} == {11}
    assert query(database, "SELECT count(*) AS n FROM serving.index_1 i JOIN ingest.chunks USING (chunk_id)") == [
        {"n": 100}
    ]


def test_a_transaction_that_began_before_a_rebuild_still_finds_everything(
    database: Database, model: ModelVersion
) -> None:
    """Also where it looks at the index for the first time after the swap."""
    publish(database, model, embed_by_hand(database, model, 20))
    with psycopg.connect(database.url) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        before = reader.execute("SELECT count(*) FROM serving.publications").fetchall()
        rebuild_index(database, model)
        found = reader.execute("SELECT count(DISTINCT document_id), count(*) FROM serving.index_1").fetchall()
        nearest = reader.execute("SELECT count(*) FROM serving.search(%s::vector, k => 7)", [[0.5] * 8]).fetchall()
    assert (before, found, nearest) == ([(20,)], [(20, 100)], [(7,)])


@pytest.fixture(params=[(8, 210), (2100, 4)], ids=["vector with hnsw", "halfvec"])
def kept(request: pytest.FixtureRequest, database: Database) -> Iterator[tuple[ModelVersion, int]]:
    """A version with published documents of two tenants: many of few dimensions, or few of many."""
    dimensions, documents = request.param
    model = declared(database, dimensions)
    protect_tenants(database, "tenant")
    publish(database, model, embed_by_hand(database, model, documents))
    ensure_ann_index(database, model)
    return model, documents


def test_a_rebuilt_index_answers_as_before_and_keeps_tenants_apart(
    database: Database, kept: tuple[ModelVersion, int]
) -> None:
    """Types, HNSW, row-level security and the planner's knowledge are those of the table whose place it takes."""
    model, documents = kept
    question = Vector(np.random.default_rng(5).standard_normal(model.dimensions))
    described = (
        "SELECT format_type(a.atttypid, a.atttypmod) AS type, c.relrowsecurity,"
        " (SELECT array_agg(pg_get_indexdef(i.indexrelid) ORDER BY 1) FROM pg_index i WHERE i.indrelid = c.oid"
        "  AND pg_get_indexdef(i.indexrelid) LIKE '%%hnsw%%') IS NOT NULL AS has_hnsw"
        " FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'embedding'"
        " WHERE c.oid = 'serving.index_1'::regclass"
    )

    def answers() -> tuple[Any, ...]:
        with application(database) as connection:
            mine = connection.execute("SELECT count(*) AS n FROM serving.index_1").fetchall()
            found = asked(connection, query_vector=question, k=10, ef_search=400)
        return query(database, described), mine, [(item["document"], item["text"]) for item in found]

    with application(database) as connection:
        reader = connection.info.user
    query(database, "INSERT INTO serving.tenant_readers VALUES (%s, 'tenant 1') RETURNING 1", reader)
    before = answers()
    assert before[0][0]["has_hnsw"] == (model.embedding_type == "vector")
    assert rebuild_index(database, model).rows == documents * PASSAGES
    assert answers() == before
    assert before[1] == [{"n": documents // 2 * PASSAGES}]
    assert query(database, "SELECT reltuples FROM pg_class WHERE oid = 'serving.index_1'::regclass") == [
        {"reltuples": documents * PASSAGES}
    ]
