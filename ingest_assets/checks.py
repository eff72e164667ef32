"""Checks: counts from the database become verdicts. Plain functions, run by Dagster, by `run` and by `verify`.

What does not belong here: Dagster's names for a result (`defs/`), and telling anybody (alerts).
Counts are exact; the table of offenders is capped.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from psycopg.rows import DictRow

from ingest_assets.database import Database, one, row, rows
from ingest_assets.discovery import staged_listing
from ingest_assets.models import live_models
from ingest_assets.source import Source

OFFENDERS = 20


@dataclass(frozen=True, slots=True)
class CheckContext:
    """What checks look at."""

    database: Database
    source: Source
    deletion_grace_seconds: float
    run_id: str | None = None  # the run that has just ended; None looks at recent runs
    lists_source: bool = False  # list the source now, rather than trust the last complete listing


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one check."""

    check: str
    asset: str
    passed: bool
    severity: Literal["ERROR", "WARN"]
    summary: str  # one sentence for people
    counts: dict[str, int] = field(default_factory=dict)
    offenders: tuple[dict[str, Any], ...] = ()  # capped; `counts` are exact


@dataclass(frozen=True, slots=True)
class Check:
    """One check: what it is called, what it belongs to, and what somebody who sees it fail should know."""

    name: str
    asset: str
    severity: Literal["ERROR", "WARN"]
    meaning: str
    remedy: str
    judge: Callable[[CheckContext], "Finding"]

    def run(self, context: CheckContext) -> Verdict:
        """Judge the database now."""
        found = self.judge(context)
        summary = found.good if not found.offenders else found.bad
        return Verdict(
            self.name,
            self.asset,
            passed=not found.offenders,
            severity=self.severity,
            summary=summary,
            counts={**found.counts, "offenders": len(found.offenders)},
            offenders=tuple(dict(item) for item in found.offenders[:OFFENDERS]),
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found: no offender means that it passes."""

    offenders: Sequence[DictRow]
    good: str
    bad: str
    counts: dict[str, int] = field(default_factory=dict)


def run_checks(context: CheckContext) -> list[Verdict]:
    """Run every check, in the order of the pipeline."""
    return [check.run(context) for check in CHECKS]


def _source_reconciliation(context: CheckContext) -> Finding:
    offenders, counts = _listed_now(context) if context.lists_source else _listed_last(context)
    with context.database.connection() as connection:
        withheld = one(connection, "count_withheld")["documents"]
    if withheld:
        offenders.append({"document": "", "problem": f"{withheld} deletions are withheld until they are approved"})
    return Finding(
        offenders,
        good="The documents are those of the source.",
        bad=f"{len(offenders)} differences between the source and the documents.",
        counts=counts,
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
        offenders = rows(connection, "documents_without_chunks")
    return Finding(
        offenders,
        good="Every document with text has chunks.",
        bad=f"{len(offenders)} documents have text but no chunk.",
    )


def _count_reconciliation(context: CheckContext) -> Finding:
    with context.database.connection() as connection:
        unbalanced = rows(connection, "unbalanced_runs", run_id=context.run_id)
        unreconciled = rows(connection, "unreconciled_documents")
        unserved = rows(connection, "unserved_documents")
        corpus = rows(connection, "corpus_counts")
    offenders = [{**item, "problem": "the run's units do not add up to its plan"} for item in unbalanced]
    offenders += [{**item, "problem": "chunks without exactly one of vector and dead letter"} for item in unreconciled]
    offenders += [{**item, "problem": "covered, but another generation is published"} for item in unserved]
    counts = {
        f"{name} at {item['version']}": item[name]
        for item in corpus
        for name in ("chunks", "vectors", "pending_documents")
    }
    return Finding(
        offenders,
        good="Every chunk of every covered document has exactly one of vector and dead letter.",
        bad=f"{len(offenders)} runs or documents do not add up.",
        counts=counts,
    )


def _hash_freshness(context: CheckContext) -> Finding:
    models = live_models(context.database)
    with context.database.connection() as connection:
        offenders = [{**item, "problem": "the vector is of another text"} for item in rows(connection, "stale_vectors")]
        offenders += [
            {**item, "problem": "the chunks are of another text"} for item in rows(connection, "stale_chunks")
        ]
        for model in models:
            found = rows(connection, "stale_serving_rows", {"serving": model.serving}, version=model.version)
            offenders += [
                {**item, "version": model.version, "problem": "the served rows differ from the chunks"}
                for item in found
            ]
    return Finding(
        offenders,
        good="Vectors, chunks and served rows are of today's text.",
        bad=f"{len(offenders)} documents are served or embedded with a text that is not theirs.",
    )


def _unresolved_dead_letters(context: CheckContext) -> Finding:
    with context.database.connection() as connection:
        offenders = rows(connection, "open_letters")
    return Finding(
        offenders,
        good="No dead letter is open.",
        bad=f"{sum(item['letters'] for item in offenders)} dead letters are open.",
        counts={"letters": sum(item["letters"] for item in offenders)},
    )


CHECKS = (
    Check(
        "source_reconciliation",
        "documents",
        "ERROR",
        "The documents are those of the source: nothing listed is unknown, nothing deleted is left or withheld.",
        "Run `ingest-assets run`; when deletions are withheld and right, `ingest-assets run --approve-deletions`.",
        _source_reconciliation,
    ),
    Check(
        "no_empty_success",
        "chunks",
        "ERROR",
        "No document counts as indexed while it has text and no chunk.",
        "Materialize the offenders' partitions of `documents` and `chunks` again.",
        _no_empty_success,
    ),
    Check(
        "count_reconciliation",
        "chunk_vectors",
        "ERROR",
        "A run's units add up to its plan; each chunk of a covered document has one of vector and dead letter.",
        "`ingest-assets status DOCUMENT` shows an offender; materialize its `chunk_vectors` partition again.",
        _count_reconciliation,
    ),
    Check(
        "hash_freshness",
        "chunk_vectors",
        "ERROR",
        "Vectors are of the text that their chunks hold now, chunks of their document's text, served rows of chunks.",
        "Rows were changed by hand: materialize the offenders again, `documents` first, then `chunk_vectors`.",
        _hash_freshness,
    ),
    Check(
        "unresolved_dead_letters",
        "dead_letters",
        "WARN",
        "Nothing was given up on without somebody having looked.",
        "Run `ingest-assets dead-letters list`; mend the cause and `retry`, or `resolve`.",
        _unresolved_dead_letters,
    ),
)
