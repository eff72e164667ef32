"""How long to wait before asking again, and when to stop asking.

Here: the policies by kind of failure, and reading `Retry-After`. Not here: the loop that waits (`engine.py`) and the
account's budget. Clock, sleep and chance come in from outside, so that tests never wait.
"""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from ingest_assets.embed.failures import RateLimited, Unanswered


@dataclass(frozen=True, slots=True)
class Policy:
    """Exponential growth from the first wait to a cap; the wait itself is drawn below that ("full jitter")."""

    attempts: int  # requests in all, the first one included
    first_seconds: float
    cap_seconds: float

    def longest_wait(self, attempt: int) -> float:
        """Return the most seconds to wait after the given attempt; 1 is the first."""
        return min(self.cap_seconds, self.first_seconds * 2.0 ** (attempt - 1))


RATE_LIMITED = Policy(attempts=6, first_seconds=4.0, cap_seconds=120.0)
UNANSWERED = Policy(attempts=4, first_seconds=2.0, cap_seconds=120.0)
ONCE = Policy(attempts=1, first_seconds=0.0, cap_seconds=0.0)


@dataclass(frozen=True, slots=True)
class Pacing:
    """When a failed request is sent again."""

    rate_limited: Policy = RATE_LIMITED
    unanswered: Policy = UNANSWERED
    longest_retry_after_seconds: float = 600.0  # a server that asks for more is left to the next run
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    chance: Callable[[], float] = random.random  # in [0, 1)

    def policy(self, failure: Unanswered) -> Policy:
        """Return the policy for this kind of failure."""
        return self.rate_limited if isinstance(failure, RateLimited) else self.unanswered

    def wait(self, failure: Unanswered, attempt: int) -> float | None:
        """Return seconds to wait after the given attempt of this kind (1 is the first), or None to give up.

        A server's own number is obeyed and never undercut; up to a second is added, so that those who were told the
        same moment do not all come at it.
        """
        policy = self.policy(failure)
        if attempt >= policy.attempts:
            return None
        if failure.retry_after is None:
            return self.chance() * policy.longest_wait(attempt)
        if failure.retry_after > self.longest_retry_after_seconds:
            return None
        return failure.retry_after + self.chance()

    def pause(self, failure: Unanswered, wait: float | None) -> float:
        """Return seconds for which nobody on the account should send after this failure.

        What the server asks for, within what a run can take; else the first step of the policy, since the request
        that was refused waits longer by itself.
        """
        if failure.retry_after is not None:
            return min(failure.retry_after, self.longest_retry_after_seconds)
        return min(self.policy(failure).first_seconds if wait is None else wait, self.policy(failure).first_seconds)


def parse_retry_after(value: str | None, now: datetime | None = None) -> float | None:
    """Return the seconds a `Retry-After` header asks for, 0 or more; None where it says nothing usable.

    Takes seconds, fractions of seconds and HTTP dates (`now` is for tests). Never raises.
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        seconds = _until(value, now or datetime.now(UTC))
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _until(date: str, now: datetime) -> float:
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, TypeError, OverflowError, IndexError):
        return math.nan
    # "-0000" says that the zone is unknown; HTTP knows only UTC.
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now.timestamp()
