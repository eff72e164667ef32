"""`ingest-assets messages`: look at queue messages that could not be read, and drop them.

What does not belong here: reading messages (`source/events.py`). Nothing in the index waits for one of these: the
listing finds whatever they may have spoken of.
"""

from typing import Annotated

import typer

from ingest_assets.cli.context import JSON, platform_or_leave
from ingest_assets.cli.output import console, print_json, print_table
from ingest_assets.errors import Refused
from ingest_assets.hints import drop_set_aside_messages, set_aside_messages

app = typer.Typer(
    help="Queue messages that were set aside: list, drop.", no_args_is_help=True, rich_markup_mode="markdown"
)

Messages = Annotated[list[str] | None, typer.Argument(help="Ids of messages, as `list` shows them.")]
All = Annotated[bool, typer.Option("--all", help="Every message.")]
SHOWN_CHARACTERS = 200  # of a body in the table; --json has all that was kept


@app.command("list", epilog="Examples: `ingest-assets messages list` · `ingest-assets messages list --json`")
def list_messages(as_json: JSON = False) -> None:
    """List messages that could not be read, in whole or in part, the newest first, with the reason."""
    with platform_or_leave(as_json=as_json) as platform:
        found = set_aside_messages(platform.database)
    if as_json:
        print_json([{**item, "set_aside_at": item["set_aside_at"].isoformat()} for item in found])
    elif found:
        columns = ("message", "set aside", "reason", "detail", "body")
        lines = [
            (
                item["message_id"],
                f"{item['set_aside_at']:%Y-%m-%d %H:%M}",
                item["reason"],
                item["detail"],
                item["body"][:SHOWN_CHARACTERS],
            )
            for item in found
        ]
        print_table("Messages set aside", columns, lines)
    else:
        console.print("No message is set aside.")


@app.command(
    "drop",
    epilog="Examples: `ingest-assets messages drop 5fea7756-0ea4-451a-a703-a558b933e274` · `… drop --all`",
)
def drop(messages: Messages = None, everything: All = False, as_json: JSON = False) -> None:
    """Forget messages that somebody has looked at."""
    with platform_or_leave(as_json=as_json) as platform:
        if bool(messages) == everything:
            raise Refused("Say which messages: their ids, or --all.")
        dropped = drop_set_aside_messages(platform.database, None if everything else messages)
    if as_json:
        print_json({"dropped": dropped})
    else:
        console.print(f"{len(dropped)} messages dropped.")
