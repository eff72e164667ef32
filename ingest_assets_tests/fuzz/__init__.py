"""Damaged documents without end: every parser reads or rejects them, in bounded time and memory (`make fuzz`).

What does not belong here: documents with an expected text, which are tests.
"""
