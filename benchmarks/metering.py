"""What a metered embedding server lets in, what it bills, and what it answers; see `metered_server.py`.

Here: token buckets, counters, faults and bodies. Not here: HTTP, and the command line.
"""

import base64
import json
import random
import time
from dataclasses import dataclass, field
from hashlib import blake2b
from http import HTTPStatus
from typing import Any

import jiter
import numpy as np

READY_VECTORS = 512
Reply = tuple[int, bytes, str]  # status, body, further header lines


@dataclass(frozen=True, slots=True)
class Rules:
    """How a server behaves; rates are per minute, and None is no limit."""

    dimensions: int = 384
    seconds: float = 0.05  # latency of a request
    seconds_per_item: float = 0.001  # and of each text in it
    requests_per_minute: float | None = None
    items_per_minute: float | None = None
    tokens_per_minute: float | None = None
    burst_seconds: float = 1.0  # capacity of the limits' buckets, in seconds of their rate
    retry_after: bool = True  # whether a 429 says when
    error_share: float = 0.0  # of requests answered 500
    reset_share: float = 0.0  # of requests whose work is done and whose answer is lost
    slow_share: float = 0.0  # of answers that take slow_seconds more
    slow_seconds: float = 2.0
    seed: int = 0  # of vectors and faults


@dataclass(slots=True)
class Bucket:
    """A token bucket that begins full; a rate of None lets everything in."""

    per_minute: float | None
    burst_seconds: float
    level: float = 0.0
    at: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.level = self.capacity

    @property
    def rate(self) -> float:
        """What comes in again each second."""
        return (self.per_minute or 0.0) / 60

    @property
    def capacity(self) -> float:
        """The most that is let in at once; a request that needs more is never let in."""
        return self.rate * self.burst_seconds

    def missing(self, need: float, now: float) -> float:
        """Return the seconds until this much could be let in, 0 for now; takes nothing."""
        if self.per_minute is None:
            return 0.0
        self.level = min(self.capacity, self.level + (now - self.at) * self.rate)
        self.at = now
        return max(0.0, (need - self.level) / self.rate)


@dataclass(slots=True)
class Counters:
    """What happened since the start or the last reset; times are seconds of the machine's clock."""

    requests: int = 0
    items: int = 0
    tokens: int = 0
    billed_items: int = 0
    billed_tokens: int = 0
    answered_429: int = 0
    faults: int = 0
    in_flight: int = 0
    in_flight_maximum: int = 0
    first_request_at: float | None = None
    last_answer_at: float | None = None
    times_billed: dict[bytes, int] = field(default_factory=dict)
    log: list[tuple[float, int, int, bool]] = field(default_factory=list)  # time, items, tokens, was it let in

    def stats(self) -> dict[str, Any]:
        """Return the counters as `GET /stats` shows them."""
        twice = [times for times in self.times_billed.values() if times > 1]
        numbers = {name: getattr(self, name) for name in self.__slots__ if name not in ("times_billed", "log")}
        return {
            **numbers,
            "distinct_texts": len(self.times_billed),
            "texts_billed_again": len(twice),
            "billed_again": sum(twice) - len(twice),
        }


class Meter:
    """Rules and counters; the connections ask it what to answer and when."""

    def __init__(self, options: Rules) -> None:
        self.options = options
        numbers = np.random.default_rng(options.seed).standard_normal((READY_VECTORS, options.dimensions))
        vectors = (numbers / np.linalg.norm(numbers, axis=1, keepdims=True)).astype("<f4")
        self.as_floats = [f"[{','.join(str(number) for number in vector)}]".encode() for vector in vectors]
        self.as_base64 = [b'"' + base64.b64encode(vector.tobytes()) + b'"' for vector in vectors]
        self.reset()

    def reset(self) -> None:
        """Forget all counts, fill the buckets and draw faults anew."""
        options = self.options
        self.counters = Counters()
        self.chance = random.Random(options.seed)
        rates = (options.requests_per_minute, options.items_per_minute, options.tokens_per_minute)
        self.buckets = [Bucket(rate, options.burst_seconds) for rate in rates]

    def embeddings(self, body: bytes) -> tuple[float, Reply | None]:
        """Return after how many seconds to answer what; None resets the connection instead, the work being billed."""
        try:
            request = jiter.from_json(body)
            given = request["input"]
        except (ValueError, KeyError, TypeError):
            return 0.0, error_reply(HTTPStatus.BAD_REQUEST, "no JSON with an input")
        texts = [given] if isinstance(given, str) else given
        counters, now = self.counters, time.monotonic()
        tokens = sum(text.count(" ") + 1 for text in texts)
        counters.requests += 1
        counters.items += len(texts)
        counters.tokens += tokens
        counters.first_request_at = counters.first_request_at or now
        missing = self._admit(len(texts), tokens, now)
        if missing > 0:
            counters.answered_429 += 1
            return 0.0, self._limited(missing)
        return self._admitted(texts, tokens, is_base64=request.get("encoding_format") == "base64")

    def _admit(self, items: int, tokens: int, now: float) -> float:
        needs = (1, items, tokens)
        missing = max(bucket.missing(need, now) for bucket, need in zip(self.buckets, needs, strict=True))
        self.counters.log.append((now, items, tokens, missing == 0))
        if missing > 0:
            return missing
        for bucket, need in zip(self.buckets, needs, strict=True):
            bucket.level -= need
        return 0.0

    def _admitted(self, texts: list[str], tokens: int, *, is_base64: bool) -> tuple[float, Reply | None]:
        options, counters = self.options, self.counters
        seconds = options.seconds + options.seconds_per_item * len(texts)
        drawn = self.chance.random()
        if drawn < options.error_share:
            counters.faults += 1
            return seconds, error_reply(HTTPStatus.INTERNAL_SERVER_ERROR, "the server had an error")
        keys = [blake2b(text.encode(), digest_size=8).digest() for text in texts]
        counters.billed_items += len(texts)
        counters.billed_tokens += tokens
        for key in keys:
            counters.times_billed[key] = counters.times_billed.get(key, 0) + 1
        if drawn < options.error_share + options.reset_share:
            counters.faults += 1
            return seconds, None
        if drawn < options.error_share + options.reset_share + options.slow_share:
            counters.faults += 1
            seconds += options.slow_seconds
        ready = self.as_base64 if is_base64 else self.as_floats
        return seconds, (200, _answer(keys, ready, tokens), "")

    def _limited(self, missing: float) -> Reply:
        status, body, _ = error_reply(HTTPStatus.TOO_MANY_REQUESTS, "Rate limit reached", "rate_limit_exceeded")
        # The header holds whole seconds.
        header = f"retry-after: {int(missing) + 1}\r\n" if self.options.retry_after else ""
        return status, body, header


def _answer(keys: list[bytes], ready: list[bytes], tokens: int) -> bytes:
    items = (
        b'{"object":"embedding","index":%d,"embedding":%b}' % (index, ready[int.from_bytes(key) % READY_VECTORS])
        for index, key in enumerate(keys)
    )
    usage = b'],"model":"metered","usage":{"prompt_tokens":%d,"total_tokens":%d}}' % (tokens, tokens)
    return b'{"object":"list","data":[' + b",".join(items) + usage


def error_reply(status: int, message: str, code: str | None = None) -> Reply:
    """Return an error in OpenAI's shape."""
    return (
        status,
        json.dumps({"error": {"message": message, "type": "metered", "code": code, "param": None}}).encode(),
        "",
    )
