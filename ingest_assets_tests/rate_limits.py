"""Rate limits as providers have them: buckets that refill all the time.

Here: the arithmetic of admission. Not here: servers, and anything that knows our code.
"""

import threading
import time
from collections.abc import Callable, Mapping

Clock = Callable[[], float]
_NOTHING = 1e-9


class TokenBucket:
    """One limit. What is larger than the bucket is let in when the bucket is full, and leaves it below empty."""

    def __init__(self, per_minute: float, burst_seconds: float, clock: Clock = time.monotonic) -> None:
        self.per_minute, self.burst_seconds = per_minute, burst_seconds
        self.capacity = per_minute / 60 * burst_seconds
        self._clock = clock
        self._level = self.capacity
        self._at = clock()

    def wait(self, amount: float) -> float:
        """Return the seconds until this amount is let in, 0 where it is now."""
        now = self._clock()
        self._level = min(self.capacity, self._level + (now - self._at) * self.per_minute / 60)
        self._at = now
        missing = min(amount, self.capacity) - self._level
        # Who waited as long as it was told is let in, whatever floats make of it.
        return missing / (self.per_minute / 60) if missing > _NOTHING else 0.0

    def take(self, amount: float) -> None:
        """Take what has been let in."""
        self._level -= amount


class RateLimits:
    """Several limits that a request must fit all at once."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[str, TokenBucket] = {}
        self._lock = threading.Lock()

    def admit(self, rates: Mapping[str, float | None], amounts: Mapping[str, float], burst_seconds: float) -> float:
        """Take the amounts where all of them fit and return 0; else take nothing and return the seconds to wait.

        `rates` are per minute by name, None for no limit; a limit that changes starts anew with a full bucket.
        """
        with self._lock:
            buckets = {
                name: self._bucket(name, rate, burst_seconds) for name, rate in rates.items() if rate is not None
            }
            wait = max((bucket.wait(amounts[name]) for name, bucket in buckets.items()), default=0.0)
            if wait == 0:
                for name, bucket in buckets.items():
                    bucket.take(amounts[name])
            return wait

    def _bucket(self, name: str, rate: float, burst_seconds: float) -> TokenBucket:
        bucket = self._buckets.get(name)
        if bucket is None or (bucket.per_minute, bucket.burst_seconds) != (rate, burst_seconds):
            bucket = self._buckets[name] = TokenBucket(rate, burst_seconds, self._clock)
        return bucket
