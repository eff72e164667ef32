"""One account, many processes: what they send together fits the limits, and nobody waits longer than it must.

The algorithm is driven through hours of simulated time against a server's buckets; the gate through the real clock.
"""

import asyncio
import heapq
import random
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest_assets.budget import BURST_SECONDS, LONGEST_WAIT_SECONDS, Budget, batch_tokens
from ingest_assets.database import Database
from ingest_assets.errors import EmbeddingTransient
from ingest_assets.leases import Lease
from ingest_assets.records import Lane
from ingest_assets.settings import ModelSettings
from ingest_assets_tests.rate_limits import RateLimits

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def model(**changes: object) -> ModelSettings:
    """Return a version's settings."""
    given = {"version": "v1", "provider": "openai", "model": "m", "dimensions": 8}
    return ModelSettings.model_validate({**given, **changes})


@dataclass
class Account:
    """Workers on one account through simulated time, and the provider's server in front of them."""

    connection: psycopg.Connection[tuple[float]]
    settings: ModelSettings
    chance: random.Random
    name: str = field(default_factory=lambda: uuid.uuid4().hex)
    now: float = 0.0
    refused: int = 0
    sent: dict[Lane, list[tuple[float, float]]] = field(default_factory=lambda: {"incremental": [], "backfill": []})
    waited: dict[Lane, list[float]] = field(default_factory=lambda: {"incremental": [], "backfill": []})

    def reserve(self, lane: Lane, tokens: float) -> float:
        """Ask for a reservation now; returns the wait, which may be too long to have been granted."""
        requests, per_minute = self.settings.requests_per_minute, self.settings.tokens_per_minute
        row = self.connection.execute(
            b"SELECT ingest.reserve_budget(%s, %s, %s, %s, %s, %s, %s, %s, %s)",
            [
                self.name,
                lane == "backfill",
                tokens,
                requests and requests / 60,
                per_minute and per_minute / 60,
                self.settings.backfill_share,
                LONGEST_WAIT_SECONDS[lane],
                BURST_SECONDS,
                EPOCH + timedelta(seconds=self.now),
            ],
        ).fetchone()
        assert row is not None
        return row[0]

    def run(self, workers: list[Lane], seconds: float, arrivals: list[float] = ()) -> None:  # type: ignore[assignment]
        """Let saturating workers of these lanes send until `seconds`, and incremental batches arrive at some times."""
        server = RateLimits(clock=lambda: self.now)
        rates = {"requests": self.settings.requests_per_minute, "tokens": self.settings.tokens_per_minute}
        # It lets in at once what it refills in a second, and a few requests at least.
        burst_seconds = max(1.0, 3 * 60 / (self.settings.requests_per_minute or 1000))
        events: list[tuple[float, int, str, Lane, float, float]] = []
        count = 0

        def push(at: float, kind: str, lane: Lane, tokens: float, asked_at: float) -> None:
            nonlocal count
            count += 1
            heapq.heappush(events, (at, count, kind, lane, tokens, asked_at))

        for lane in workers:
            at = self.chance.random()
            push(at, "ask", lane, self._tokens(lane), at)
        for at in arrivals:
            push(at, "arrive", "incremental", self._tokens("incremental"), at)
        while events and events[0][0] < seconds:
            self.now, _, kind, lane, tokens, asked_at = heapq.heappop(events)
            if kind == "send":
                if server.admit(rates, {"requests": 1, "tokens": tokens}, burst_seconds=burst_seconds):
                    self.refused += 1
                self.sent[lane].append((self.now, tokens))
                continue
            wait = self.reserve(lane, tokens)
            if wait > LONGEST_WAIT_SECONDS[lane]:
                again = self.now + wait - LONGEST_WAIT_SECONDS[lane] + self.chance.uniform(0, 0.1)
                push(again, kind, lane, tokens, asked_at)
                continue
            late = self.chance.uniform(0, 0.1)  # a busy machine wakes up late
            push(self.now + wait + late, "send", lane, tokens, asked_at)
            self.waited[lane].append(self.now + wait - asked_at)
            if kind == "ask":
                latency = self.chance.uniform(0.05, 0.4)
                at = self.now + wait + late + latency
                push(at, "ask", lane, self._tokens(lane), at)

    def share(self, lane: Lane, seconds: float) -> float:
        """Return what a lane sent, over what the account allows, of the scarcer of tokens and requests."""
        shares = []
        if self.settings.tokens_per_minute:
            tokens = sum(tokens for at, tokens in self.sent[lane] if at < seconds)
            shares.append(tokens / (self.settings.tokens_per_minute / 60 * seconds))
        if self.settings.requests_per_minute:
            shares.append(len(self.sent[lane]) / (self.settings.requests_per_minute / 60 * seconds))
        return max(shares)

    def _tokens(self, lane: Lane) -> float:
        most = batch_tokens(self.settings, lane) or 1000
        return most * self.chance.uniform(0.6, 1.0)


@pytest.fixture(scope="module")
def connection(postgres: object, template: str) -> Iterator[psycopg.Connection[tuple[float]]]:
    """A connection to a migrated database, shared by the simulations of this module."""
    url = postgres("postgres")  # type: ignore[operator]
    name = "budget_simulation"
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
        with psycopg.connect(postgres(name), autocommit=True) as opened:  # type: ignore[operator]
            opened.execute(b"SET synchronous_commit = off")
            yield opened
        server.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


RATES = st.one_of(
    st.builds(lambda tokens: {"tokens_per_minute": tokens}, st.sampled_from([6_000, 100_000, 1_000_000])),
    st.builds(lambda requests: {"requests_per_minute": requests}, st.sampled_from([60, 300, 1200])),
    st.builds(
        lambda tokens, requests: {"tokens_per_minute": tokens, "requests_per_minute": requests},
        st.sampled_from([100_000, 1_000_000]),
        st.sampled_from([60, 100, 1200]),
    ),
)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rates=RATES, workers=st.integers(6, 20), backfill_workers=st.integers(0, 12), seed=st.integers(0, 2**32))
def test_all_processes_together_use_the_whole_budget_and_are_never_refused(
    connection: psycopg.Connection[tuple[float]],
    rates: dict[str, float],
    workers: int,
    backfill_workers: int,
    seed: int,
) -> None:
    """At least 97 % of what the account allows is sent, and a server that refills by the second refuses nothing."""
    account = Account(connection, model(**rates), random.Random(seed))
    account.run(["incremental"] * workers + ["backfill"] * backfill_workers, seconds=60)
    assert account.refused == 0
    total = account.share("incremental", 60) + account.share("backfill", 60)
    assert 0.97 <= total <= 1 + (1 + LONGEST_WAIT_SECONDS["incremental"]) / 60


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rates=RATES, share=st.sampled_from([0.3, 0.5, 0.7, 0.9]), seed=st.integers(0, 2**32))
def test_a_backfill_keeps_to_its_share_and_a_new_document_hardly_waits(
    connection: psycopg.Connection[tuple[float]], rates: dict[str, float], share: float, seed: int
) -> None:
    """A single batch that arrives while a backfill runs at its share waits less than two seconds."""
    chance = random.Random(seed)
    account = Account(connection, model(**rates, backfill_share=share), chance)
    arrivals = [at + chance.random() for at in range(10, 60, 10)]
    account.run(["backfill"] * 12, seconds=60, arrivals=arrivals)
    assert account.refused == 0
    assert account.share("backfill", 60) <= share * (1 + 3 / 60) + 1 / 60  # the first request is for nothing
    assert account.share("backfill", 60) >= 0.9 * share
    assert len(account.waited["incremental"]) == len(arrivals)
    assert max(account.waited["incremental"]) < 2.0


def test_unused_budget_does_not_pile_up(connection: psycopg.Connection[tuple[float]]) -> None:
    """After an hour of silence no more goes out at once than after a second."""
    account = Account(connection, model(requests_per_minute=60), random.Random(1))
    account.reserve("incremental", 1)
    account.now = 3600
    waits = [account.reserve("incremental", 1) for _ in range(3)]
    assert waits == pytest.approx([0, 1 - BURST_SECONDS, 2 - BURST_SECONDS], abs=1e-3)


def test_a_reservation_that_waits_too_long_takes_nothing(connection: psycopg.Connection[tuple[float]]) -> None:
    """Who asks often does not push the others back."""
    account = Account(connection, model(requests_per_minute=6), random.Random(1))
    waits = [account.reserve("incremental", 1) for _ in range(50)]
    assert waits[0] == 0
    assert waits[1:] == pytest.approx([10 - BURST_SECONDS] * 49, abs=1e-3)


@pytest.mark.parametrize(
    ("lane", "rates", "tokens"),
    [
        ("incremental", {}, None),
        ("incremental", {"requests_per_minute": 60}, None),
        ("incremental", {"tokens_per_minute": 600_000}, 5_000),
        ("backfill", {"tokens_per_minute": 600_000, "backfill_share": 0.5}, 2_500),
        ("incremental", {"tokens_per_minute": 600_000, "requests_per_minute": 80}, 7_500),
        ("incremental", {"tokens_per_minute": 600_000, "requests_per_minute": 6}, 10_000),
        ("incremental", {"tokens_per_minute": 20}, 1),
    ],
)
def test_a_batch_is_a_small_part_of_the_lanes_budget(lane: Lane, rates: dict[str, float], tokens: int | None) -> None:
    """Half a second of it, up to a whole one where requests are scarcer than tokens."""
    assert batch_tokens(model(**rates), lane) == tokens


def budget(database: Database, account: str | None = "a", **changes: object) -> Budget:
    """Return the gate of another run on the account."""
    return Budget(database, model(**changes), account, "incremental", Lease("run"))


def test_a_refusal_holds_every_process_back(database: Database) -> None:
    """One run is told to wait; another on the same account waits too, a third on another account does not."""

    async def work() -> list[str]:
        order: list[str] = []
        refused, other, elsewhere = budget(database), budget(database), budget(database, "b")
        await refused.hold_back(1.5)

        async def send(gate: Budget, name: str) -> None:
            await gate.admit(1)
            order.append(name)

        async def pass_by() -> None:
            await asyncio.sleep(0.5)
            order.append("half a second")

        await asyncio.gather(send(refused, "held"), send(other, "held"), send(elsewhere, "free"), pass_by())
        return order

    assert asyncio.run(work()) == ["free", "half a second", "held", "held"]


def test_without_rates_a_block_by_another_process_holds_all_requests(database: Database) -> None:
    """The row is looked at a few times a second only; what it says then holds for everybody in the process."""

    async def work() -> list[str]:
        order: list[str] = []
        await budget(database).hold_back(1.0)
        gate = budget(database)

        async def send() -> None:
            await gate.admit(1)
            order.append("sent")

        async def pass_by() -> None:
            await asyncio.sleep(0.5)
            order.append("half a second")

        await asyncio.gather(*(send() for _ in range(5)), pass_by())
        return order

    assert asyncio.run(work()) == ["half a second", *["sent"] * 5]


def test_what_the_provider_counted_is_made_up_for(database: Database, database_url: str) -> None:
    """A tokenizer that counts twice as much slows the next request down by the difference."""

    async def work() -> None:
        gate = budget(database, tokens_per_minute=60_000)
        await gate.admit(100)
        gate.settle(100, 300)
        await gate.admit(100)

    asyncio.run(work())
    query = b"SELECT extract(epoch FROM tokens_at - clock_timestamp())::float FROM ingest.rate_budgets"
    with psycopg.connect(database_url) as opened:
        row = opened.execute(query).fetchone()
    # 100 and then 300 tokens at 1,000 a second, less what may lie unused.
    assert row is not None and row[0] <= 0.4 - BURST_SECONDS + 1e-3
    with psycopg.connect(database_url) as opened:
        row = opened.execute(
            b"SELECT extract(epoch FROM tokens_at - requests_at)::float FROM ingest.rate_budgets"
        ).fetchone()
    assert row == (pytest.approx(0.4, abs=0.05),)


def test_a_model_that_nobody_limits_has_no_row(database: Database, database_url: str) -> None:
    """The local model never asks."""
    asyncio.run(budget(database, None).admit(10**9))
    with psycopg.connect(database_url) as opened:
        assert opened.execute(b"SELECT 1 FROM ingest.rate_budgets").fetchall() == []


def test_a_run_whose_lease_lapsed_sends_nothing(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was stopped for a minute and more cannot know who pays for its texts now."""
    held = Lease("run")
    gate = Budget(database, model(), None, "incremental", held)
    later = time.monotonic() + 61
    monkeypatch.setattr("time.monotonic", lambda: later)
    held.renewed(later)  # the keeper woke up first
    with pytest.raises(EmbeddingTransient, match="stopped for more than 60 seconds"):
        asyncio.run(gate.admit(1))
