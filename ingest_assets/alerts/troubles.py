"""One thing that is wrong: what, where, how many, since when, where to look and what to run next.

What does not belong here: finding troubles (`platform_troubles.py`, `defs/troubles.py`).
"""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

Severity = Literal["ERROR", "WARN"]


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that is wrong now; the same `key` at the next look is the same trouble."""

    key: str  # such as `check/hash_freshness`
    severity: Severity
    what: str  # one sentence
    where: str  # such as an asset, a sensor, a version
    count: int  # of whatever is wrong there
    since: datetime | None  # with a time zone; None is since this look
    path: str  # in the UI, from its root
    command: str  # to run next
    patience_seconds: float = 0.0  # for so long it may pass by itself, and nobody is told

    def to_json(self) -> dict[str, Any]:
        """Return the trouble as it is stored."""
        return {**asdict(self), "since": None if self.since is None else self.since.isoformat()}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "Trouble":
        """Return a stored trouble."""
        since = stored["since"]
        return cls(**{**stored, "since": None if since is None else datetime.fromisoformat(since)})
