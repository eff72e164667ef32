"""Progress of long work, told to whoever listens: the terminal, Dagster's log, or nobody.

What does not belong here: how it is shown.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one stage of one run is."""

    stage: str  # ingest, foresee, embed, publish or delete
    done: int
    total: int
    failed: int = 0
    detail: str = ""  # what else whoever watches should know


Listener = Callable[[Progress], None]
_listeners: list[Listener] = []


def report(progress: Progress) -> None:
    """Tell every listener; cheap when there is none."""
    for listener in _listeners:
        listener(progress)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Listen to all progress in this process while the block runs."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
