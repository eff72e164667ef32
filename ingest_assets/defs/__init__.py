"""The wiring: with `definitions.py`, the only code that knows Dagster.

What does not belong here: work. A body resolves its keys, calls a plain function and reports.
"""
