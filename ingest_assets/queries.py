"""Reads `sql/*.sql` into named statements.

What does not belong here: running them (`database.py`), and migrations (`schema.py`).
A block is `-- name: x`, comment lines that say what it does and returns, then one statement.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import LiteralString

from psycopg import sql

PACKAGE = Path(__file__).parent
NAME = re.compile(r"^-- name: ([a-z_]+)$")


def sql_folder() -> Path:
    """Return the folder of statements: inside the installed package, or beside it in a checkout."""
    return next(folder for folder in (PACKAGE / "sql", PACKAGE.parent / "sql") if folder.is_dir())


@cache
def statements() -> Mapping[str, LiteralString]:
    """Return every statement by its name.

    Raises:
        ValueError: a name stands twice, or a block is empty; the message gives file and line.
    """
    found: dict[str, LiteralString] = {}
    for path in sorted(sql_folder().glob("*.sql")):
        for line, name, text in _blocks(path):
            if name in found or not text:
                raise ValueError(f"{path.name}:{line}: the statement {name} {'stands twice' if text else 'is empty'}")
            found[name] = text  # from files of this package only, never from input: what LiteralString asks for
    return found


def statement(name: str, **identifiers: sql.Composable) -> sql.Composed:
    """Return one statement, its `{placeholders}` filled with identifiers or literals."""
    return sql.SQL(statements()[name]).format(**identifiers)


def _blocks(path: Path) -> Iterator[tuple[int, str, str]]:
    name, start, lines = "", 0, list[str]()
    for number, line in enumerate([*path.read_text(encoding="utf-8").splitlines(), "-- name: end"], start=1):
        match = NAME.match(line)
        if match is None:
            if name and not (line.startswith("--") and not lines):
                lines.append(line)
            continue
        if name:
            yield start, name, "\n".join(lines).strip()
        name, start, lines = match[1], number, []
