"""The embedding engine on a metered server: use of limits, speed, deaths, lanes and memory.

    .venv/bin/python benchmarks/embedding.py [--only a,b] [--quick] [--seed N] [--write]

What does not belong here: the figures themselves (`embedding_limits.py`, `embedding_speed.py`,
`embedding_crashes.py`). Each comes from processes of its own; corpora are made from a seed that is drawn and printed,
with equal texts in them. With --write each figure replaces its own section of results.md.
"""

import argparse
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterable

from embedding_crashes import kills, stopped
from embedding_limits import budget_use, lanes
from embedding_section import Section
from embedding_setup import Setup, open_setup
from embedding_speed import memory, speed

FIGURES: dict[str, tuple[Callable[[Setup], Section], str]] = {
    "a": (budget_use, "use of a limit"),
    "b": (speed, "speed beside the bare client"),
    "c": (kills, "kill -9, then a clean run; d is part of it"),
    "d": (kills, "identical re-run; the same as c"),
    "e": (lanes, "a new document beside a backfill"),
    "f": (stopped, "a stopped process beside a living one"),
    "g": (memory, "memory and time by size"),
}


def chosen(only: str) -> Iterable[str]:
    """Return the letters asked for; c and d come from one measurement."""
    letters = [letter for letter in only.split(",") if letter] or list(FIGURES)
    return dict.fromkeys("c" if letter == "d" else letter for letter in letters)


def main() -> None:
    """Measure, print, and write where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = ", ".join(f"{letter} ({what})" for letter, (_, what) in FIGURES.items())
    parser.add_argument("--only", default="", help=f"letters with commas between: {known}")
    parser.add_argument("--quick", action="store_true", help="small corpora: to see that it works, not to be believed")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="drawn at run time by default")
    parser.add_argument("--write", action="store_true", help="replace these sections of results.md")
    given = parser.parse_args()
    # Whoever stops this stops the database and the servers, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print(f"seed {given.seed}", flush=True)
    with open_setup(given.seed, is_quick=given.quick) as setup:
        for letter in chosen(given.only):
            began = time.monotonic()
            section = FIGURES[letter][0](setup)
            print(f"({time.monotonic() - began:.0f} s)", flush=True)
            if given.write:
                section.write()


if __name__ == "__main__":
    main()
