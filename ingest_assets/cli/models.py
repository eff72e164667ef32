"""`ingest-assets models`: the embedding model versions.

What does not belong here: declaring them, which the settings do.
"""

from dataclasses import asdict
from typing import Annotated

import typer

from ingest_assets.activation import Missing, Switch, activate, missing_for, rollback
from ingest_assets.cli.context import JSON, platform_or_leave
from ingest_assets.cli.output import console, print_json, print_table
from ingest_assets.models import all_models, published_documents
from ingest_assets.platform import Platform
from ingest_assets.retirement import retire
from ingest_assets.verdicts import CheckContext

Version = Annotated[str, typer.Argument(help="An embedding model version, as `models list` shows it.")]

app = typer.Typer(
    help="Embedding model versions: list, activate, rollback, retire.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


@app.callback()
def models() -> None:
    """Embedding model versions: list them, switch readers between them."""


@app.command("list", epilog="Example: `ingest-assets models list --json`")
def list_models(as_json: JSON = False) -> None:
    """List recorded versions, oldest first: whether the settings declare them, and how many documents each can serve.

    `active` serves readers; `building` does not, complete or not; `retired` is gone for good.
    """
    with platform_or_leave(as_json=as_json) as platform:
        declared = {item.version for item in platform.settings.models}
        documents = published_documents(platform.database)
        found = [
            {
                "version": model.version,
                "status": model.status,
                "dimensions": model.dimensions,
                "declared": model.version in declared,
                "documents": documents.get(model.version, 0),
                "fingerprint": model.fingerprint,
            }
            for model in all_models(platform.database)
        ]
    if as_json:
        print_json(found)
    else:
        names = ("version", "status", "dimensions", "declared", "documents")
        print_table("Models", names, [tuple(item[name] for name in names) for item in found])


@app.command("activate", epilog="Examples: `ingest-assets models activate v2` · `… activate v2 --check --json`")
def activate_version(
    version: Version,
    only_check: Annotated[bool, typer.Option("--check", help="Only say what is missing.")] = False,
    as_json: JSON = False,
) -> None:
    """Switch readers to a version, once nothing is missing; exit 1 with the whole list otherwise."""
    with platform_or_leave(as_json=as_json) as platform:
        context = CheckContext(platform.database, platform.source, platform.settings.source.deletion_grace_seconds)
        missing = _missing(platform, context, version)
        if missing:
            _print_missing(version, missing, as_json=as_json)
            raise typer.Exit(1)
        if only_check:
            done = Switch(version, None, 0)
        else:
            done = activate(context, version, {item.version for item in platform.settings.models})
    if as_json:
        print_json({**asdict(done), "missing": [], "switched": done.previous is not None})
    elif only_check:
        console.print(f"Nothing is missing: {version} can serve.", highlight=False)
    else:
        back = "" if done.previous is None else f" `ingest-assets models rollback` returns to {done.previous}."
        console.print(f"Readers are served {version}.{back}", highlight=False)


@app.command("rollback", epilog="Examples: `ingest-assets models rollback` · `ingest-assets models rollback --json`")
def roll_back(as_json: JSON = False) -> None:
    """Give readers back to the version that served before, at once."""
    with platform_or_leave(as_json=as_json) as platform:
        done = rollback(platform.database)
    if as_json:
        print_json(asdict(done))
        return
    console.print(f"Readers are served {done.version} again, no longer {done.previous}.", highlight=False)
    if done.behind:
        console.print(
            f"{done.behind} documents are older or absent there: `ingest-assets backfill --model {done.version}`.",
            highlight=False,
        )


@app.command("retire", epilog="Examples: `ingest-assets models retire v1` · `ingest-assets models retire v1 --json`")
def retire_version(version: Version, as_json: JSON = False) -> None:
    """Drop a version that serves nobody, for good: its vectors and its index. Never the active one."""
    with platform_or_leave(as_json=as_json) as platform:
        done = retire(platform.database, version)
        is_declared = version in {item.version for item in platform.settings.models}
    if as_json:
        print_json({**asdict(done), "declared": is_declared})
        return
    console.print(f"{version} is retired; {done.publications} documents went with it.", highlight=False)
    if is_declared:
        console.print("It is still declared in the settings, which is ignored; take it out there.", highlight=False)


def _missing(platform: Platform, context: CheckContext, version: str) -> list[Missing]:
    model = next((item for item in all_models(platform.database) if item.version == version), None)
    if model is None or model.status != "building":
        return []  # the switch itself knows what to say
    return missing_for(context, model, {item.version for item in platform.settings.models})


def _print_missing(version: str, missing: list[Missing], *, as_json: bool) -> None:
    if as_json:
        print_json({"version": version, "switched": False, "missing": [asdict(item) for item in missing]})
        return
    lines = [(item.what, item.count, item.sentence, item.command) for item in missing]
    print_table(f"{version} cannot serve yet; readers stay where they are", ("missing", "count", "why", "mend"), lines)
