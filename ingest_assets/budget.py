"""The rate budget of a provider account, shared by every process on every host through one row in Postgres.

What does not belong here: sending (`embed/`), and which texts are sent. The algorithm is `ingest.reserve_budget` in
`sql/migrations/`: the generic cell rate algorithm (ITU-T I.371, annex A) over requests and tokens, with a share inside
the account for backfill. A reservation commits without waiting for the disk: a crash may forget some milliseconds.
"""

import asyncio
import random

from ingest_assets.database import Connection, Database, one, run
from ingest_assets.leases import Lease
from ingest_assets.records import Lane
from ingest_assets.settings import ModelSettings

# How far ahead a lane may reserve: far enough to keep the account busy, near enough that a new document need not queue
# behind a backfill.
LONGEST_WAIT_SECONDS: dict[Lane, float] = {"incremental": 2.0, "backfill": 1.0}
BURST_SECONDS = 0.25  # unused budget that is still there a moment later: requests do not leave like clockwork
SHORTEST_BATCH_SECONDS, LONGEST_BATCH_SECONDS = 0.5, 1.0
UNLIMITED_LOOK_SECONDS = 0.25  # without rates the row only says whether the server asked for a pause
LONGEST_SLEEP_SECONDS = 5.0


def batch_tokens(settings: ModelSettings, lane: Lane) -> int | None:
    """Return the most tokens of one request: half a second of the lane's budget, a whole one where requests are few.

    Servers often refill by the second, so a larger request finds no room even where the minute has some. None where
    tokens are not limited.
    """
    if settings.tokens_per_minute is None:
        return None
    share = settings.backfill_share if lane == "backfill" else 1.0
    seconds = SHORTEST_BATCH_SECONDS
    if settings.requests_per_minute is not None:
        between_requests = 60 / (settings.requests_per_minute * share)
        seconds = min(LONGEST_BATCH_SECONDS, max(SHORTEST_BATCH_SECONDS, between_requests))
    return max(1, int(settings.tokens_per_minute / 60 * share * seconds))


class Budget:
    """The gate of one run in front of its account. Belongs to one event loop; an `Admission` of the engine.

    `account` None is a model that nobody limits.
    """

    def __init__(
        self, database: Database, settings: ModelSettings, account: str | None, lane: Lane, lease: Lease
    ) -> None:
        self._database, self._account, self._lane, self._lease = database, account, lane, lease
        self._is_limited = bool(settings.requests_per_minute or settings.tokens_per_minute)
        self._parameters = {
            "account": account,
            "is_backfill": lane == "backfill",
            "requests_per_second": _per_second(settings.requests_per_minute),
            "tokens_per_second": _per_second(settings.tokens_per_minute),
            "backfill_share": settings.backfill_share,
            "longest_wait": LONGEST_WAIT_SECONDS[lane],
            "burst": BURST_SECONDS,
        }
        self._turn = asyncio.Lock()  # one request at a time asks, in the order they came
        self._owed_tokens = 0  # billed beyond what was reserved; negative where less was
        self._open_at = 0.0  # by the loop's clock: nothing is sent before
        self._looked_at = float("-inf")

    async def admit(self, tokens: int) -> None:
        """Return when one request of so many tokens may be sent.

        Raises:
            EmbeddingTransient: the run's lease lapsed, so others may be paying for its texts.
        """
        self._lease.require()
        if self._account is None:
            return
        async with self._turn:
            wait = await self._reserve(tokens)
        loop = asyncio.get_running_loop()
        await asyncio.sleep(wait)
        # Whoever was refused meanwhile speaks for those that had their reservation already.
        await asyncio.sleep(max(0.0, self._open_at - loop.time()))
        self._lease.require()

    async def hold_back(self, seconds: float) -> None:
        """Keep every process from sending on this account for so long."""
        self._open_at = max(self._open_at, asyncio.get_running_loop().time() + seconds)
        if self._account is not None:
            await asyncio.to_thread(self._block, seconds)

    def settle(self, reserved: int, billed: int) -> None:
        """Charge the next reservation with what this one was wrong by."""
        self._owed_tokens += billed - reserved

    async def _reserve(self, tokens: int) -> float:
        """Return the seconds to wait for a reservation that was granted."""
        loop = asyncio.get_running_loop()
        if not self._is_limited:
            if loop.time() < self._looked_at + UNLIMITED_LOOK_SECONDS:
                return 0.0
            self._looked_at = loop.time()
        charged = max(0, tokens + self._owed_tokens)
        longest_wait = LONGEST_WAIT_SECONDS[self._lane]
        while (wait := await asyncio.to_thread(self._ask, charged)) > longest_wait:
            self._lease.require()
            beyond = wait - longest_wait
            apart = random.uniform(0, 0.1)  # noqa: S311  # keeps processes from asking in step
            await asyncio.sleep(min(LONGEST_SLEEP_SECONDS, beyond + apart))
        self._owed_tokens -= charged - tokens
        if not self._is_limited:
            self._open_at = max(self._open_at, loop.time() + wait)  # also for those who do not look
        return wait

    def _ask(self, tokens: int) -> float:
        def work(connection: Connection) -> float:
            return float(one(connection, "reserve_budget", tokens=float(tokens), **self._parameters)["wait"])

        return self._database.transact(work, is_derived=True)

    def _block(self, seconds: float) -> None:
        def work(connection: Connection) -> None:
            run(connection, "block_account", account=self._account, seconds=seconds)

        self._database.transact(work, is_derived=True)


def _per_second(per_minute: float | None) -> float | None:
    return None if per_minute is None else per_minute / 60
