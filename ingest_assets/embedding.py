"""The second body: plan, reuse, embed and publish some documents at one version.

What does not belong here: Dagster, talking to a model (`embed/`), the claimed queue (`claims.py`), the account's budget
(`budget.py`), the run's own account (`ledger.py`), and publication itself (`publish.py`).
The queue is a difference, never a cursor: current chunks in the watermark, minus vectors, minus standing dead
letters. So a crash, a re-run and two runs at once are all ordinary runs.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ingest_assets.budget import Budget, batch_tokens
from ingest_assets.claims import Claims
from ingest_assets.database import Connection, Database, ids, one, rows, run
from ingest_assets.embed import Provider, open_provider
from ingest_assets.embed.batches import Shape
from ingest_assets.embed.engine import Engine, Unfinished
from ingest_assets.embed.retrying import Counters
from ingest_assets.errors import EmbeddingFatal, EmbeddingTransient, UnitRejected
from ingest_assets.fingerprints import fix_sample, recognise
from ingest_assets.leases import Lease
from ingest_assets.ledger import Ledger, Spend, UnitCounts
from ingest_assets.models import ModelVersion
from ingest_assets.planning import Plan, plan_documents, refuse_over_limits
from ingest_assets.progress import Progress, report
from ingest_assets.publish import Publication, publish_documents
from ingest_assets.records import Lane, Unit
from ingest_assets.settings import LimitSettings, ModelSettings
from ingest_assets.unit_writer import UnitWriter


@dataclass(frozen=True, slots=True)
class EmbeddingOutcome:
    """What one run did at one version, in distinct texts."""

    plan: Plan
    watermark: str
    reused: int
    embedded: int
    dead_lettered: int
    left_to_others: int
    vanished: int
    sent_tokens: int
    spend: tuple[Spend, ...]
    requests: Counters
    publications: tuple[Publication, ...]
    dead_lettered_documents: frozenset[UUID]  # with letters that this run wrote
    failure: EmbeddingTransient | EmbeddingFatal | None  # why the run stopped before its end; what was done is kept


def embed_documents(
    database: Database,
    model: ModelVersion,
    settings: ModelSettings,
    limits: LimitSettings,
    document_ids: Sequence[UUID],
    *,
    held: Lease,
    lane: Lane = "incremental",
    approved_units: int | None = None,
    is_first_declared: bool = True,
    on_plan: Callable[[Plan], None] | None = None,
) -> EmbeddingOutcome:
    """Embed what some documents lack at a version, then publish those that are complete.

    Texts that have a vector at this version are copied; each other distinct text is sent once, and each finished
    batch is committed at once. `held` is the run's lease, which the caller keeps; `on_plan` is told the plan before
    anything is spent. Running twice is safe.

    Raises:
        Refused: the plan exceeds the run's limits; nothing was spent. The message names the way to approve it.
        ModelUnavailable: the model cannot be loaded; nothing was spent.
    """
    return _Run(database, model, settings, limits, ids(document_ids), held, lane).execute(
        approved_units, is_first_declared=is_first_declared, on_plan=on_plan
    )


class _Run:
    """One run over a fixed set of documents inside a fixed watermark."""

    def __init__(
        self,
        database: Database,
        model: ModelVersion,
        settings: ModelSettings,
        limits: LimitSettings,
        document_ids: list[UUID],
        held: Lease,
        lane: Lane,
    ) -> None:
        self.database, self.model, self.settings, self.limits = database, model, settings, limits
        self.held, self.lane = held, lane
        with database.connection() as connection:
            self.watermark: str = one(connection, "current_watermark")["watermark"]
        self.queue: dict[str, Any] = {
            "version": model.version,
            "watermark": self.watermark,
            "document_ids": document_ids,
        }
        self.ledger = Ledger(held.run_id, model.version, settings.price_per_million_tokens)
        self.claims = Claims(database, self.queue, held.run_id)
        self.writer = UnitWriter(database, self.queue, self.ledger, self.claims)

    def execute(
        self, approved_units: int | None, *, is_first_declared: bool, on_plan: Callable[[Plan], None] | None
    ) -> EmbeddingOutcome:
        plan = plan_documents(self.database, self.settings, self.queue, self.lane)
        refuse_over_limits(self.limits, plan, approved_units)
        provider = open_provider(self.settings) if plan.units else None
        with self.database.connection() as connection:
            self.ledger.open(connection, self.lane, self.watermark, plan)
        if on_plan is not None:
            on_plan(plan)
        self._reuse()
        failure = self._send(provider, plan) if provider is not None else None
        left = self._settle(plan)
        publications = publish_documents(
            self.database,
            self.model,
            self.queue["document_ids"],
            tolerance=self.limits.dead_letter_tolerance,
            run_id=self.held.run_id,
            is_first_declared=is_first_declared,
        )
        with self.database.connection() as connection:
            spend = self.ledger.spend(connection)
        counts = self.ledger.counts
        return EmbeddingOutcome(
            plan=plan,
            watermark=self.watermark,
            reused=counts.reused,
            embedded=counts.embedded,
            dead_lettered=counts.dead_lettered,
            left_to_others=left,
            vanished=counts.vanished,
            sent_tokens=counts.sent_tokens,
            spend=spend,
            requests=self.ledger.requests,
            publications=tuple(publications),
            dead_lettered_documents=frozenset(self.writer.rejected_documents),
            failure=failure,
        )

    def _reuse(self) -> None:
        """Copy vectors that queued texts have at this version already."""

        def work(connection: Connection) -> UnitCounts:
            copied = self.claims.reuse(connection)
            self.claims.release(connection, list(copied))
            added = UnitCounts(reused=len(copied))
            self.ledger.note(connection, added)
            return added

        self.ledger.counts.add(self.database.transact(work))

    def _send(self, provider: Provider, plan: Plan) -> EmbeddingTransient | EmbeddingFatal | None:
        """Send what has to be sent; a failure of the provider is returned, so that what is done gets published."""
        try:
            asyncio.run(self._embed(provider, plan))
        except Unfinished as unfinished:
            return self.writer.note_unanswered(unfinished)
        except (EmbeddingTransient, EmbeddingFatal) as failure:
            return failure
        return None

    async def _embed(self, provider: Provider, plan: Plan) -> None:
        settings, lane = self.settings, self.lane
        try:
            engine = Engine(
                provider,
                Shape.of(settings, provider, batch_tokens(settings, lane)),
                settings.max_concurrency,
                admission=Budget(self.database, settings, provider.account, lane, self.held),
            )
            await recognise(self.database, self.model, engine, self.ledger.requests)
            sink = _Sink(self, plan)
            async with aclosing(self.claims.units()) as units:
                await engine.embed(units, sink.deliver, counters=self.ledger.requests)
        finally:
            await provider.close()

    def _settle(self, plan: Plan) -> int:
        """Copy what others paid for meanwhile, and account for the rest; returns the texts left to others."""
        self._reuse()
        fix_sample(self.database, self.model)
        with self.database.connection() as connection:
            found = one(connection, "plan_queue", **self.queue)
            left = int(found["units"])
            done = self.ledger.counts
            accounted = done.reused + done.embedded + done.dead_lettered + done.vanished + left
            # Texts of the plan that are in nobody's hands any more: another run wrote them into these documents, or no
            # current chunk holds them. Where nobody was there, a shortfall is one that the check must see.
            key = self.ledger.key
            gone = max(0, plan.units + plan.reused - accounted)
            disturbed = one(connection, "count_disturbed", run_id=key["run_id"], **self.queue)["documents"]
            rivals = one(connection, "count_rivals", **key)["runs"]
            left += gone if rivals else 0
            unseen = gone if disturbed and not rivals else 0
            run(connection, "forget_stale_attempts", version=self.model.version)
            self.ledger.noted(self.ledger.note_requests(connection))
            run(connection, "finish_embedding_run", left_to_others=left, vanished=unseen, **key)
        done.vanished += unseen
        return left


class _Sink:
    """Hands finished batches of a run to its table, and tells how far it is."""

    def __init__(self, run: _Run, plan: Plan) -> None:
        self._run, self._plan = run, plan

    async def deliver(
        self, units: Sequence[Unit], vectors: NDArray[np.float32], rejections: Mapping[bytes, UnitRejected]
    ) -> None:
        await asyncio.to_thread(self._run.writer.write, units, vectors, rejections)
        ledger = self._run.ledger
        counts, total = ledger.counts, self._plan.units
        done = counts.embedded + counts.dead_lettered + counts.vanished
        report(Progress("embed", min(done, total), total, failed=counts.dead_lettered, detail=ledger.troubles()))


def count_foreign_claims(database: Database, model: ModelVersion, run_id: str) -> int:
    """Return how many texts of the whole queue other living runs are paying for at a version."""
    with database.connection() as connection:
        watermark = one(connection, "current_watermark")
        found = one(
            connection, "count_foreign_claims", version=model.version, document_ids=None, run_id=run_id, **watermark
        )
    return int(found["claims"])


def uncovered_documents(database: Database, version: str) -> list[str]:
    """Return partition keys of documents whose current generation is not covered at a version, oldest first."""
    with database.connection() as connection:
        return [item["partition_key"] for item in rows(connection, "uncovered_documents", version=version)]
