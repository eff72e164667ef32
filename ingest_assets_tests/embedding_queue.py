"""A queue of texts in a database, without the steps before it, runs over it on a metered server, and its disturbances.

What does not belong here: documents that are read and chunked (`corpus.py`), and the command line.
"""

import os
import socket
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import psutil

from ingest_assets.database import Database
from ingest_assets.embedding import EmbeddingOutcome, embed_documents
from ingest_assets.identity import document_id, text_sha256
from ingest_assets.leases import lease
from ingest_assets.models import ModelVersion, declare_models
from ingest_assets.settings import LimitSettings, ModelSettings
from ingest_assets_tests.embedding_server import EmbeddingServer

Query = Callable[..., list[dict[str, Any]]]  # looks into a database


def texts(count: int, word: str = "text") -> list[str]:
    """Return distinct texts of three words."""
    return [f"{word} number {number}" for number in range(count)]


@dataclass
class Queue:
    """Documents whose chunks are given, at one version."""

    database: Database
    server: EmbeddingServer
    documents: list[UUID] = field(default_factory=list)

    def add(self, key: str, texts: Iterable[str]) -> None:
        """Add an accepted document with these chunks of three tokens."""
        identifier = document_id(f"file:///{key}")
        with self.database.connection() as connection, connection.transaction():
            connection.execute(
                "INSERT INTO ingest.documents (document_id, source_uri, source_key, partition_key, generation, status,"
                " text) VALUES (%s, %s, %s, %s, 1, 'accepted', 'text')",
                [identifier, f"file:///{key}", key, key],
            )
            for index, text in enumerate(texts):
                connection.execute(
                    "INSERT INTO ingest.chunks (chunk_id, document_id, generation, chunk_index, text, text_sha256,"
                    " token_count, char_start, char_end) VALUES (gen_random_uuid(), %s, 1, %s, %s, %s, 3, 0, 1)",
                    [identifier, index, text, text_sha256(text)],
                )
        self.documents.append(identifier)

    def declare(self, **changes: Any) -> tuple[ModelVersion, ModelSettings]:
        """Declare the version and return it with its settings."""
        given = {"version": "v1", "provider": "openai", "model": "m", "dimensions": 8, "max_batch_items": 4}
        settings = ModelSettings.model_validate({**given, "base_url": self.server.url, **changes})
        [model] = declare_models(self.database, [settings])
        return model, settings

    def run(self, **changes: Any) -> EmbeddingOutcome:
        """Run once over all documents."""
        model, settings = self.declare(**changes)
        with lease(self.database, uuid.uuid4().hex) as held:
            return embed_documents(self.database, model, settings, LimitSettings(), self.documents, held=held)

    def query(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        """Look into the database."""
        with self.database.connection() as connection:
            cursor = connection.execute(statement.encode(), parameters)
            return cursor.fetchall() if cursor.description else []


def hold(query: Query, text: str, *, pid: int | None = None) -> None:
    """Let another run hold a claim for an hour, and a lease: of a process that is gone, or (None) of this one."""
    started_at = psutil.Process().create_time() if pid is None else 0.0
    query(
        "INSERT INTO ingest.run_leases (run_id, host, pid, process_started_at, expires_at)"
        f" VALUES ('other', '{socket.gethostname()}', {pid or os.getpid()}, {started_at}, now() + interval '1 hour')"
    )
    query(
        "INSERT INTO ingest.embedding_claims (embedding_model_version, text_sha256, run_id, expires_at)"
        f" VALUES ('v1', '\\x{text_sha256(text).hex()}', 'other', now() + interval '1 hour')"
    )


def raise_on_insert(query: Query, table: str, sqlstate: str, times: int = 1_000_000) -> None:
    """Let the server raise an error whenever rows are inserted, so many times; sequences outlive a rollback."""
    query("CREATE SEQUENCE trouble")
    query(
        f"CREATE FUNCTION trouble() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF nextval('trouble') <= {times} THEN"
        f" RAISE EXCEPTION 'made by the test' USING ERRCODE = '{sqlstate}'; END IF; RETURN NULL; END $$"
    )
    query(f"CREATE TRIGGER trouble AFTER INSERT ON {table} FOR EACH STATEMENT EXECUTE FUNCTION trouble()")
