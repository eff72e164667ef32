"""What one run planned, did and spent at one version: the rows of `embedding_runs` and `embedding_spend`.

What does not belong here: vectors and dead letters. Every number is added in the transaction that did the thing, so a
run that was killed has told the truth up to its last commit.
"""

import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from psycopg.rows import DictRow

from ingest_assets.database import Connection, Database, one, rows, run
from ingest_assets.embed.retrying import Counters
from ingest_assets.planning import Plan
from ingest_assets.records import Lane, Origin, Unit

MINUTE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Spend:
    """What was sent for one origin."""

    origin: Origin
    units: int
    tokens: int  # in the chunker's measure
    cost: float | None  # None where no price is set


@dataclass(slots=True)
class UnitCounts:
    """What became of a run's units so far, in distinct texts."""

    reused: int = 0
    embedded: int = 0
    dead_lettered: int = 0
    vanished: int = 0
    sent_tokens: int = 0

    def add(self, added: "UnitCounts") -> None:
        """Add what one transaction did, once it is committed."""
        self.reused += added.reused
        self.embedded += added.embedded
        self.dead_lettered += added.dead_lettered
        self.vanished += added.vanished
        self.sent_tokens += added.sent_tokens


@dataclass(slots=True)
class Ledger:
    """The running account of one run at one version."""

    run_id: str
    version: str
    price_per_million_tokens: float | None
    counts: UnitCounts = field(default_factory=UnitCounts)
    requests: Counters = field(default_factory=Counters)
    _noted: Counter[str] = field(default_factory=Counter)  # of the requests, what the table holds already
    _limited: deque[tuple[float, int]] = field(default_factory=deque)  # when how many 429 had come

    @property
    def key(self) -> dict[str, Any]:
        """Parameters that name this run's row."""
        return {"run_id": self.run_id, "version": self.version}

    def open(self, connection: Connection, lane: Lane, watermark: str, plan: Plan) -> None:
        """Publish the plan before anything is spent."""
        run(
            connection,
            "insert_embedding_run",
            lane=lane,
            watermark=watermark,
            planned_units=plan.units + plan.reused,
            planned_tokens=plan.tokens,
            estimated_cost=plan.cost,
            estimated_minutes=plan.minutes,
            **self.key,
        )

    def note(self, connection: Connection, added: UnitCounts) -> None:
        """Write what this transaction adds; `counts` follow once it is committed."""
        run(
            connection,
            "count_units",
            reused=added.reused,
            embedded=added.embedded,
            dead_lettered=added.dead_lettered,
            vanished=added.vanished,
            sent_tokens=added.sent_tokens,
            **self.key,
        )

    def note_spend(self, connection: Connection, units: Iterable[Unit]) -> None:
        """Write what these units cost, by why they were sent."""
        sums: dict[Origin, list[int]] = defaultdict(lambda: [0, 0])
        for unit in units:
            sums[unit.origin][0] += 1
            sums[unit.origin][1] += unit.token_count
        if sums:
            run(
                connection,
                "count_spend",
                price=self.price_per_million_tokens,
                origins=list(sums),
                units=[units for units, _ in sums.values()],
                tokens=[tokens for _, tokens in sums.values()],
                **self.key,
            )

    def note_requests(self, connection: Connection) -> dict[str, int]:
        """Write what was asked since the last time; hand the answer to `noted` once it is committed."""
        now = {name: getattr(self.requests, name) for name in _REQUEST_COUNTS}
        run(connection, "count_requests", **{name: now[name] - self._noted[name] for name in now}, **self.key)
        return now

    def noted(self, now: dict[str, int]) -> None:
        """Remember what `note_requests` wrote."""
        self._noted.update({name: value - self._noted[name] for name, value in now.items()})

    def spend(self, connection: Connection) -> tuple[Spend, ...]:
        """Return what the run has sent, by origin."""
        found = rows(connection, "select_spend", **self.key)
        return tuple(Spend(**item) for item in found)

    def troubles(self) -> str:
        """Say how the provider answers: rate limits of the last minute, and other errors of the run."""
        now = time.monotonic()
        total = self.requests.rate_limited_responses
        self._limited.append((now, total))
        minute_ago = now - MINUTE_SECONDS
        while len(self._limited) > 1 and self._limited[1][0] <= minute_ago:
            self._limited.popleft()
        before = self._limited[0][1] if self._limited[0][0] <= minute_ago else 0
        return f"{total - before} rate-limit answers in the last minute, {self.requests.other_failures} other errors"


_REQUEST_COUNTS = ("requests", "billed_tokens", "rate_limited_responses", "other_failures")


def count_pass(database: Database, run_ids: Sequence[str]) -> dict[str, int]:
    """Return what some runs did together, ingest and deletion runs included."""
    with database.connection() as connection:
        return {name: int(value) for name, value in one(connection, "count_pass", run_ids=list(run_ids)).items()}


def pass_spend(database: Database, run_ids: Sequence[str]) -> list[DictRow]:
    """Return what some runs have sent together: model, lane, origin, units, tokens and cost (None without a price)."""
    with database.connection() as connection:
        return rows(connection, "pass_spend", run_ids=list(run_ids))
