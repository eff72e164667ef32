"""Rows of a retrieval index with vectors of a test's choosing, and an application that may only read.

What does not belong here: publication, which tests of the main job go through.
"""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from pgvector import Vector
from pgvector.psycopg import register_vector
from psycopg import sql
from psycopg.rows import DictRow, dict_row
from psycopg.types.json import Jsonb

from ingest_assets.database import Database
from ingest_assets.models import ModelVersion, declare_models
from ingest_assets.settings import ModelSettings

READER = "app_of_tests"  # a login of the session's server


def declared_version(
    database: Database, dimensions: int, version: str = "v1", *, is_active: bool = True
) -> ModelVersion:
    """Declare a version that serves, or that is being built."""
    settings = ModelSettings(version=version, provider="openai", model="m", dimensions=dimensions)
    [model] = declare_models(database, [settings])
    if is_active:
        with database.connection() as connection:
            connection.execute("UPDATE ingest.embedding_models SET status = 'active' WHERE version = %s", [version])
    return model


def insert_rows(database: Database, model: ModelVersion, rows: Sequence[Mapping[str, Any]]) -> None:
    """Serve passages: `embedding`, and what differs of key, text, metadata and media type; a key is a document."""
    text = (
        "INSERT INTO {} (chunk_id, document_id, generation, chunk_index, source_key, text, heading, metadata,"
        " media_type, embedding) VALUES (%s, %s, 1, %s, %s, %s, '{{}}', %s, %s, %s)"
    )
    with database.connection() as connection, connection.transaction(), connection.cursor() as cursor:
        cursor.executemany(
            sql.SQL(text).format(model.serving),
            [
                (
                    uuid.uuid4(),
                    uuid.uuid5(uuid.NAMESPACE_URL, row.get("key", "a.txt")),
                    index,
                    row.get("key", "a.txt"),
                    row.get("text", "nothing to say"),
                    Jsonb(row.get("metadata", {})),
                    row.get("media_type", "text/plain"),
                    Vector(row["embedding"]),
                )
                for index, row in enumerate(rows)
            ],
        )
        connection.execute(sql.SQL("ANALYZE {}").format(model.serving))


@contextmanager
def application(
    database: Database, name: str = READER, *, role: str | None = "ingest_reader"
) -> Iterator["psycopg.Connection[DictRow]"]:
    """Connect as a login that has one role and nothing else."""
    with database.connection() as connection:
        if connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [name]).fetchone() is None:
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
            if role is not None:
                connection.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(role), sql.Identifier(name)))
    with psycopg.connect(database.url, user=name, autocommit=True, row_factory=dict_row) as connected:
        register_vector(connected)
        yield connected


def asked(connection: "psycopg.Connection[DictRow]", **arguments: Any) -> list[DictRow]:
    """Call serving.search with named arguments."""
    named = sql.SQL(", ").join(
        sql.SQL("{} => {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in arguments
    )
    values = {name: Jsonb(value) if name == "filters" else value for name, value in arguments.items()}
    return connection.execute(sql.SQL("SELECT * FROM serving.search({})").format(named), values).fetchall()
