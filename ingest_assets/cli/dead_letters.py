"""`ingest-assets dead-letters`: look at what was given up on, try it again, or accept it.

What does not belong here: giving up, which the steps do.
"""

from typing import Annotated, Any

import typer

from ingest_assets.cli.context import JSON, platform_or_leave
from ingest_assets.cli.output import console, print_json, print_table
from ingest_assets.errors import Reason, Refused
from ingest_assets.letters import open_letters, resolve_letters, retry_letters
from ingest_assets.platform import Platform
from ingest_assets.status import find_document, letter_summary

app = typer.Typer(help="What was given up on: list, retry, resolve.", no_args_is_help=True, rich_markup_mode="markdown")

Document = Annotated[str | None, typer.Argument(help="Key, URI or id of a document; without it, all.")]
ReasonOption = Annotated[str | None, typer.Option(help="Only letters of this reason.")]
All = Annotated[bool, typer.Option("--all", help="Every open letter.")]


@app.command(
    "list",
    epilog="Examples: `ingest-assets dead-letters list` · `ingest-assets dead-letters list --reason encrypted --json`",
)
def list_letters(document: Document = None, reason: ReasonOption = None, as_json: JSON = False) -> None:
    """List open dead letters, oldest first."""
    with platform_or_leave(as_json=as_json) as platform:
        letters = _select(platform, document, reason)
    if as_json:
        print_json(letters)
    elif letters:
        print_letters(letters)
    else:
        console.print("No dead letter is open.")


@app.command(
    "retry",
    epilog="Examples: `ingest-assets dead-letters retry manuals/pump.pdf` · `… retry --reason corrupt` · `… --all`",
)
def retry(
    document: Document = None, reason: ReasonOption = None, everything: All = False, as_json: JSON = False
) -> None:
    """Reopen units, so that the next run tries them again."""
    with platform_or_leave(as_json=as_json) as platform:
        count = retry_letters(platform.database, _chosen(platform, document, reason, everything=everything))
    _say(count, "reopened", "`ingest-assets run` tries them again.", as_json=as_json)


@app.command(
    "resolve",
    epilog="Examples: `ingest-assets dead-letters resolve scans/old.pdf` · `… resolve --reason no_text_layer`",
)
def resolve(
    document: Document = None, reason: ReasonOption = None, everything: All = False, as_json: JSON = False
) -> None:
    """Accept letters: their units stay out of the index, and nobody is told any more."""
    with platform_or_leave(as_json=as_json) as platform:
        count = resolve_letters(platform.database, _chosen(platform, document, reason, everything=everything))
    _say(count, "resolved", "", as_json=as_json)


def print_letters(letters: list[dict[str, Any]]) -> None:
    """Print letters for people."""
    if letters:
        names = ("id", "document", "model", "stage", "reason", "attempts", "detail", "run_id")
        print_table("Dead letters", names, [tuple(item[name] for name in names) for item in letters])


def _select(platform: Platform, document: str | None, reason: str | None) -> list[dict[str, Any]]:
    if reason is not None and reason not in list(Reason):
        raise Refused(f"There is no reason {reason}; known are {', '.join(Reason)}.")
    document_id = find_document(platform.database, document)["document_id"] if document else None
    return [letter_summary(item) for item in open_letters(platform.database, document_id=document_id, reason=reason)]


def _chosen(platform: Platform, document: str | None, reason: str | None, *, everything: bool) -> list[int]:
    if document is None and reason is None and not everything:
        raise Refused("Say which letters: a document, --reason, or --all.")
    return [item["id"] for item in _select(platform, document, reason)]


def _say(count: int, verb: str, advice: str, *, as_json: bool) -> None:
    if as_json:
        print_json({verb: count})
    else:
        console.print(f"{count} dead letters {verb}. {advice if count else ''}".rstrip())
