"""`serving.search` as an application meets it: only the role ingest_reader, a vector, words, filters."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pgvector import Vector
from psycopg import sql
from psycopg.rows import DictRow, dict_row

from ingest_assets import schema
from ingest_assets.database import Database
from ingest_assets.models import ensure_ann_index
from ingest_assets_tests.embedding_server import EmbeddingServer
from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.serving_rows import application, asked, declared_version, insert_rows
from ingest_assets_tests.texts import paragraphs

ROWS = 3000
DIMENSIONS = 16
COLUMNS = [
    "document", "document_id", "chunk_id", "score", "text", "page_start", "page_end", "heading", "metadata",
    "media_type", "version",
]  # fmt: skip

# As the first versions made and filled a table.
SERVED_BEFORE = b"""
    CREATE TABLE serving.index_1 (
        chunk_id uuid PRIMARY KEY, document_id uuid NOT NULL, generation bigint NOT NULL, chunk_index integer NOT NULL,
        source_key text NOT NULL, text text NOT NULL, heading text[] NOT NULL, page_start integer, page_end integer,
        metadata jsonb NOT NULL, tsv tsvector GENERATED ALWAYS AS (to_tsvector('simple', text)) STORED,
        embedding vector(2) NOT NULL);
    CREATE INDEX ON serving.index_1 USING gin (tsv);
    INSERT INTO ingest.embedding_models (version, provider, model, dimensions, fingerprint, status)
    VALUES ('v1', 'openai', 'm', 2, '{}', 'active');
    INSERT INTO ingest.documents (document_id, source_uri, source_key, partition_key, media_type)
    SELECT encode(substr(sha256('file:///a.md'), 1, 16), 'hex')::uuid, 'file:///a.md', 'a.md', 'a.md', 'text/markdown';
    INSERT INTO serving.index_1 (chunk_id, document_id, generation, chunk_index, source_key, text, heading, metadata,
        embedding)
    SELECT gen_random_uuid(), document_id, 1, 0, 'a.md', 'a pump', '{}', '{"title": "Pumps"}', '[1, 0]'
    FROM ingest.documents
"""

Reader = psycopg.Connection[DictRow]
WORDS = ["valve", "pump", "bearing", "tariff", "meter", "pressure", "seal", "log"]


def question(seed: int) -> Vector:
    """Draw the vector of a question."""
    return Vector(np.random.default_rng(seed).normal(size=DIMENSIONS))


def drawn(number: int, embedding: NDArray[Any]) -> dict[str, Any]:
    """Return one passage: what filters look for differs by its number."""
    words = [WORDS[number % 8], WORDS[number // 8 % 8], "the", "and"]
    return {
        "key": f"{'manuals' if number % 100 == 0 else 'notes'}/{number // 10}.txt",
        "text": " ".join(words) + (" axolotl" if number in (17, 18) else ""),
        "metadata": {"author": f"author {number % 500}", "tags": ["all", f"tag {number % 300}"]},
        "media_type": "application/pdf" if number % 200 == 0 else "text/plain",
        "embedding": embedding,
    }


@pytest.fixture(scope="module")
def served(postgres: Callable[[str], str], template: str) -> Iterator[Database]:
    """3,000 passages with an HNSW index; no test changes them."""
    with psycopg.connect(postgres("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE searched TEMPLATE {template}".encode())
    vectors = np.random.default_rng(7).normal(size=(ROWS, DIMENSIONS))
    with Database.connect(postgres("searched")) as database:
        model = declared_version(database, DIMENSIONS, "small-16-v1")
        insert_rows(database, model, [drawn(number, vector) for number, vector in enumerate(vectors)])
        assert ensure_ann_index(database, model)
        yield database


@pytest.fixture
def reader(served: Database) -> Iterator[Reader]:
    """An application that has ingest_reader and nothing else."""
    with application(served) as connection:
        yield connection


def test_a_reader_asks_by_meaning_and_gets_the_nearest_first(reader: Reader) -> None:
    """All an application needs is in one row, with the version that answered."""
    found = asked(reader, query_vector=question(1), k=7)
    scores = [row["score"] for row in found]
    assert [list(row) for row in found] == [COLUMNS] * 7
    assert scores == sorted(scores, reverse=True)
    assert {row["version"] for row in found} == {"small-16-v1"}
    assert found[0] == asked(reader, query_vector=question(1), k=1)[0]


def test_the_index_finds_what_a_scan_of_everything_finds(reader: Reader) -> None:
    """Speed costs next to nothing of the answer, at the default settings."""
    common = 0
    for seed in range(20):
        near = {row["chunk_id"] for row in asked(reader, query_vector=question(seed))}
        every = {row["chunk_id"] for row in asked(reader, query_vector=question(seed), is_exact=True)}
        common += len(near & every)
    assert common >= 0.95 * 200


def test_a_vector_of_another_dimension_is_refused_with_the_active_version(reader: Reader) -> None:
    """Who embeds with the wrong model learns which one is right."""
    with pytest.raises(psycopg.errors.DataException, match=r"has 3 dimensions, but the active .* small-16-v1 has 16"):
        asked(reader, query_vector=Vector([1, 2, 3]))


def test_a_rare_word_outweighs_the_common_ones(reader: Reader) -> None:
    """A question is found by the words that tell, not by those that stand everywhere."""
    found = asked(reader, query_text="where and how does the axolotl live?", k=5)
    assert ["axolotl" in row["text"] for row in found[:2]] == [True, True]
    assert asked(reader, query_text="quagga") == []
    assert len(asked(reader, query_text="the and", k=20)) == 20


def test_quotes_and_minus_are_obeyed(reader: Reader) -> None:
    """Keyword search knows the syntax people know from search engines."""
    phrase = asked(reader, query_text='"pump valve"', k=100)
    assert len(phrase) > 10
    assert all("pump valve" in row["text"] for row in phrase)
    without = asked(reader, query_text="axolotl -pump -bearing", k=100)
    assert without == []
    assert len(asked(reader, query_text="axolotl -tariff", k=100)) == 2


@pytest.mark.parametrize(
    "text",
    [
        "-" * 60 + " axolotl",
        "- - " * 40 + "axolotl",
        "axolotl '\\ :* & ! ( <-> |",
        "axolotl or",
        "is it axolotl or quagga?",
    ],
)
def test_no_text_is_too_odd_to_be_asked(reader: Reader, text: str) -> None:
    """A line of dashes, operators of Postgres and a small `or` are parts of a question, not orders."""
    assert "axolotl" in asked(reader, query_text=text)[0]["text"]


@given(text=st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), min_size=1, max_size=80))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_is_a_question(reader: Reader, text: str) -> None:
    """Whatever people type is answered, with something or with nothing."""
    assert len(asked(reader, query_vector=question(2), query_text=text, k=5)) == 5
    assert len(asked(reader, query_text=text, k=5)) <= 5


def test_hybrid_is_the_sum_of_reciprocal_ranks(reader: Reader) -> None:
    """1 / (60 + rank) of both lists, as published, computed here a second time."""
    given = {"query_vector": question(3), "query_text": "pump pressure"}
    by_meaning = asked(reader, **given, k=50, mode="vector", ef_search=200)
    by_words = asked(reader, **given, k=50, mode="keyword")
    expected: dict[uuid.UUID, float] = {}
    for ranking in (by_meaning, by_words):
        for place, row in enumerate(ranking, start=1):
            expected[row["chunk_id"]] = expected.get(row["chunk_id"], 0) + 1 / (60 + place)
    found = asked(reader, **given, k=20, ef_search=200)
    assert [row["score"] for row in found] == pytest.approx(sorted(expected.values(), reverse=True)[:20])
    assert all(row["score"] == pytest.approx(expected[row["chunk_id"]]) for row in found)


@pytest.mark.parametrize(
    ("filters", "matching", "expected"),
    [
        ({"metadata": {"author": "author 3"}}, lambda row: row["metadata"]["author"] == "author 3", 6),
        ({"metadata": {"tags": ["tag 5"]}}, lambda row: "tag 5" in row["metadata"]["tags"], 10),
        ({"media_type": "application/pdf"}, lambda row: row["media_type"] == "application/pdf", 12),
        ({"media_type": ["application/pdf", "x/y"]}, lambda row: row["media_type"] == "application/pdf", 12),
        ({"key_prefix": "manuals/"}, lambda row: row["document"].startswith("manuals/"), 12),
        ({"document": "notes/7.txt"}, lambda row: row["document"] == "notes/7.txt", 10),
        (
            {"document": ["notes/7.txt", "notes/8.txt"], "media_type": "text/plain"},
            lambda row: row["document"][:6] == "notes/",
            12,
        ),
        (
            {"key_prefix": "notes/", "metadata": {"author": "author 3", "tags": ["all"]}},
            lambda row: row["document"][:6] == "notes/",
            6,
        ),
        ({"document": "no such document"}, bool, 0),
    ],
    ids=lambda value: "matching" if callable(value) else str(value),
)
@pytest.mark.parametrize("mode", ["vector", "hybrid"])
def test_filters_leave_k_rows_where_k_rows_match(
    reader: Reader, filters: dict[str, Any], matching: Callable[[DictRow], bool], expected: int, mode: str
) -> None:
    """The scan of the index goes on, and where it ends early everything is looked at."""
    found = asked(reader, query_vector=question(4), query_text="pump", k=12, filters=filters, mode=mode)
    exact = asked(reader, query_vector=question(4), k=12, filters=filters, is_exact=True)
    assert len(found) == len(exact) == expected
    assert all(matching(row) for row in found)
    assert mode == "hybrid" or {row["chunk_id"] for row in found} == {row["chunk_id"] for row in exact}


def test_a_document_is_named_by_key_or_id(reader: Reader) -> None:
    """What `ingest-assets status` shows can be used."""
    [row] = asked(reader, query_vector=question(5), k=1)
    by_id = asked(reader, query_vector=question(5), k=20, filters={"document": str(row["document_id"])})
    by_key = asked(reader, query_vector=question(5), k=20, filters={"document": row["document"]})
    assert by_id == by_key
    assert {item["document"] for item in by_id} == {row["document"]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 3}, "needs query_text"),
        ({"query_text": "pump", "mode": "hybrid"}, "needs query_vector"),
        ({"query_text": "pump", "mode": "semantic"}, "vector, keyword or hybrid, not semantic"),
        ({"query_text": "pump", "k": 0}, "k is at least 1, not 0"),
        ({"query_text": "pump", "filters": ["a"]}, "filters is a JSON object"),
        ({"query_text": "pump", "filters": {"tenant": "a"}}, "no filter tenant; filters are document, key_prefix"),
        ({"query_text": "pump", "filters": {"key_prefix": ["a"]}}, "key_prefix is one text"),
        ({"query_text": "pump", "filters": {"document": {"a": 1}}}, "document is a text or a list"),
        ({"query_text": "pump", "filters": {"metadata": "a"}}, "metadata is a JSON object"),
        ({"query_vector": Vector([0.0] * DIMENSIONS)}, "zero"),
        ({"query_vector": Vector([1.0] * DIMENSIONS), "ef_search": 100000}, "ef_search"),
    ],
    ids=str,
)
def test_a_question_that_means_nothing_is_refused(reader: Reader, arguments: dict[str, Any], message: str) -> None:
    """A misspelt filter does not silently find everything."""
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=message):
        asked(reader, **arguments)


def test_a_search_leaves_the_settings_of_the_caller_alone(reader: Reader) -> None:
    """Later statements of the same transaction are scanned as their author set it."""
    with reader.transaction():
        reader.execute("SET LOCAL hnsw.ef_search = 77")
        asked(reader, query_vector=question(6))
        assert [row["hnsw.ef_search"] for row in reader.execute("SHOW hnsw.ef_search")] == ["77"]
        assert [row["hnsw.iterative_scan"] for row in reader.execute("SHOW hnsw.iterative_scan")] == ["off"]


def test_rows_that_were_deleted_cost_no_answers(database: Database) -> None:
    """An index that still points at 150 removed neighbours gives k rows all the same."""
    vectors = np.random.default_rng(8).normal(size=(1200, DIMENSIONS))
    model = declared_version(database, DIMENSIONS)
    insert_rows(database, model, [{"embedding": vector} for vector in vectors])
    assert ensure_ann_index(database, model)
    with application(database) as connection:
        nearest = asked(connection, query_vector=question(9), k=150)
        with database.connection() as writer:
            gone = [row["chunk_id"] for row in nearest]
            writer.execute(sql.SQL("DELETE FROM {} WHERE chunk_id = ANY (%s)").format(model.serving), [gone])
        left = asked(connection, query_vector=question(9), k=10)
        exact = asked(connection, query_vector=question(9), k=10, is_exact=True)
    assert left == exact
    assert len(left) == 10


def test_long_vectors_are_served_as_halfvec_through_an_index(database: Database) -> None:
    """3,072 dimensions, as of the largest models in use, are declared, indexed and asked like any other."""
    model = declared_version(database, 3072)
    vectors = np.random.default_rng(10).normal(size=(1000, 3072))
    insert_rows(database, model, [{"key": f"{number}.txt", "embedding": row} for number, row in enumerate(vectors)])
    assert ensure_ann_index(database, model)
    with application(database) as connection:
        [best, *_] = asked(connection, query_vector=Vector(vectors[421]))
        plan = "EXPLAIN SELECT FROM serving.index_1 ORDER BY embedding <=> %s::vector::halfvec(3072) LIMIT 5"
        lines = [row["QUERY PLAN"] for row in connection.execute(plan, [Vector(vectors[421])])]
    assert best["document"] == "421.txt"
    assert best["score"] == pytest.approx(1, abs=1e-3)
    assert any("Index Scan using index_1_embedding" in line for line in lines)


def test_only_a_version_that_lives_is_asked(database: Database) -> None:
    """One that is being built answers when it is named, and nobody is served by a retired one."""
    with application(database) as connection:
        with pytest.raises(psycopg.errors.NoDataFound, match="no active embedding model version"):
            asked(connection, query_text="pump")
        declared_version(database, 3, "old")
        insert_rows(database, declared_version(database, 2, "new", is_active=False), [{"embedding": [1, 0]}])
        assert asked(connection, query_vector=Vector([1, 0, 0])) == []
        [row] = asked(connection, query_vector=Vector([1, 0]), model_version="new")
        assert row["version"] == "new"
        with pytest.raises(psycopg.errors.DataException, match=r"the building .* new has 2"):
            asked(connection, query_vector=Vector([1, 0, 0]), model_version="new")
        with database.connection() as owner:
            owner.execute("UPDATE ingest.embedding_models SET status = 'retired' WHERE version = 'new'")
        with pytest.raises(psycopg.errors.NoDataFound, match="new, or it is retired"):
            asked(connection, query_vector=Vector([1, 0]), model_version="new")


def test_the_command_line_searches_in_every_mode_and_with_filters(
    deployment: Deployment, embedding_server: EmbeddingServer
) -> None:
    """Words cost no request, filters narrow, and what cannot be meant is refused."""
    deployment.configure(
        '[source]\nurl = "inbox"\n[[models]]\nversion = "v1"\nprovider = "openai"\nmodel = "m"\ndimensions = 8\n'
        f'base_url = "{embedding_server.url}"\n'
    )
    deployment.write("manuals/pumps.md", "# Pumps\n\nAn axolotl guards the spare pumps.\n\n" + paragraphs(1, 10))
    deployment.write("notes/tariffs.txt", "No axolotl pays the tariff.\n\n" + paragraphs(2, 10))
    deployment.command("run")
    requests = len(embedding_server.requests)
    words = deployment.json("search", "axolotl", "--mode", "keyword")
    assert len(embedding_server.requests) == requests
    assert {hit["document"] for hit in words} == {"manuals/pumps.md", "notes/tariffs.txt"}
    assert list(words[0]) == ["document", "chunk_id", "score", "text", "page_start", "page_end", "heading"]
    for narrowed in (
        ("--document", "manuals/pumps.md"),
        ("--prefix", "manuals/"),
        ("--media-type", "text/markdown", "--mode", "hybrid"),
        ("--filter", "title=Pumps"),
        ("--filter", '{"title": "Pumps"}', "--mode", "keyword"),
    ):
        found = deployment.json("search", "axolotl", *narrowed)
        assert {hit["document"] for hit in found} == {"manuals/pumps.md"}, narrowed
    assert "Nothing matches" in deployment.command("search", "axolotl", "--filter", "title=Valves")
    assert "no document gone.md" in deployment.json("search", "axolotl", "--document", "gone.md", code=1)["error"]
    assert "NAME=TEXT" in deployment.json("search", "axolotl", "--filter", "title", code=1)["error"]


def test_a_table_from_before_filters_is_brought_along(postgres: Callable[[str], str]) -> None:
    """A database that served before serves after `db migrate`, with media types, and filters find its rows."""
    name = f"older_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    with psycopg.connect(postgres(name), autocommit=True, row_factory=dict_row) as connection:
        schema._applied(connection)
        for migration in schema.migrations()[:6]:
            schema._apply(connection, migration)
        connection.execute(SERVED_BEFORE)
    with Database.connect(postgres(name)) as database, application(database) as connection:
        for filters in (
            {"media_type": "text/markdown"},
            {"metadata": {"title": "Pumps"}},
            {"document": "file:///a.md"},
        ):
            [row] = asked(connection, query_vector=Vector([1, 0]), query_text="pump", filters=filters)
            assert (row["document"], row["media_type"], row["version"]) == ("a.md", "text/markdown", "v1")
    with psycopg.connect(postgres("postgres"), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
