"""One pass without a daemon: discover, ingest, embed, publish, delete, check, as ordinary runs of the instance.

What does not belong here: printing, and what the sensors decide for themselves.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import dagster as dg
from dagster_shared.error import SerializableErrorInfo

from ingest_assets.changes import by_lane
from ingest_assets.checks import run_checks
from ingest_assets.chunk import chunker_version
from ingest_assets.defs.bookkeeping import spent
from ingest_assets.defs.partitions import add_documents, synchronise_versions
from ingest_assets.defs.report import CAUSE, check_context
from ingest_assets.defs.requests import DueRun, due_runs
from ingest_assets.defs.runs import execute, report_dead_runs
from ingest_assets.defs.sensors import deletions_due
from ingest_assets.discovery import Discovery, discover, pending_documents
from ingest_assets.embed import open_provider
from ingest_assets.embedding import count_foreign_claims, uncovered_documents
from ingest_assets.errors import IngestError, all_kinds
from ingest_assets.extract import extractor_version
from ingest_assets.ledger import count_pass, pass_spend
from ingest_assets.models import ModelVersion, declare_models, lane_of, live_models
from ingest_assets.platform import Platform
from ingest_assets.records import Lane
from ingest_assets.verdicts import Verdict

CLAIM_POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class FailedRun:
    """A run that stopped for another reason than documents it rejected."""

    run_id: str
    cause: str  # environment, refused or embedding
    message: str


@dataclass(slots=True)
class PassResult:
    """What one pass found and did."""

    discovery: Discovery
    replaced_runs: list[str]  # dead runs that were reported as failed
    run_ids: list[str] = field(default_factory=list)
    documents: set[str] = field(default_factory=set)  # partition keys of the runs' documents
    ingested: int = 0
    rejected: int = 0
    deleted: int = 0
    planned: int = 0
    reused: int = 0
    embedded: int = 0
    dead_lettered: int = 0
    left_to_others: int = 0
    sent_tokens: int = 0  # in the chunker's measure
    billed_tokens: int = 0  # as the providers count, where they say so
    rate_limited_responses: int = 0
    other_failures: int = 0
    spend: list[dict[str, Any]] = field(default_factory=list)  # by model, lane and origin
    failed_runs: list[FailedRun] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)  # by stage; bookkeeping is part of ingest and embed
    checks: list[Verdict] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Pass:
    """What a pass needs."""

    platform: Platform
    instance: dg.DagsterInstance
    definitions: dg.Definitions
    are_deletions_approved: bool = False
    approved_units: int | None = None

    def execute(self) -> PassResult:
        """Run everything that is due, once; documents of later changes are for the next pass.

        Raises:
            EnvironmentProblem: the source cannot be listed, or a model cannot be loaded; nothing was begun.
        """
        platform, began = self.platform, time.perf_counter()
        replaced = report_dead_runs(self.instance, platform.database)
        synchronise_versions(self.instance, live_models(platform.database))
        found = discover(
            platform.database,
            platform.source,
            platform.settings.source,
            are_deletions_approved=self.are_deletions_approved,
        )
        result = PassResult(found, replaced, seconds={"discover": time.perf_counter() - began})
        self._require_models(self._models())
        before = spent.seconds
        with _timed(result, "ingest"):
            self._ingest(result)
        with _timed(result, "embed"):
            for model in self._models():
                self._embed(result, model)
        result.seconds["bookkeeping"] = spent.seconds - before
        with _timed(result, "delete"):
            self._delete(result)
        self._count(result)
        with _timed(result, "checks"):
            result.checks = run_checks(check_context(platform, None, result.documents))
        return result

    def backfill(self, version: str) -> PassResult:
        """Embed what one version misses, and nothing else.

        Raises:
            EnvironmentProblem: the model cannot be loaded; nothing was begun.
        """
        replaced = report_dead_runs(self.instance, self.platform.database)
        result = PassResult(Discovery(0, 0, 0, 0, 0), replaced)
        [model] = [item for item in self._models() if item.version == version]
        self._require_models([model])
        with _timed(result, "embed"):
            self._embed(result, model)
        self._count(result)
        with _timed(result, "checks"):
            result.checks = run_checks(check_context(self.platform, None, result.documents))
        return result

    def _models(self) -> list[ModelVersion]:
        return declare_models(self.platform.database, self.platform.settings.models)

    def _pending(self) -> list[str]:
        settings = self.platform.settings
        return pending_documents(
            self.platform.database, extractor_version(settings.extract), chunker_version(settings.chunker)
        )

    def _require_models(self, models: Sequence[ModelVersion]) -> None:
        """Load what this pass will embed with before anything is written."""
        is_pending = bool(self._pending())
        for model in models:
            if is_pending or uncovered_documents(self.platform.database, model.version):
                open_provider(next(item for item in self.platform.settings.models if item.version == model.version))

    def _ingest(self, result: PassResult) -> None:
        keys = self._pending()
        add_documents(self.instance, keys)
        for lane, part in by_lane(self.platform.database, "pending", keys):
            for due in due_runs("ingest", part, self._size, lane=lane):
                self._run(result, due)
                result.ingested += len(due.keys)

    def _embed(self, result: PassResult, model: ModelVersion) -> None:
        """Embed what is not covered; what living runs are paying for is waited for."""
        lane = lane_of(model.version, self._models())
        while keys := uncovered_documents(self.platform.database, model.version):
            add_documents(self.instance, keys)
            before = len(result.run_ids)
            if not all(self._run(result, due) for due in self._due(model, keys, lane)):
                return
            # Others may have given up what we left to them before we look.
            left = count_pass(self.platform.database, result.run_ids[before:])["left_to_others"]
            if not self._wait_for_claims(result, model) and not left:
                return

    def _due(self, model: ModelVersion, keys: list[str], lane: Lane) -> Iterator[DueRun]:
        for name, part in by_lane(self.platform.database, "uncovered", keys, lane):
            yield from due_runs(
                "embed", part, self._size, version=model.version, lane=name, approved_units=self.approved_units
            )

    def _wait_for_claims(self, result: PassResult, model: ModelVersion) -> bool:
        """Wait while other runs pay for texts of this version; False where none did."""
        waited = False
        while count_foreign_claims(self.platform.database, model, run_id=""):
            waited = True
            time.sleep(CLAIM_POLL_SECONDS)
            result.replaced_runs += report_dead_runs(self.instance, self.platform.database)
        return waited

    def _delete(self, result: PassResult) -> None:
        for due in self._cut("delete", deletions_due(self.platform)):
            self._run(result, due)

    def _cut(self, kind: str, keys: Sequence[str]) -> list[DueRun]:
        return list(due_runs(kind, keys, self._size))  # type: ignore[arg-type]

    @property
    def _size(self) -> int:
        return self.platform.settings.source.max_documents_per_run

    def _run(self, result: PassResult, due: DueRun) -> bool:
        """Execute one run; False where it stopped before its end."""
        executed = execute(self.definitions, self.instance, self.platform.database, due)
        result.run_ids.append(executed.run_id)
        result.documents.update(due.keys)
        failures = [] if executed.success else _failures(executed)
        result.failed_runs += failures
        return not failures

    def _count(self, result: PassResult) -> None:
        for name, value in count_pass(self.platform.database, result.run_ids).items():
            setattr(result, name, int(value))
        result.ingested -= result.rejected
        result.spend = pass_spend(self.platform.database, result.run_ids)


@contextmanager
def _timed(result: PassResult, stage: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    result.seconds[stage] = time.perf_counter() - began


def _said(error: SerializableErrorInfo | None) -> str:
    """Return what an error of ours in a chain says, else the one that began it: Dagster's own only say where it was."""
    message = "It stopped without saying why."
    ours = {kind.__name__ for kind in all_kinds(IngestError)}
    while error is not None:
        message = error.message.strip()
        if error.cls_name in ours:
            return message.partition(": ")[2] or message
        error = error.cause or error.context
    return message


def _failures(executed: dg.ExecuteInProcessResult) -> list[FailedRun]:
    """Return why a run stopped, unless it was for documents it rejected."""
    found = []
    for event in executed.get_step_failure_events():
        data = event.step_failure_data
        failure = data.user_failure_data
        if failure is None:
            found.append(FailedRun(executed.run_id, "environment", _said(data.error)))
        elif CAUSE in failure.metadata:
            found.append(FailedRun(executed.run_id, str(failure.metadata[CAUSE].value), failure.description or ""))
    return found
