"""Checks: counts from the database become findings. Plain functions, run by Dagster, by `run` and by `verify`.

What does not belong here: what a check is (`verdicts.py`), Dagster's names for a result (`defs/`), and telling anybody
(alerts). After a run its own documents are looked at in full and the corpus by counters; alone and on a schedule,
everything is.
"""

from collections.abc import Sequence
from typing import Any

from psycopg.rows import DictRow

from ingest_assets.database import Connection, row, rows, run
from ingest_assets.discovery import staged_listing
from ingest_assets.models import ModelVersion, live_models
from ingest_assets.verdicts import Check, CheckContext, Finding, Verdict


def run_checks(context: CheckContext) -> list[Verdict]:
    """Run every check, in the order of the pipeline."""
    return [check.run(context) for check in CHECKS]


def _source_reconciliation(context: CheckContext) -> Finding:
    offenders, counts = _listed_now(context) if context.lists_source else _listed_last(context)
    with context.database.connection() as connection:
        withheld = rows(connection, "withheld_documents")
    problem = "gone, and its deletion is withheld until somebody approves it"
    offenders += [{"document": item["source_key"], "problem": problem} for item in withheld]
    return Finding(
        offenders,
        good="The documents are those of the source.",
        bad=f"Differences between the source and the documents: {len(offenders)}.",
        counts={**counts, "deletions withheld": len(withheld)},
    )


def _listed_now(context: CheckContext) -> tuple[list[DictRow], dict[str, int]]:
    with staged_listing(context.database, context.source) as listing:
        unknown = rows(listing.connection, "unknown_objects")
        absent = rows(listing.connection, "absent_documents", grace_seconds=context.deletion_grace_seconds)
        objects = listing.objects
    offenders = [{"document": item["source_key"], "problem": "listed, but no document"} for item in unknown]
    offenders += [
        {"document": item["source_key"], "problem": "a document, but not listed"} for item in absent if item["overdue"]
    ]
    return offenders, {"objects": objects, "absent": len(absent)}


def _listed_last(context: CheckContext) -> tuple[list[DictRow], dict[str, int]]:
    with context.database.connection() as connection:
        last = row(connection, "last_listing")
        overdue = rows(connection, "overdue_documents", grace_seconds=context.deletion_grace_seconds)
    offenders = [{"document": item["source_key"], "problem": "a document, but not listed"} for item in overdue]
    return offenders, {"objects": last["objects"] if last else 0, "absent": len(overdue)}


def _no_empty_success(context: CheckContext) -> Finding:
    with context.database.connection() as connection:
        offenders = rows(connection, "documents_without_chunks", document_ids=context.document_ids)
    return Finding(
        offenders,
        good="Every document with text has chunks.",
        bad=f"Documents that have text but no chunk: {len(offenders)}.",
    )


def _count_reconciliation(context: CheckContext) -> Finding:
    models = live_models(context.database)

    def look(connection: Connection) -> Finding:
        run(connection, "raise_work_memory")
        unbalanced = rows(connection, "unbalanced_runs", run_id=context.run_id)
        unreconciled = rows(connection, "unreconciled_documents", document_ids=context.document_ids)
        unserved = rows(connection, "unserved_documents")
        corpus = {model.version: _corpus(connection, model) for model in models}
        offenders = [
            *_marked(unbalanced, "the run's units do not add up to its plan"),
            *_marked(unreconciled, "chunks without exactly one of vector and dead letter"),
            *_marked(unserved, "covered, but another generation is published"),
            *_miscounted(corpus, explained={item["version"] for item in (*unreconciled, *unserved)}),
        ]
        return Finding(
            offenders,
            good="Every chunk of every covered document has exactly one of vector and dead letter.",
            bad=f"Runs, documents or versions that do not add up: {len(offenders)}.",
            counts={f"{name} at {version}": found[name] for version, found in corpus.items() for name in found},
        )

    return context.database.transact(look)


def _marked(found: Sequence[DictRow], problem: str, **more: Any) -> list[DictRow]:
    return [{**item, **more, "problem": problem} for item in found]


def _corpus(connection: Connection, model: ModelVersion) -> dict[str, int]:
    names = {"serving": model.serving, "vectors": model.vectors}
    [found] = rows(connection, "count_corpus", names, version=model.version)
    return {name: int(count) for name, count in found.items()}


def _miscounted(corpus: dict[str, dict[str, int]], explained: set[str]) -> list[DictRow]:
    """Return versions whose rows cannot be right although no document that was looked at says why."""
    offenders: list[DictRow] = []
    for version in corpus.keys() - explained:
        served, published, vectors = (corpus[version][name] for name in ("served", "published", "vectors"))
        if served != published or vectors < published:
            problem = f"publications name {published} chunks; {served} rows are served, {vectors} vectors exist"
            offenders.append({"document": "", "version": version, "problem": problem})
    return offenders


def _hash_freshness(context: CheckContext) -> Finding:
    models, documents = live_models(context.database), context.document_ids

    def look(connection: Connection) -> list[DictRow]:
        run(connection, "raise_work_memory")
        vectors = rows(connection, "stale_vectors", document_ids=documents)
        chunks = rows(connection, "stale_chunks", document_ids=documents)
        found = [
            *_marked(vectors, "the vector is of another text"),
            *_marked(chunks, "the chunks are of another text"),
        ]
        for model in models:
            parameters = {"version": model.version, "document_ids": documents}
            served = rows(connection, "stale_serving_rows", {"serving": model.serving}, **parameters)
            found += _marked(served, "the served rows differ from the chunks", version=model.version)
        return found

    offenders = context.database.transact(look)
    documents_found = len({item["document"] for item in offenders})
    return Finding(
        offenders,
        good="Vectors, chunks and served rows are of today's text.",
        bad=f"Documents served or embedded with a text that is not theirs: {documents_found}.",
    )


def _unresolved_dead_letters(context: CheckContext) -> Finding:
    with context.database.connection() as connection:
        offenders = rows(connection, "open_letters")
    return Finding(
        offenders,
        good="No dead letter is open.",
        bad=f"Open dead letters: {sum(item['letters'] for item in offenders)}.",
        counts={"letters": sum(item["letters"] for item in offenders)},
    )


CHECKS = (
    Check(
        "source_reconciliation",
        "documents",
        "ERROR",
        "The documents are those of the source: nothing listed is unknown, nothing deleted is left or withheld.",
        "Run `ingest-assets run`; when deletions are withheld and right, `ingest-assets run --approve-deletions`, or "
        "in the UI the job delete_documents with `approve_withheld: true`.",
        "ingest-assets run",
        _source_reconciliation,
    ),
    Check(
        "no_empty_success",
        "chunks",
        "ERROR",
        "No document counts as indexed while it has text and no chunk.",
        "Materialize the offenders' partitions of `documents` and `chunks` again.",
        "ingest-assets verify",
        _no_empty_success,
        is_by_document=True,
    ),
    Check(
        "count_reconciliation",
        "chunk_vectors",
        "ERROR",
        "A run's units add up to its plan; each chunk of a covered document has one of vector and dead letter.",
        "`ingest-assets status DOCUMENT` shows an offender; materialize its `chunk_vectors` partition again.",
        "ingest-assets verify",
        _count_reconciliation,
        is_by_document=True,
    ),
    Check(
        "hash_freshness",
        "chunk_vectors",
        "ERROR",
        "Vectors are of the text that their chunks hold now, chunks of their document's text, served rows of chunks.",
        "Rows were changed by hand: materialize the offenders again, `documents` first, then `chunk_vectors`.",
        "ingest-assets verify",
        _hash_freshness,
        is_by_document=True,
    ),
    Check(
        "unresolved_dead_letters",
        "dead_letters",
        "WARN",
        "Nothing was given up on without somebody having looked.",
        "Run `ingest-assets dead-letters list`; mend the cause and `retry`, or `resolve`.",
        "ingest-assets dead-letters list",
        _unresolved_dead_letters,
    ),
)
