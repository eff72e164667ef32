"""Publication: readers see a document's old generation until its new one is complete, never parts.

What does not belong here: making vectors (`embedding.py`), and searching (`search.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from psycopg.rows import DictRow

from ingest_assets.database import Connection, Database, ids, row, rows, run
from ingest_assets.models import ModelVersion

DOCUMENTS_PER_TRANSACTION = 50


@dataclass(frozen=True, slots=True)
class Publication:
    """Where one document stands at one version after a run."""

    document_id: UUID
    chunks: int
    vectors: int
    dead_letters: int
    published: bool
    covered: bool  # every current chunk has a vector or a standing dead letter


def publish_documents(
    database: Database,
    model: ModelVersion,
    document_ids: Sequence[UUID],
    *,
    tolerance: int,
    run_id: str,
    is_first_declared: bool = True,
) -> list[Publication]:
    """Publish what is complete, withhold what is not, and record coverage with it.

    Each document changes for readers in one transaction. `tolerance` is the number of open dead letters that a
    document may have and still be published: what an operator resolved does not count. Documents that still miss
    vectors are left as they are. The first declared version serves readers from its first publication.
    """
    ordered = ids(document_ids)
    done: list[Publication] = []
    for start in range(0, len(ordered), DOCUMENTS_PER_TRANSACTION):
        batch = ordered[start : start + DOCUMENTS_PER_TRANSACTION]
        done += database.transact(partial(_publish, model=model, batch=batch, tolerance=tolerance, run_id=run_id))
    if is_first_declared and any(item.published for item in done):
        with database.connection() as connection:
            run(connection, "activate_first_model", version=model.version)
    return done


def _publish(
    connection: Connection, *, model: ModelVersion, batch: list[UUID], tolerance: int, run_id: str
) -> list[Publication]:
    if row(connection, "lock_live_model", version=model.version) is None:
        return []  # retired meanwhile
    rows(connection, "lock_documents", document_ids=batch)
    run(connection, "close_embedded_letters", document_ids=batch, version=model.version)
    found = [
        _judge(item, tolerance)
        for item in rows(connection, "count_coverage", document_ids=batch, version=model.version)
    ]
    published = [item.document_id for item in found if item.published]
    covered = [item.document_id for item in found if item.covered]
    if published:
        run(connection, "delete_serving_rows", {"serving": model.serving}, document_ids=published)
        run(
            connection, "insert_serving_rows", {"serving": model.serving}, document_ids=published, version=model.version
        )
        run(connection, "upsert_publications", document_ids=published, version=model.version, run_id=run_id)
    run(
        connection,
        "upsert_coverage",
        document_ids=covered,
        published_ids=published,
        version=model.version,
        run_id=run_id,
    )
    run(connection, "sweep_chunks", document_ids=batch)
    return found


def _judge(item: DictRow, tolerance: int) -> Publication:
    is_covered = item["vectors"] + item["letters"] == item["chunks"]
    return Publication(
        document_id=item["document_id"],
        chunks=item["chunks"],
        vectors=item["vectors"],
        dead_letters=item["letters"],
        covered=is_covered,
        published=is_covered and item["open_letters"] <= tolerance and item["vectors"] > 0,
    )
