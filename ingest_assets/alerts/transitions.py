"""What to tell: the difference between what is wrong now and what was wrong at the last look. Pure functions.

What does not belong here: how it is said (`wording.py`), and where states are kept (`outbox.py`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from ingest_assets.alerts.troubles import Trouble

Change = Literal["new", "lasting", "recovered"]


@dataclass(frozen=True, slots=True)
class State:
    """A trouble that was there at the last look."""

    trouble: Trouble
    opened_at: datetime
    told_at: datetime | None  # when people last heard of it; None while it may pass by itself


@dataclass(frozen=True, slots=True)
class Notice:
    """One change that people are told."""

    change: Change
    trouble: Trouble
    opened_at: datetime


@dataclass(frozen=True, slots=True)
class Step:
    """What a look leads to: states from now on, and what people are told."""

    states: Mapping[str, State]
    notices: tuple[Notice, ...]  # what is new first, then what lasts, then what recovered; the oldest first


def step(
    states: Mapping[str, State],
    troubles: Iterable[Trouble],
    now: datetime,
    repeat_after: timedelta,
    unjudged: Sequence[str] = (),
) -> Step:
    """Return what changes: a trouble is told when it comes, every `repeat_after` while it lasts, and when it goes.

    One with patience is told once it has lasted for so long, and not at all if it goes before.

    One whose key begins like one of `unjudged` stays as it is, where this look does not find it.
    """
    following: dict[str, State] = {}
    notices: list[Notice] = []
    for trouble in troubles:
        before = states.get(trouble.key)
        if before is None or before.told_at is None:
            opened_at = before.opened_at if before is not None else min(trouble.since or now, now)
            is_told = now - opened_at >= timedelta(seconds=trouble.patience_seconds)
            following[trouble.key] = State(trouble, opened_at, now if is_told else None)
            notices += [Notice("new", trouble, opened_at)] if is_told else []
        elif now - before.told_at >= repeat_after:
            following[trouble.key] = State(trouble, before.opened_at, told_at=now)
            notices.append(Notice("lasting", trouble, before.opened_at))
        else:
            following[trouble.key] = State(trouble, before.opened_at, before.told_at)
    following |= {
        key: state for key, state in states.items() if key not in following and key.startswith(tuple(unjudged))
    }
    gone = [state for key, state in states.items() if key not in following and state.told_at is not None]
    notices += [Notice("recovered", state.trouble, state.opened_at) for state in gone]
    order = {"new": 0, "lasting": 1, "recovered": 2}
    return Step(following, tuple(sorted(notices, key=lambda notice: (order[notice.change], notice.opened_at))))
