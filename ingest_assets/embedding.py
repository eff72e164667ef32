"""The second body: plan, reuse, embed and publish some documents at one version.

What does not belong here: Dagster, talking to a model (`embed/`), and publication itself (`publish.py`).
The queue is a difference, never a cursor: current chunks in the watermark, minus vectors, minus standing dead
letters. So a crash, a re-run and two runs at once are all ordinary runs.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from psycopg.types.json import Jsonb

from ingest_assets.database import Connection, Database, copy, ids, one, rows, run
from ingest_assets.embed import Provider, open_provider
from ingest_assets.embed.engine import Sink, embed_units
from ingest_assets.embed.retrying import Counters
from ingest_assets.errors import EmbeddingFatal, EmbeddingTransient, Reason, Refused, UnitRejected
from ingest_assets.leases import LEASE_SECONDS
from ingest_assets.models import ModelVersion
from ingest_assets.progress import Progress, report
from ingest_assets.publish import Publication, publish_documents
from ingest_assets.records import Unit
from ingest_assets.settings import LimitSettings, ModelSettings
from ingest_assets.status import Plan, estimate

Lane = Literal["incremental", "backfill"]
PAGE_UNITS = 2048  # distinct texts that are claimed and held in memory at once
SAMPLE_SIZE = 16
SAMPLE_TOLERANCE = 1e-3  # cosine distance; far above float noise between releases, far below another model


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
    publications: tuple[Publication, ...]
    dead_lettered_documents: frozenset[UUID]  # with letters that this run wrote
    failure: EmbeddingTransient | EmbeddingFatal | None  # why the run stopped before its end; what was done is kept


@dataclass(slots=True)
class _Counts:
    reused: int = 0
    embedded: int = 0
    dead_lettered: int = 0
    vanished: int = 0
    sent_tokens: int = 0


def embed_documents(
    database: Database,
    model: ModelVersion,
    settings: ModelSettings,
    limits: LimitSettings,
    document_ids: Sequence[UUID],
    *,
    run_id: str,
    lane: Lane = "incremental",
    approved_units: int | None = None,
    is_first_declared: bool = True,
) -> EmbeddingOutcome:
    """Embed what some documents lack at a version, then publish those that are complete.

    Texts that have a vector at this version are copied; each other distinct text is sent once, and each finished
    batch is committed at once. The caller holds the run's lease. Running twice is safe.

    Raises:
        Refused: the plan exceeds the run's limits; nothing was spent. The message names the way to approve it.
        ModelUnavailable: the model cannot be loaded; nothing was spent.
    """
    return _Run(database, model, settings, limits, ids(document_ids), run_id, lane).execute(
        approved_units, is_first_declared=is_first_declared
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
        run_id: str,
        lane: Lane,
    ) -> None:
        self.database, self.model, self.settings, self.limits = database, model, settings, limits
        self.run_id, self.lane = run_id, lane
        with database.connection() as connection:
            self.watermark: str = one(connection, "current_watermark")["watermark"]
        self.queue: dict[str, Any] = {
            "version": model.version,
            "watermark": self.watermark,
            "document_ids": document_ids,
        }
        self.counts = _Counts()
        self.sent = Counters()
        self.rejected_documents: set[UUID] = set()

    def execute(self, approved_units: int | None, *, is_first_declared: bool) -> EmbeddingOutcome:
        plan = self._plan()
        self._refuse_over_limits(plan, approved_units)
        provider = open_provider(self.settings) if plan.units else None
        self._record_plan(plan)
        self._reuse(None)
        failure = self._send(provider, plan) if provider is not None else None
        left = self._settle(plan)
        publications = publish_documents(
            self.database,
            self.model,
            self.queue["document_ids"],
            tolerance=self.limits.dead_letter_tolerance,
            run_id=self.run_id,
            is_first_declared=is_first_declared,
        )
        counts = self.counts
        return EmbeddingOutcome(
            plan=plan,
            watermark=self.watermark,
            reused=counts.reused,
            embedded=counts.embedded,
            dead_lettered=counts.dead_lettered,
            left_to_others=left,
            vanished=counts.vanished,
            sent_tokens=counts.sent_tokens,
            publications=tuple(publications),
            dead_lettered_documents=frozenset(self.rejected_documents),
            failure=failure,
        )

    def _plan(self) -> Plan:
        with self.database.connection() as connection:
            found = one(connection, "plan_queue", **self.queue)
        return estimate(
            self.settings,
            units=found["units"] - found["known_units"],
            reused=found["known_units"],
            tokens=found["tokens"] - found["known_tokens"],
        )

    def _refuse_over_limits(self, plan: Plan, approved_units: int | None) -> None:
        if approved_units is not None and plan.units <= approved_units:
            return
        if plan.units > self.limits.max_units_per_run:
            raise Refused(
                f"{Reason.OVER_BUDGET}: this run would send {plan.units} texts, limits.max_units_per_run is "
                f"{self.limits.max_units_per_run}; approve it with `ingest-assets run --approve-units {plan.units}`."
            )
        if (
            plan.cost is not None
            and self.limits.max_cost_per_run is not None
            and plan.cost > self.limits.max_cost_per_run
        ):
            raise Refused(
                f"{Reason.OVER_BUDGET}: this run would cost {plan.cost:.2f}, limits.max_cost_per_run is "
                f"{self.limits.max_cost_per_run:.2f}; approve it with `ingest-assets run --approve-units {plan.units}`."
            )

    def _record_plan(self, plan: Plan) -> None:
        with self.database.connection() as connection:
            run(
                connection,
                "insert_embedding_run",
                run_id=self.run_id,
                version=self.model.version,
                lane=self.lane,
                watermark=self.watermark,
                planned_units=plan.units + plan.reused,
                planned_tokens=plan.tokens,
                estimated_cost=plan.cost,
            )

    def _reuse(self, texts: Sequence[bytes] | None) -> set[bytes]:
        """Copy vectors that these texts have at this version (None: all texts of the queue); returns the texts."""

        def work(connection: Connection) -> set[bytes]:
            found = rows(connection, "copy_vectors", texts=texts, run_id=self.run_id, **self.queue)
            copied = {bytes(item["text_sha256"]) for item in found}
            self._release(connection, list(copied))
            self._count(connection, reused=len(copied))
            return copied

        copied = self.database.transact(work)
        self.counts.reused += len(copied)
        return copied

    def _send(self, provider: Provider, plan: Plan) -> EmbeddingTransient | EmbeddingFatal | None:
        """Send what has to be sent; a failure of the provider is returned, so that what is done gets published."""
        try:
            asyncio.run(self._embed(provider, plan))
        except (EmbeddingTransient, EmbeddingFatal) as failure:
            return failure
        return None

    async def _embed(self, provider: Provider, plan: Plan) -> None:
        try:
            await self._recognise(provider)
            async with aclosing(self._claimed_units()) as units:
                await embed_units(units, provider, self.settings, self._sink(plan), counters=self.sent)
        finally:
            await provider.close()

    async def _recognise(self, provider: Provider) -> None:
        """Refuse to write under a label whose client changed, unless stored texts give the same vectors again."""
        fingerprint = provider.fingerprint()
        if self.model.fingerprint and dict(self.model.fingerprint) != fingerprint:
            with self.database.connection() as connection:
                sample = rows(connection, "sample_vectors", version=self.model.version, sample_size=SAMPLE_SIZE)
            if sample:
                again = await provider.embed([item["text"] for item in sample])
                _refuse_different(self.model, sample, again)
        if dict(self.model.fingerprint) != fingerprint:
            with self.database.connection() as connection:
                run(connection, "record_fingerprint", version=self.model.version, fingerprint=Jsonb(fingerprint))

    async def _claimed_units(self) -> AsyncGenerator[Unit]:
        """Claim the queue page by page, in hash order; texts that another run pays for are left to it."""
        after = b""
        while True:
            page = await asyncio.to_thread(self._claim, after)
            if not page:
                return
            after = bytes(page[-1]["text_sha256"])
            ours = [bytes(item["text_sha256"]) for item in page if item["is_ours"]]
            # Whoever held a claim before may have written the vector between our look at the queue and our claim.
            arrived = await asyncio.to_thread(self._reuse, ours) if ours else set()
            for item in page:
                digest = bytes(item["text_sha256"])
                if item["is_ours"] and digest not in arrived:
                    yield Unit(digest, item["text"], item["token_count"])

    def _claim(self, after: bytes) -> list[dict[str, Any]]:
        def work(connection: Connection) -> list[dict[str, Any]]:
            parameters: dict[str, Any] = {
                "run_id": self.run_id,
                "lease_seconds": LEASE_SECONDS,
                "page_size": PAGE_UNITS,
            }
            return rows(connection, "claim_units", after=after, **parameters, **self.queue)

        return self.database.transact(work)

    def _sink(self, plan: Plan) -> Sink:
        async def deliver(
            units: Sequence[Unit], vectors: NDArray[np.float32], rejections: Mapping[bytes, UnitRejected]
        ) -> None:
            await asyncio.to_thread(self._write, units, vectors, rejections)
            done = self.counts.embedded + self.counts.dead_lettered + self.counts.vanished
            report(Progress("embed", min(done, plan.units), plan.units, failed=self.counts.dead_lettered))

        return deliver

    def _write(
        self, units: Sequence[Unit], vectors: NDArray[np.float32], rejections: Mapping[bytes, UnitRejected]
    ) -> None:
        """Commit one finished batch: vectors, dead letters, counters and the release of its claims together."""
        tokens = sum(unit.token_count for unit in units)

        def work(connection: Connection) -> tuple[int, set[UUID]]:
            embedded = self._write_vectors(connection, units, vectors) if units else 0
            documents = self._write_letters(connection, rejections)
            self._release(connection, [*(unit.text_sha256 for unit in units), *rejections])
            self._count(
                connection,
                embedded=embedded,
                vanished=len(units) - embedded,
                dead_lettered=len(rejections),
                sent_tokens=tokens,
            )
            return embedded, documents

        embedded, documents = self.database.transact(work)
        self.counts.embedded += embedded
        self.counts.vanished += len(units) - embedded
        self.counts.dead_lettered += len(rejections)
        self.counts.sent_tokens += tokens
        self.rejected_documents |= documents

    def _write_vectors(self, connection: Connection, units: Sequence[Unit], vectors: NDArray[np.float32]) -> int:
        run(connection, "create_vector_staging")
        records = ((unit.text_sha256, vector) for unit, vector in zip(units, vectors, strict=True))
        copy(connection, "copy_vector_staging", ("bytea", "vector"), records)
        return len(
            {
                bytes(item["text_sha256"])
                for item in rows(connection, "insert_vectors", run_id=self.run_id, **self.queue)
            }
        )

    def _write_letters(self, connection: Connection, rejections: Mapping[bytes, UnitRejected]) -> set[UUID]:
        documents: set[UUID] = set()
        for digest, error in rejections.items():
            written = rows(
                connection,
                "insert_unit_letters",
                text_sha256=digest,
                reason=error.reason,
                detail=error.detail,
                run_id=self.run_id,
                **self.queue,
            )
            documents |= {item["document_id"] for item in written}
        return documents

    def _release(self, connection: Connection, texts: list[bytes]) -> None:
        run(connection, "release_claims", version=self.model.version, run_id=self.run_id, texts=texts)

    def _count(self, connection: Connection, **added: int) -> None:
        names = ("reused", "embedded", "dead_lettered", "vanished", "sent_tokens")
        counts: dict[str, Any] = {name: added.get(name, 0) for name in names}
        run(connection, "count_units", run_id=self.run_id, version=self.model.version, **counts)

    def _settle(self, plan: Plan) -> int:
        """Copy what others paid for meanwhile, and account for the rest; returns the texts left to others."""
        self._reuse(None)
        with self.database.connection() as connection:
            found = one(connection, "plan_queue", **self.queue)
            left = int(found["units"])
            done = self.counts
            accounted = done.reused + done.embedded + done.dead_lettered + done.vanished + left
            # Texts of the plan that no current chunk holds any more were neither sent nor left. Where nobody touched
            # the documents meanwhile there are none, and a shortfall is one that the check must see.
            disturbed = one(connection, "count_disturbed", run_id=self.run_id, **self.queue)["documents"]
            unseen = max(0, plan.units + plan.reused - accounted) if disturbed else 0
            run(
                connection,
                "finish_embedding_run",
                run_id=self.run_id,
                version=self.model.version,
                left_to_others=left,
                vanished=unseen,
                rate_limited_responses=self.sent.rate_limited_responses,
            )
        self.counts.vanished += unseen
        return left


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


def _refuse_different(model: ModelVersion, sample: Sequence[Mapping[str, Any]], again: NDArray[np.float32]) -> None:
    stored = np.stack([item["embedding"].to_numpy() for item in sample])
    scale = np.linalg.norm(stored, axis=1) * np.linalg.norm(again, axis=1)
    distance = float(np.max(1 - np.sum(stored * again, axis=1) / scale))
    if not distance <= SAMPLE_TOLERANCE:
        raise EmbeddingFatal(
            Reason.FINGERPRINT_CHANGED,
            f"{model.version} gives other vectors than it did (cosine distance {distance:.4f} on stored texts); "
            "bring the old client back, or declare the new one under a new version.",
        )
