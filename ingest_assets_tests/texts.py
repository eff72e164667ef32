"""Ordinary prose for tests, the same for the same seed: random words would hide what a chunker does to sentences."""

import random

SUBJECTS = [
    "pump",
    "valve",
    "meter",
    "reservoir",
    "filter",
    "sensor",
    "inspector",
    "crew",
    "operator",
    "laboratory",
    "pipeline",
    "tank",
]
VERBS = [
    "checks",
    "reports",
    "replaces",
    "measures",
    "drains",
    "opens",
    "closes",
    "records",
    "inspects",
    "calibrates",
    "cleans",
    "tests",
]
OBJECTS = [
    "pressure",
    "flow",
    "turbidity",
    "chlorine",
    "seals",
    "bearings",
    "logs",
    "samples",
    "gaskets",
    "alarms",
    "levels",
    "records",
]
PLACES = ["in the morning", "after the storm", "at the northern station", "before the audit", "during low demand"]


def sentence(chance: random.Random) -> str:
    """Return one sentence."""
    number = chance.randrange(2, 900)
    return (
        f"The {chance.choice(SUBJECTS)} {chance.choice(VERBS)} the {chance.choice(OBJECTS)} {chance.choice(PLACES)}, "
        f"and {number} of them are noted by the {chance.choice(SUBJECTS)} crew."
    )


def paragraphs(seed: int, count: int) -> str:
    """Return paragraphs of a few sentences each, separated by blank lines."""
    chance = random.Random(seed)
    return "\n\n".join(" ".join(sentence(chance) for _ in range(chance.randrange(4, 9))) for _ in range(count))
