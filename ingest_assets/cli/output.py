"""How commands print: JSON or tables, one line per problem, exit codes.

What does not belong here: what is printed.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from datetime import datetime
from typing import Any, NoReturn
from uuid import UUID

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Table

from ingest_assets.errors import EnvironmentProblem, IngestError
from ingest_assets.progress import Progress, listening

console = Console(soft_wrap=True)
errors = Console(stderr=True, soft_wrap=True)

ENVIRONMENT = 2
REFUSED = 1
STAGES = {
    "ingest": "reading documents",
    "foresee": "foreseeing changes",
    "embed": "embedding texts",
    "delete": "deleting documents",
}


def print_json(value: Any) -> None:
    """Write one JSON value to stdout."""
    json.dump(value, sys.stdout, default=_plain, ensure_ascii=False, indent=2)
    sys.stdout.write("\n")


def print_table(title: str, columns: Sequence[str], lines: Sequence[Sequence[Any]]) -> None:
    """Write a table for people; numbers to the right."""
    table = Table(title=title, title_justify="left", header_style="bold")
    for index, column in enumerate(columns):
        is_number = bool(lines) and all(isinstance(line[index], int | float) for line in lines)
        table.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for line in lines:
        table.add_row(*map(_cell, line))
    console.print(table)


def pages_named(first: int | None, last: int | None) -> str:
    """Return pages as a suffix to a name; nothing where there are none."""
    if first is None:
        return ""
    return f", page {first}" if first == last else f", pages {first}-{last}"


def leave(error: Exception, *, as_json: bool) -> NoReturn:
    """Say what is wrong and what to do, and end with the exit code of the error's kind."""
    code = ENVIRONMENT if isinstance(error, EnvironmentProblem) or not isinstance(error, IngestError) else REFUSED
    if as_json:
        print_json({"error": str(error), "kind": type(error).__name__})
    else:
        errors.print(f"ingest-assets: {error}", style="red", markup=False, highlight=False)
    raise typer.Exit(code)


@contextmanager
def progress_shown(*, is_shown: bool) -> Iterator[None]:
    """Show bars for long work on stderr while the block runs."""
    if not is_shown:
        yield
        return
    columns = (TextColumn("{task.description:>20}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, console=errors, refresh_per_second=4) as bars:
        tasks: dict[tuple[str, int], Any] = {}

        def show(progress: Progress) -> None:
            key = (progress.stage, progress.total)
            if key not in tasks or bars.tasks[tasks[key]].completed > progress.done:
                tasks[key] = bars.add_task(STAGES.get(progress.stage, progress.stage), total=progress.total)
            name = STAGES.get(progress.stage, progress.stage)
            failed = f" ({progress.failed} failed)" if progress.failed else ""
            bars.update(tasks[key], completed=progress.done, description=f"{name}{failed}")

        with listening(show):
            yield


def _cell(value: Any) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return "" if value is None else str(value)


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    raise TypeError(f"no JSON for {type(value).__name__}")
