"""Rebuilding a retrieval index from the vectors that exist: beside the one that serves, then in its place.

What does not belong here: making vectors. Nothing here calls a provider.
"""

from dataclasses import dataclass

import psycopg
from psycopg import sql
from tenacity import RetryError, Retrying, retry_if_exception_type, stop_after_delay, wait_random

from ingest_assets.database import Connection, Database, one, row, rows, run
from ingest_assets.errors import Refused
from ingest_assets.models import ModelVersion, create_serving_table, ensure_ann_index
from ingest_assets.queries import statement

PATIENCE_SECONDS = 30.0  # for readers that hold the table that is to be replaced


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a rebuilt index holds."""

    version: str
    documents: int
    rows: int
    caught_up: int  # documents that were published or deleted meanwhile


def rebuild_index(database: Database, model: ModelVersion) -> Rebuilt:
    """Make a version's retrieval index anew and swap it in; readers see the old one or the new one, whole.

    Every document keeps the generation that it serves. Killed at any point, the old one serves on, and the next call
    begins anew.

    Raises:
        Refused: somebody else rebuilds it, or somebody reads it for too long.
    """
    with database.connection() as connection:
        if not one(connection, "hold_rebuild", number=model.number)["is_held"]:
            raise Refused(f"The index of {model.version} is being rebuilt already; wait for it.")
        try:
            run(connection, "bound_session_locks")
            _build(database, connection, model)
            return _swap(connection, model)
        finally:
            run(connection, "unbound_session_locks")
            rows(connection, "release_rebuild", number=model.number)


def _build(database: Database, connection: Connection, model: ModelVersion) -> None:
    names = {"serving": model.rebuilt}
    passages = {"query": _passages(model)}
    run(connection, "create_publication_staging")
    run(connection, "clear_publication_staging")
    with connection.transaction():
        run(connection, "drop_serving_table", names)  # of a rebuild that was broken off
        create_serving_table(connection, model, model.rebuilt_name)
        run(connection, "note_publications", version=model.version)
        everything = {"version": model.version, "document_ids": None}
        with (
            database.connection() as other,
            other.cursor().copy(statement("read_passages", **passages), everything) as found,
            connection.cursor().copy(statement("load_passages", **names)) as loaded,
        ):
            for block in found:
                loaded.write(block)
    ensure_ann_index(database, model, model.rebuilt_name)
    run(connection, "analyze_serving_table", names)


def _passages(model: ModelVersion) -> sql.Composed:
    return statement("published_passages", embedding_type=sql.SQL(model.embedding_type))


def _swap(connection: Connection, model: ModelVersion) -> Rebuilt:
    attempts = Retrying(
        retry=retry_if_exception_type((psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)),
        stop=stop_after_delay(PATIENCE_SECONDS),
        wait=wait_random(0.05, 0.5),
    )
    try:
        swapped: Rebuilt = attempts(_swap_once, connection, model)
    except RetryError as error:
        raise Refused(
            f"A long transaction reads the index of {model.version}, which serves on as it was; when it has ended, "
            f"run `ingest-assets rebuild-index --model {model.version}` again."
        ) from error
    return swapped


def _swap_once(connection: Connection, model: ModelVersion) -> Rebuilt:
    with connection.transaction():
        if row(connection, "lock_live_model", version=model.version) is None:
            raise Refused(f"The version {model.version} was retired meanwhile.")
        if row(connection, "has_serving_table", serving=model.serving_name) is not None:
            run(connection, "lock_serving_writers", {"serving": model.serving})
        changed = [item["document_id"] for item in rows(connection, "republished_documents", version=model.version)]
        rebuilt = {"serving": model.rebuilt}
        if changed:
            run(connection, "delete_serving_rows", rebuilt, document_ids=changed)
            rebuilt_from = {**rebuilt, "query": _passages(model)}
            run(connection, "add_passages", rebuilt_from, version=model.version, document_ids=changed)
        [found] = rows(connection, "count_serving_rows", rebuilt)
        documents = one(connection, "count_publications", version=model.version)["documents"]
        run(connection, "drop_serving_table", {"serving": model.serving})
        name = sql.Identifier(model.serving_name.split(".")[1])
        run(connection, "rename_serving_table", {"rebuilt": model.rebuilt, "table_name": name})
    return Rebuilt(model.version, documents, found["found"], len(changed))
