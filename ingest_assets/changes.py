"""What another chunker or extractor will make of the documents, and what that costs: foreseen by doing it, unrecorded.

What does not belong here: recording it (`ingest.py`), and prices (`planning.py`).
Nothing here calls a provider, and the database is only read; foreseen chunks live in a table of this session.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from psycopg.rows import DictRow

from ingest_assets.chunk import chunker_version
from ingest_assets.database import Connection, Database, copy, one, row, rows, run
from ingest_assets.document_rows import stored_text
from ingest_assets.errors import DocumentRejected, DocumentUnreadable
from ingest_assets.extract import extractor_version
from ingest_assets.extract.pool import Workers
from ingest_assets.ingest import fetch, identified, is_rechunkable
from ingest_assets.planning import Plan, estimate
from ingest_assets.progress import Progress, report
from ingest_assets.records import Chunk, Extracted, Lane
from ingest_assets.settings import ModelSettings, Settings
from ingest_assets.source import Source

DOCUMENTS_PER_PAGE = 200
CHANGE_TYPES = ("uuid", "uuid", "bytea", "int4")

Foreseen = tuple[DictRow, list[Chunk] | DocumentRejected | DocumentUnreadable]


@dataclass(slots=True)
class Changes:
    """What the next run will make of documents whose objects did not change."""

    rechunked: int = 0  # documents that are cut anew from stored text
    reextracted: int = 0  # documents whose objects are read anew
    chunks: int = 0  # of both
    rejected: int = 0  # documents that cannot be indexed by today's extractor
    unreadable: int = 0  # objects that could not be read for this
    unread: int = 0  # new and changed objects, which are in no number here: nobody has read them


@dataclass(frozen=True, slots=True)
class VersionPlan:
    """What a version will be sent once those changes are recorded."""

    plan: Plan
    new_chunks: int  # of the changed documents, whose text has no vector at the version

    def as_json(self) -> dict[str, Any]:
        """Return one object."""
        return {**asdict(self.plan), "new_chunks": self.new_chunks}


def plan_changes(
    database: Database, source: Source, settings: Settings, lanes: Sequence[tuple[ModelSettings, Lane]]
) -> tuple[Changes, list[VersionPlan]]:
    """Foresee what today's chunker and extractor change, and what each version will be sent.

    Documents that wait for another chunker only are cut from stored text; the others are read and extracted.

    Raises:
        EnvironmentProblem: the source, the database or the extraction workers fail.
    """
    changes = Changes()
    with database.connection() as connection:
        run(connection, "create_change_staging")
        run(connection, "clear_change_staging")
        keys = _changing(connection, settings)
        changes.unread = one(connection, "count_unread_documents")["documents"]
        for done, (document, found) in enumerate(_foresee(database, source, settings, keys), 1):
            _note(connection, changes, document, found, settings)
            report(Progress("foresee", done, len(keys), failed=changes.rejected + changes.unreadable))
        run(connection, "analyze_change_staging")
        watermark = one(connection, "current_watermark")
        # Nobody waits for what is chunked anew.
        plans = [_plan(connection, model, "backfill" if keys else lane, watermark) for model, lane in lanes]
        run(connection, "clear_change_staging")
    return changes, plans


def by_lane(
    database: Database, kind: Literal["pending", "uncovered"], keys: Sequence[str], lane: Lane = "incremental"
) -> list[tuple[Lane, list[str]]]:
    """Part documents that are due: nobody waits for those that another extractor or chunker made due."""
    statement = "pending_by_rules" if kind == "pending" else "uncovered_by_rules"
    with database.connection() as connection:
        found = {item["partition_key"] for item in rows(connection, statement, partition_keys=list(keys))}
    parts: list[tuple[Lane, list[str]]] = [
        (lane, [key for key in keys if key not in found]),
        ("backfill", [key for key in keys if key in found]),
    ]
    return [(name, part) for name, part in parts if part]


def _changing(connection: Connection, settings: Settings) -> list[str]:
    versions = (extractor_version(settings.extract), chunker_version(settings.chunker))
    found = rows(connection, "changing_documents", extractor_version=versions[0], chunker_version=versions[1])
    return [item["partition_key"] for item in found]


def _plan(connection: Connection, settings: ModelSettings, lane: Lane, watermark: DictRow) -> VersionPlan:
    found = one(connection, "plan_changes", version=settings.version, **watermark)
    units, tokens = found["units"] - found["known_units"], found["tokens"] - found["known_tokens"]
    return VersionPlan(
        estimate(settings, units=units, reused=found["known_units"], tokens=tokens, lane=lane), found["new_chunks"]
    )


def _note(
    connection: Connection,
    changes: Changes,
    document: DictRow,
    found: list[Chunk] | DocumentRejected | DocumentUnreadable,
    settings: Settings,
) -> None:
    if is_rechunkable(document, settings):
        changes.rechunked += 1
    elif isinstance(found, DocumentUnreadable):
        changes.unreadable += 1
    else:
        changes.reextracted += 1
    if isinstance(found, list):
        changes.chunks += len(found)
        records = ((document["document_id"], c.chunk_id, c.text_sha256, c.span.token_count) for c in found)
        copy(connection, "copy_changes", CHANGE_TYPES, records)
    elif isinstance(found, DocumentRejected):
        changes.rejected += 1


def _foresee(database: Database, source: Source, settings: Settings, keys: Sequence[str]) -> Iterator[Foreseen]:
    """Yield each document with its chunks to come, or why there are none, whichever is done first."""
    with Workers[DictRow](settings.extract) as workers:
        for document in _documents(database, keys):
            if is_rechunkable(document, settings):
                yield document, _from_stored_text(database, document, settings)
                continue
            try:
                content = fetch(source, settings, document)
            except (DocumentUnreadable, DocumentRejected) as error:
                yield document, error
                continue
            workers.submit(document, content.data, document["source_key"])
            for item, finding in workers.finished():
                yield item, _chunks(item, finding, settings)
        for item, finding in workers.drain():
            yield item, _chunks(item, finding, settings)


def _documents(database: Database, keys: Sequence[str]) -> Iterator[DictRow]:
    for start in range(0, len(keys), DOCUMENTS_PER_PAGE):
        with database.connection() as connection:
            page = rows(connection, "select_documents", partition_keys=list(keys[start : start + DOCUMENTS_PER_PAGE]))
        yield from page


def _from_stored_text(database: Database, document: DictRow, settings: Settings) -> list[Chunk]:
    fence = {name: document[name] for name in ("document_id", "generation", "updated_at")}
    with database.connection() as connection:
        found = row(connection, "select_stored_text", **fence)
    # A run that decided on it meanwhile has put its chunks into the queue.
    return [] if found is None else identified(document["document_id"], stored_text(found), settings)


def _chunks(
    document: DictRow, finding: Extracted | DocumentRejected, settings: Settings
) -> list[Chunk] | DocumentRejected:
    if isinstance(finding, DocumentRejected):
        return finding
    return identified(document["document_id"], finding, settings)
