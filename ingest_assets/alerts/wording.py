"""How changes are said: one message for all changes of one look. Pure functions.

What does not belong here: choosing what is told (`transitions.py`).
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from ingest_assets.alerts.transitions import Notice

SHOWN = 10  # changes that a message describes; the rest is counted
TITLES = {"new": "wrong", "lasting": "still wrong", "recovered": "well again"}


def message(notices: Sequence[Notice], now: datetime, ui_url: str) -> tuple[str, str]:
    """Return title and body, in plain text; there is at least one notice."""
    parts = [_described(notice, now, ui_url) for notice in notices[:SHOWN]]
    if len(notices) > SHOWN:
        parts.append(f"… and {len(notices) - SHOWN} more: ingest-assets alerts list")
    return _title(notices), "\n\n".join(parts)


def duration(length: timedelta) -> str:
    """Return a length of time in the largest unit that fits."""
    seconds = max(0, int(length.total_seconds()))
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} seconds"


def _title(notices: Sequence[Notice]) -> str:
    counts = {change: sum(notice.change == change for notice in notices) for change in TITLES}
    said = ", ".join(f"{count} {TITLES[change]}" for change, count in counts.items() if count)
    first = notices[0]
    return (
        f"ingest-assets: {said}" if len(notices) > 1 else f"ingest-assets: {TITLES[first.change]}: {first.trouble.what}"
    )


def _described(notice: Notice, now: datetime, ui_url: str) -> str:
    trouble, lasted = notice.trouble, duration(now - notice.opened_at)
    if notice.change == "recovered":
        return f"Well again: {trouble.what}\n{trouble.where}, after {lasted}."
    since = f"since {notice.opened_at:%Y-%m-%d %H:%M} UTC ({lasted})"
    count = f", {trouble.count} in all" if trouble.count > 1 else ""
    return (
        f"{trouble.severity}, {TITLES[notice.change]}: {trouble.what}\n"
        f"{trouble.where}{count}, {since}.\n"
        f"Look: {ui_url.rstrip('/')}{trouble.path}\n"
        f"Next: {trouble.command}"
    )
