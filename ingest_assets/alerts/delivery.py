"""Sends messages through Apprise, which knows mail, chat and pager services by the scheme of an address.

What does not belong here: what is sent and when (`outbox.py`).
"""

import logging
import re

import apprise
from apprise.logger import LogCapture


def addresses_of(urls: str) -> list[str]:
    """Return the addresses of a setting: separated by blanks, line breaks or commas before a scheme."""
    return [part for part in re.split(r"[\s,]+(?=[A-Za-z][A-Za-z0-9+.-]*://)|\s+", urls) if part]


def shown(address: str) -> str:
    """Return an address without its secrets."""
    server = apprise.Apprise.instantiate(address, suppress_exceptions=True)
    if server is None:
        return f"{address.partition('://')[0]}://… (not understood)"
    return str(server.url(privacy=True)).partition("?")[0]  # type: ignore[no-untyped-call]


def send(address: str, title: str, body: str) -> str | None:
    """Send one message to one address; returns what went wrong, without secrets."""
    server = apprise.Apprise.instantiate(address, suppress_exceptions=True)
    if server is None:
        return "The address is not understood; see the list of services in Apprise's documentation."
    with LogCapture(level=logging.WARNING, fmt="%(message)s") as captured:  # type: ignore[no-untyped-call]
        if apprise.Apprise(server).notify(body=body, title=title, body_format=apprise.NotifyFormat.TEXT):
            return None
        said = [line for line in captured.getvalue().splitlines() if line.strip()]
    reason = said[-1] if said else "no reason given"
    return f"The service did not take the message: {reason.replace(address, shown(address))[:200]}"
