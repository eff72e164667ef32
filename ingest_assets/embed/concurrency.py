"""How many requests of one run are in flight: up by one while all goes well, halved when the server says "too much".

Here: additive increase and multiplicative decrease between 1 and `max_concurrency`, as TCP does it (RFC 5681).
Not here: rates, which `admission.py` stands for. Belongs to one event loop.
"""

import asyncio


class Concurrency:
    """Slots for batches; their number adapts."""

    def __init__(self, maximum: int) -> None:
        self.allowed = maximum
        self._maximum = maximum
        self._used = 0
        self._answered = 0  # since the number last changed
        self._cuts = 0
        self._changed = asyncio.Condition()

    @property
    def cuts(self) -> int:
        """How often the number was halved; a request remembers it, so that one storm counts once."""
        return self._cuts

    async def acquire(self) -> None:
        """Wait for a slot and take it."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._used < self.allowed)
            self._used += 1

    async def release(self) -> None:
        """Give a slot back."""
        async with self._changed:
            self._used -= 1
            self._changed.notify_all()

    async def answered(self) -> None:
        """Note a good answer; as many of them as there are slots make one more."""
        self._answered += 1
        if self._answered >= self.allowed < self._maximum:
            self._answered = 0
            async with self._changed:
                self.allowed += 1
                self._changed.notify_all()

    def rate_limited(self, cuts: int) -> None:
        """Halve the slots, unless they were halved since the refused request was sent."""
        if cuts == self._cuts:
            self._cuts += 1
            self._answered = 0
            self.allowed = max(1, self.allowed // 2)
