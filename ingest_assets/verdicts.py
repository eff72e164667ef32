"""What a check is, what it looks at, and what it says: counts that are exact, and a capped table of offenders.

What does not belong here: the checks themselves (`checks.py`), and remembering offenders (`offenders.py`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from uuid import UUID

from psycopg.rows import DictRow

from ingest_assets.database import Database
from ingest_assets.offenders import known_offenders, remember_offenders
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
    documents: tuple[UUID, ...] | None = None  # looked at in full; None are all

    @property
    def document_ids(self) -> list[UUID] | None:
        """The documents as statements take them."""
        return None if self.documents is None else list(self.documents)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one check."""

    check: str
    asset: str
    passed: bool
    severity: Literal["ERROR", "WARN"]
    summary: str  # one sentence for people
    remedy: str  # what to do when it failed
    scope: str  # what was looked at
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
    command: str  # to run next
    judge: Callable[[CheckContext], "Finding"]
    is_by_document: bool = False  # looks at single documents, which after a run are that run's

    def run(self, context: CheckContext) -> Verdict:
        """Judge the database now.

        A check of some documents looks again at those it found wrong before, so that it does not turn green while one
        of them still is.
        """
        scope, unseen = "everything", 0
        if self.is_by_document and context.documents is not None:
            known, unseen = known_offenders(context.database, self.name)
            context = replace(context, documents=tuple(dict.fromkeys((*context.documents, *known))))
            scope = f"{len(context.documents or ())} documents in full, the corpus by counters"
        found = self.judge(context)
        if self.is_by_document:
            wrong = {item["document_id"] for item in found.offenders if "document_id" in item}
            remember_offenders(context.database, self.name, context.document_ids, wrong)
        offenders = [{key: item[key] for key in item if key != "document_id"} for item in found.offenders[:OFFENDERS]]
        if unseen:
            offenders.insert(0, {"document": "", "problem": f"{unseen} more were wrong before and not looked at again"})
        is_good = not offenders
        return Verdict(
            self.name,
            self.asset,
            passed=is_good,
            severity=self.severity,
            summary=found.good if is_good else found.bad,
            remedy=self.remedy,
            scope=scope,
            counts={**found.counts, "offenders": len(found.offenders) + unseen},
            offenders=tuple(offenders),
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found: no offender means that it passes."""

    offenders: Sequence[DictRow]
    good: str
    bad: str
    counts: dict[str, int] = field(default_factory=dict)
