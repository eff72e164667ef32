"""Embedding model versions: declared in the settings, recorded in `embedding_models`, which is the authority.

What does not belong here: calling a model (`embed/`), and switching readers from one version to another.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import psycopg
from psycopg import sql
from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from ingest_assets.database import Connection, Database, row, rows, run
from ingest_assets.errors import Refused, SettingsError
from ingest_assets.records import Lane
from ingest_assets.settings import ModelSettings

VECTOR_LIMIT = 2000  # dimensions that HNSW takes as `vector`; above it, up to 4,000, `halfvec` (pgvector 0.8)
ANN_INDEX_ROWS = 1000  # below this an exact scan answers in about a millisecond


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """One recorded version and the tables that hold it."""

    version: str
    number: int
    dimensions: int
    status: str  # building, active or retired
    fingerprint: dict[str, Any]  # empty until the first run

    @property
    def vectors_name(self) -> str:
        """Qualified name of the partition of chunk_vectors."""
        return f"ingest.chunk_vectors_{self.number}"

    @property
    def vectors(self) -> sql.Identifier:
        """Partition of chunk_vectors."""
        return sql.Identifier(*self.vectors_name.split("."))

    @property
    def serving_name(self) -> str:
        """Qualified name of the retrieval index's table."""
        return f"serving.index_{self.number}"

    @property
    def serving(self) -> sql.Identifier:
        """The retrieval index's table."""
        return sql.Identifier(*self.serving_name.split("."))

    @property
    def rebuilt_name(self) -> str:
        """Qualified name of the table that a rebuild makes before it takes the other's place."""
        return f"{self.serving_name}_rebuilt"

    @property
    def rebuilt(self) -> sql.Identifier:
        """The table that a rebuild makes."""
        return sql.Identifier(*self.rebuilt_name.split("."))

    @property
    def embedding_type(self) -> Literal["vector", "halfvec"]:
        """Column type of the retrieval index."""
        return "vector" if self.dimensions <= VECTOR_LIMIT else "halfvec"


def declare_models(database: Database, declared: Sequence[ModelSettings]) -> list[ModelVersion]:
    """Record versions that are new, make their tables, and return the declared ones that are not retired, in order.

    A declared label that is retired is left alone. Calling twice is safe.

    Raises:
        SettingsError: a label is declared with another meaning than it was recorded with.
    """
    known = {model.version: model for model in all_models(database)}
    for settings in declared:
        if settings.version not in known:
            database.transact(lambda connection, settings=settings: _declare(connection, settings))  # type: ignore[misc]
    _refuse_changed(database, declared)
    live = {model.version: model for model in live_models(database)}
    return [live[settings.version] for settings in declared if settings.version in live]


def all_models(database: Database) -> list[ModelVersion]:
    """Return every recorded version, oldest first."""
    with database.connection() as connection:
        return [_version(item) for item in rows(connection, "select_models")]


def indexed_models(connection: Connection) -> list[ModelVersion]:
    """Return the versions that have a retrieval index, as this transaction sees them."""
    return [_version(item) for item in rows(connection, "select_indexed_models")]


def live_models(database: Database) -> list[ModelVersion]:
    """Return the versions that are not retired, oldest first."""
    return [model for model in all_models(database) if model.status != "retired"]


def published_documents(database: Database) -> dict[str, int]:
    """Return how many documents each version has in its retrieval index."""
    with database.connection() as connection:
        return {item["version"]: item["documents"] for item in rows(connection, "count_published_documents")}


def ignored_versions(database: Database, declared: Sequence[ModelSettings]) -> list[str]:
    """Return declared labels that are retired: nothing is done at them any more."""
    retired = {model.version for model in all_models(database) if model.status == "retired"}
    return [settings.version for settings in declared if settings.version in retired]


def ignored_notice(versions: Sequence[str]) -> str:
    """Say which declared labels are ignored; nothing where none is."""
    if not versions:
        return ""
    return f"Declared, but retired, and ignored: {', '.join(versions)}. Take it out of [[models]] in the settings."


def require_live(connection: Connection, version: str) -> None:
    """Hold a version as it is until the end of this transaction, which writes at it.

    Raises:
        Refused: it was retired meanwhile.
    """
    if row(connection, "lock_live_model", version=version) is None:
        raise Refused(
            f"The version {version} was retired while this run embedded it; nothing more is sent or written at it. "
            "Take it out of the settings."
        )


def served_model(models: Sequence[ModelVersion]) -> ModelVersion | None:
    """Return the active version; before there is one, the first."""
    return next((model for model in models if model.status == "active"), models[0] if models else None)


def lane_of(version: str, models: Sequence[ModelVersion]) -> Lane:
    """Return the lane of a version's work: readers wait for the served one, nobody for one that is being built."""
    served = served_model(models)
    return "incremental" if served is not None and served.version == version else "backfill"


def ensure_ann_index(database: Database, model: ModelVersion, table_name: str | None = None) -> bool:
    """Build a version's HNSW index when it is missing and worth having; True when it was built now.

    `table_name` is the table to index, the one that serves by default.
    """
    name = table_name or model.serving_name
    serving = sql.Identifier(*name.split("."))
    with database.connection() as connection:
        if row(connection, "has_ann_index", serving=name) is not None:
            return False
        count = rows(connection, "count_serving_rows", {"serving": serving})[0]["found"]
        if count < ANN_INDEX_ROWS:
            return False
        operator_class = sql.SQL("vector_cosine_ops" if model.embedding_type == "vector" else "halfvec_cosine_ops")
        build = {"serving": serving, "operator_class": operator_class}
        try:
            _build_ann_index(connection, build)
        except (psycopg.errors.DiskFull, psycopg.errors.OutOfMemory):
            # Workers of a parallel build share memory, of which containers often have 64 MB.
            try:
                _build_ann_index(connection, build, is_parallel=False)
            except (psycopg.errors.DiskFull, psycopg.errors.OutOfMemory) as error:
                raise Refused(
                    f"The database server says: {error.diag.message_primary}. Search is exact and slower without the "
                    "index. Give the server more shared memory (shm_size of its container) or disk, or lower its "
                    "maintenance_work_mem; the next run builds it."
                ) from error
    return True


def create_serving_table(connection: Connection, model: ModelVersion, table_name: str) -> None:
    """Make an empty retrieval index under a name, with all its indexes but HNSW, and under the policy of tenants."""
    names: dict[str, sql.Composable] = {
        "serving": sql.Identifier(*table_name.split(".")),
        "dimensions": sql.Literal(model.dimensions),
        "embedding_type": sql.SQL(model.embedding_type),
    }
    run(connection, "create_serving_table", names)
    run(connection, "compress_serving_texts", serving=table_name)
    run(connection, "apply_tenant_policy", serving=table_name)
    for name in ("index_serving_documents", "index_serving_keywords", "index_serving_keys", "index_serving_metadata"):
        run(connection, name, names)


def _build_ann_index(connection: Connection, build: Mapping[str, sql.Composable], *, is_parallel: bool = True) -> None:
    with connection.transaction():
        run(connection, "raise_maintenance_memory" if is_parallel else "build_alone")
        run(connection, "create_ann_index", build)


def _version(item: DictRow) -> ModelVersion:
    return ModelVersion(item["version"], item["number"], item["dimensions"], item["status"], item["fingerprint"])


def _declare(connection: Connection, settings: ModelSettings) -> None:
    run(connection, "lock_models")
    inserted = row(
        connection,
        "insert_model",
        version=settings.version,
        provider=settings.provider,
        model=settings.model,
        dimensions=settings.dimensions,
        fingerprint=Jsonb({}),
    )
    if inserted is None:
        return
    model = ModelVersion(settings.version, inserted["number"], settings.dimensions, "building", {})
    names: dict[str, sql.Composable] = {
        "vectors": model.vectors,
        "version": sql.Literal(model.version),
        "dimensions": sql.Literal(model.dimensions),
    }
    for name in ("create_vector_partition", "attach_vector_partition"):
        run(connection, name, names)
    create_serving_table(connection, model, model.serving_name)


def _refuse_changed(database: Database, declared: Sequence[ModelSettings]) -> None:
    with database.connection() as connection:
        recorded = {item["version"]: item for item in rows(connection, "select_models")}
    for settings in declared:
        known = recorded[settings.version]
        for name in ("provider", "model", "dimensions"):
            if known[name] != getattr(settings, name):
                raise SettingsError(
                    f"models: {settings.version} stands for {name} {known[name]}, not {getattr(settings, name)}; "
                    "a label never changes its meaning, declare the new model under a new version."
                )
