"""`ingest-assets alerts`: what is wrong, whether addresses work, and a watch from outside the code location.

What does not belong here: what is a trouble (`defs/troubles.py`).
"""

import json
import time
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from ingest_assets.alerts.outbox import address_sha256, open_states, undelivered
from ingest_assets.alerts.transitions import Notice
from ingest_assets.alerts.wording import duration
from ingest_assets.cli.context import JSON, platform_or_leave, settings_or_leave
from ingest_assets.cli.output import console, errors, leave, print_json, print_table
from ingest_assets.errors import IngestError, SettingsError

app = typer.Typer(help="See what is wrong, and try who is told.", no_args_is_help=True)
TITLE = "ingest-assets: a test"
BODY = "This is what an alert looks like. Nothing is wrong.\nNext: nothing to run."
NO_ADDRESS = "No address is set; set INGEST_ALERTS__URLS to Apprise addresses, such as mailto://… or slack://…"


@app.command("list", epilog="Examples: `ingest-assets alerts list` · `ingest-assets alerts list --json`")
def list_alerts(as_json: JSON = False) -> None:
    """Show what was wrong at the last look, and messages that wait. Exit 1 while something is wrong or waits."""
    from ingest_assets.alerts.delivery import addresses_of, shown

    with platform_or_leave(as_json=as_json) as platform:
        states, waiting = open_states(platform.database), undelivered(platform.database)
        urls = platform.settings.alerts.urls
    names = {address_sha256(item): shown(item) for item in addresses_of(urls.get_secret_value())} if urls else {}
    messages = [
        {"address": names.get(item["address_sha256"], "an old address")}
        | {name: item[name] for name in ("waiting", "since", "attempts", "last_error")}
        for item in waiting
    ]
    if as_json:
        found = [{**item.trouble.to_json(), "since": item.opened_at, "told_at": item.told_at} for item in states]
        print_json({"wrong": found, "undelivered": messages, "addresses": list(names.values())})
    else:
        _print(states, messages, has_addresses=bool(names))
    raise typer.Exit(1 if states or messages else 0)


@app.command("test", epilog="Examples: `ingest-assets alerts test` · `ingest-assets alerts test --json`")
def try_addresses(as_json: JSON = False) -> None:
    """Send one message to every address, and say which took it. Exit 1 when one did not."""
    from ingest_assets.alerts.delivery import addresses_of, send, shown

    settings = settings_or_leave(as_json=as_json)
    addresses = addresses_of(settings.alerts.urls.get_secret_value()) if settings.alerts.urls else []
    if not addresses:
        leave(SettingsError(NO_ADDRESS), as_json=as_json)
    tried = [{"address": shown(address), "error": send(address, TITLE, BODY)} for address in addresses]
    if as_json:
        print_json(tried)
    else:
        print_table("Addresses", ("address", ""), [(item["address"], item["error"] or "took it") for item in tried])
    raise typer.Exit(0 if all(item["error"] is None for item in tried) else 1)


@app.command("watch", epilog="Examples: `ingest-assets alerts watch` · `ingest-assets alerts watch --once`")
def watch(
    once: Annotated[bool, typer.Option("--once", help="Look once, deliver, and end; for cron.")] = False,
    seconds: Annotated[float, typer.Option(help="Between two looks.", min=1)] = 30.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON value a line for every change.")] = False,
) -> None:
    """Do what `alert_sensor` does, from a process that needs neither the daemon nor the code location."""
    from sqlalchemy.exc import SQLAlchemyError  # as slow to import as all other commands together

    from ingest_assets.defs.alert_sensor import look
    from ingest_assets.defs.instance import open_instance

    with platform_or_leave(as_json=as_json) as platform, open_instance(platform.settings) as instance:
        while True:
            try:
                for notice in look(instance, platform)[0]:
                    _print_notice(notice, as_json=as_json)
            except (IngestError, SQLAlchemyError) as error:
                if once:
                    raise
                # A watcher that ends with what it watches is none.
                errors.print(f"This look failed: {error}", style="red", markup=False, highlight=False)
            if once:
                return
            time.sleep(seconds)


def _print_notice(notice: Notice, *, as_json: bool) -> None:
    if as_json:
        found = {"change": notice.change, **notice.trouble.to_json(), "since": notice.opened_at.isoformat()}
        console.print(json.dumps(found), markup=False, highlight=False, soft_wrap=True)
    else:
        console.print(f"{notice.change}: {notice.trouble.what}", markup=False, highlight=False)


def _print(states: list[Any], messages: list[dict[str, Any]], *, has_addresses: bool) -> None:
    now = datetime.now(tz=UTC)
    lines = [
        (item.trouble.severity, item.trouble.what, duration(now - item.opened_at), item.trouble.command)
        for item in states
    ]
    if lines:
        print_table("Wrong", ("", "what", "for", "next"), lines)
    else:
        console.print("Nothing was wrong at the last look.")
    for item in messages:
        errors.print(f"{item['waiting']} messages wait for {item['address']}: {item['last_error']}", style="yellow")
    if not has_addresses:
        errors.print(NO_ADDRESS, style="yellow", markup=False, highlight=False)
