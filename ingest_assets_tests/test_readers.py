"""Readers in other connections, who ask all the time while documents are replaced."""

import hashlib
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pgvector import Vector
from psycopg import sql

from ingest_assets.database import Database
from ingest_assets.models import ModelVersion, ensure_ann_index
from ingest_assets.publish import publish_documents
from ingest_assets_tests.serving_rows import application, asked, declared_version, insert_rows

GENERATIONS = 40
KEY = "replaced.md"


def write_generation(database: Database, model: ModelVersion, generation: int) -> uuid.UUID:
    """Leave a document with another number of passages, as the steps do before publication."""
    uri = f"file:///inbox/{KEY}"
    document_id = uuid.UUID(bytes=hashlib.sha256(uri.encode()).digest()[:16])
    count = 5 + generation * 7 % 11
    with database.connection() as connection, connection.transaction():
        connection.execute(
            "INSERT INTO ingest.documents (document_id, source_uri, source_key, partition_key, text, generation,"
            " status) VALUES (%s, %s, %s, %s, '', %s, 'accepted')"
            " ON CONFLICT (document_id) DO UPDATE SET generation = excluded.generation",
            [document_id, uri, KEY, KEY, generation],
        )
        text = f"generation {generation} has {count} passages"
        for index in range(count):
            chunk_id = uuid.uuid4()
            connection.execute(
                "INSERT INTO ingest.chunks (chunk_id, document_id, generation, chunk_index, text, text_sha256,"
                " token_count, char_start, char_end) VALUES (%s, %s, %s, %s, %s, sha256(%s), 5, 0, 1)",
                [chunk_id, document_id, generation, index, text, text.encode()],
            )
            connection.execute(
                "INSERT INTO ingest.chunk_vectors (chunk_id, embedding_model_version, text_sha256, embedding, run_id)"
                " VALUES (%s, %s, sha256(%s), %s, 'test')",
                [chunk_id, model.version, text.encode(), Vector([1, (index + 1) / 100])],
            )
    return document_id


class Reading:
    """One reader: what it saw of the document, answer by answer."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []  # what the passages say, and how many there were
        self.mixed: list[list[str]] = []
        self.error: Exception | None = None

    def take(self, texts: list[str]) -> None:
        """Judge one answer."""
        if len(set(texts)) != 1 or f"has {len(texts)} passages" not in texts[0]:
            self.mixed.append(sorted(texts))
        else:
            self.seen.append((texts[0], len(texts)))


@contextmanager
def reading(database: Database, way: str) -> Iterator[Reading]:
    """Ask again and again in one way, beside the block."""
    found, is_over = Reading(), threading.Event()
    only = {"document": KEY}

    def read() -> None:
        try:
            with application(database) as reader:
                while not is_over.is_set():
                    if way == "table":
                        rows = reader.execute(
                            "SELECT text FROM serving.index_1 WHERE source_key = %s", [KEY]
                        ).fetchall()
                    elif way == "hybrid":
                        given = {"query_vector": Vector([1, 0]), "query_text": "generation passages"}
                        rows = asked(reader, **given, k=100, filters=only)
                    else:
                        rows = asked(reader, query_vector=Vector([1, 0]), k=100, filters=only, is_exact=way == "exact")
                    found.take([row["text"] for row in rows])
        except Exception as error:  # noqa: BLE001  # shown by the test, in the thread it belongs to
            found.error = error

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield found
    finally:
        is_over.set()
        thread.join()


@pytest.mark.parametrize("way", ["table", "vector", "exact", "hybrid"])
def test_a_reader_sees_one_generation_of_a_document_and_never_parts(database: Database, way: str) -> None:
    """Forty generations of other lengths are published while somebody reads, through the living index."""
    model = declared_version(database, 2)
    insert_rows(database, model, [{"key": "other.md", "embedding": [1, number]} for number in range(1000)])
    assert ensure_ann_index(database, model)

    def publish(generation: int) -> None:
        document_id = write_generation(database, model, generation)
        [publication] = publish_documents(database, model, [document_id], tolerance=0, run_id="test")
        assert publication.published

    publish(1)
    with reading(database, way) as found:
        for generation in range(2, GENERATIONS + 1):
            publish(generation)
    assert found.error is None
    assert found.mixed == []
    assert len(set(found.seen)) > 5
    with database.connection() as connection:
        left = connection.execute(
            sql.SQL("SELECT DISTINCT generation FROM {} WHERE source_key = %s").format(model.serving), [KEY]
        ).fetchall()
    assert left == [{"generation": GENERATIONS}]
