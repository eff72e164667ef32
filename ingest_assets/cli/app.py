"""The commands that look at and mend the index; `run`, `dev` and `db` live in modules of their own.

What does not belong here: how things are printed (`output.py`).
"""

import os
from pathlib import Path
from typing import Annotated

import typer

from ingest_assets.cli import (
    alerts,
    backfill,
    db,
    dead_letters,
    dev,
    messages,
    models,
    plan,
    rebuild,
    receipt,
    run,
    search,
)
from ingest_assets.cli.context import JSON, ignored_or_said, platform_or_leave, settings_or_leave
from ingest_assets.cli.output import console, leave, pages_named, print_json, print_table
from ingest_assets.errors import DocumentRejected, IngestError
from ingest_assets.settings import CONFIG_VARIABLE

app = typer.Typer(
    name="ingest-assets",
    help="Keep a pgvector index true to a bucket of documents.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(alerts.app, name="alerts")
app.add_typer(db.app, name="db")
app.add_typer(dead_letters.app, name="dead-letters")
app.add_typer(messages.app, name="messages")
app.add_typer(models.app, name="models")
app.command(name="run", epilog=run.EXAMPLES)(run.run)
app.command(name="backfill", epilog=backfill.EXAMPLES)(backfill.backfill)
app.command(name="dev", epilog=dev.EXAMPLES)(dev.dev)
app.command(name="plan", epilog=plan.EXAMPLES)(plan.plan)
app.command(name="rebuild-index", epilog=rebuild.EXAMPLES)(rebuild.rebuild)
app.command(name="receipt", epilog=receipt.EXAMPLES)(receipt.receipt)
app.command(name="search", epilog=search.EXAMPLES)(search.search)


@app.callback()
def root(
    config: Annotated[
        Path | None, typer.Option(help="Settings file; default: `INGEST_CONFIG`, then ingest.toml here, then defaults.")
    ] = None,
) -> None:
    """Keep a pgvector index true to a bucket of documents."""
    if config is not None:
        # Processes that Dagster starts for this one read the same file.
        os.environ[CONFIG_VARIABLE] = str(config.absolute())


@app.command(epilog="Examples: `ingest-assets status` · `ingest-assets status manuals/pump.pdf --json`")
def status(
    document: Annotated[
        str | None, typer.Argument(help="Key, URI or id; without it, all documents and totals.")
    ] = None,
    as_json: JSON = False,
) -> None:
    """Show documents, chunks, vectors, dead letters and what is served. Exit 1 while dead letters are open."""
    from ingest_assets.status import document_status, document_statuses, totals

    with platform_or_leave(as_json=as_json) as platform:
        if document is not None:
            found = document_status(platform.database, document)
            has_letters = bool(found["dead_letters"])
            print_json(found) if as_json else _print_document(found)
        else:
            found = totals(platform.database)
            found["models"]["ignored"] = ignored_or_said(platform, as_json=as_json)
            has_letters = found["dead_letters"]["open"] > 0
            if as_json:
                print_json(found)
            else:
                _print_totals(found, document_statuses(platform.database))
    raise typer.Exit(1 if has_letters else 0)


@app.command(epilog="Examples: `ingest-assets show manuals/pump.pdf` · `ingest-assets show notes/day.txt --json`")
def show(document: Annotated[str, typer.Argument(help="Key, URI or id.")], as_json: JSON = False) -> None:
    """Show exactly what was indexed from a document, and why not."""
    from ingest_assets.status import show_document

    with platform_or_leave(as_json=as_json) as platform:
        found = show_document(platform.database, document)
    if as_json:
        print_json(found)
    else:
        _print_shown(found)


@app.command(epilog="Examples: `ingest-assets extract report.pdf` · `ingest-assets extract page.html --json`")
def extract(file: Annotated[Path, typer.Argument(help="A file on this machine.")], as_json: JSON = False) -> None:
    """Show what would be indexed from one file; no database. Exit 1 when it would be rejected."""
    from ingest_assets.preview import preview_file

    settings = settings_or_leave(as_json=as_json)
    try:
        found = preview_file(file, settings)
    except (DocumentRejected, IngestError) as error:
        if isinstance(error, DocumentRejected):
            found = {"document": str(file), "status": "rejected", "reason": error.reason, "detail": error.detail}
            print_json({**found, "warnings": [], "text": None, "chunks": []}) if as_json else _print_shown(found)
            raise typer.Exit(1) from None
        leave(error, as_json=as_json)
    if as_json:
        print_json(found)
    else:
        _print_shown(found)
        took = ", ".join(f"{stage} {value:.3f}" for stage, value in found["seconds"].items())
        console.print(f"\n{'seconds':>12}  {took}", highlight=False)


@app.command(epilog="Examples: `ingest-assets verify` · `ingest-assets verify --json`")
def verify(as_json: JSON = False) -> None:
    """Run every check in full, now. Exit 1 when one fails."""
    from ingest_assets.checks import run_checks
    from ingest_assets.verdicts import CheckContext

    with platform_or_leave(as_json=as_json) as platform:
        context = CheckContext(
            platform.database,
            platform.source,
            platform.settings.source.deletion_grace_seconds,
            lists_source=True,
        )
        verdicts = run_checks(context)
    if as_json:
        print_json(run.verdicts_as_json(verdicts))
    else:
        run.print_verdicts(verdicts)
    raise typer.Exit(0 if all(verdict.passed for verdict in verdicts) else 1)


def main() -> None:
    """Run the command line."""
    app()


def _print_totals(found: dict[str, object], documents: list[dict[str, object]]) -> None:
    columns = ("document", "status", "chunks", "dead letters", "published")
    lines = [
        (item["source_key"], item["status"], item["chunks"], item["dead_letters"], item["published_generation"])
        for item in documents
    ]
    print_table("Documents", columns, lines)
    run.print_totals(found)


def _print_document(found: dict[str, object]) -> None:
    for name, value in found.items():
        if name != "dead_letters":
            console.print(f"{name:>22}  {value}", highlight=False, markup=False)
    dead_letters.print_letters(found["dead_letters"])  # type: ignore[arg-type]


def _print_shown(found: dict[str, object]) -> None:
    for name in ("document", "status", "reason", "detail", "media_type", "metadata", "warnings"):
        if found.get(name):
            console.print(f"{name:>12}  {found[name]}", highlight=False, markup=False)
    for chunk in found.get("chunks") or []:  # type: ignore[attr-defined]
        page = pages_named(chunk["page_start"], chunk["page_end"])
        title = f"[{chunk['index']}] {chunk['tokens']} tokens{page} {' › '.join(chunk['heading'])}"
        console.print(f"\n{title}", style="bold", highlight=False, markup=False)
        console.print(chunk["text"].rstrip(), highlight=False, markup=False)
