"""Tells people what is wrong, once per change of state: troubles in, messages out.

What does not belong here: Dagster (`defs/troubles.py` looks at it), and judging the index (`checks.py`).
A look compares what is wrong now with what was wrong at the last look, so nothing has to be followed event by event: a
restart tells nobody twice, and a first look at an old deployment is one message.
"""

from ingest_assets.alerts.troubles import Trouble

__all__ = ["Trouble"]
