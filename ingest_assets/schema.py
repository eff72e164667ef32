"""Applies `sql/migrations/NNNN_name.sql` in order, each once, under a lock.

What does not belong here: statements that steps run (`queries.py`), and per-version tables (`models.py`).
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from psycopg import Connection, errors
from psycopg.rows import DictRow

from ingest_assets.errors import DatabaseUnavailable
from ingest_assets.queries import sql_folder

FILE_NAME = re.compile(r"^(\d{4})_([a-z_]+)\.sql$")
LOCK_KEY = 0x696E67657374  # "ingest"; any fixed number, shared by everybody who migrates this database


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file."""

    number: int
    name: str
    text: str

    @property
    def digest(self) -> str:
        """sha256 of the text, in hex: an applied file must not change afterwards."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def migrations(folder: Path | None = None) -> list[Migration]:
    """Return all migrations in order.

    Raises:
        ValueError: a file is named otherwise, or a number is missing or used twice.
    """
    found: list[Migration] = []
    for path in sorted((folder or sql_folder() / "migrations").glob("*.sql")):
        match = FILE_NAME.match(path.name)
        if match is None or int(match[1]) != len(found) + 1:
            raise ValueError(f"{path.name}: expected {len(found) + 1:04d}_name.sql")
        found.append(Migration(int(match[1]), match[2], path.read_text(encoding="utf-8")))
    return found


def migrate(connection: Connection[DictRow]) -> list[Migration]:
    """Bring the database up to date and return what was applied; calling twice is safe, also at the same time.

    Raises:
        DatabaseUnavailable: pgvector is missing, an applied file was changed, or the database is newer than this code.
    """
    wanted = migrations()
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK_KEY])
        applied = _applied(connection)
        _compare(wanted, applied)
        new = wanted[len(applied) :]
        for migration in new:
            _apply(connection, migration)
    return new


def _applied(connection: Connection[DictRow]) -> list[DictRow]:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS public.ingest_migrations"
        " (number integer PRIMARY KEY, name text NOT NULL, digest text NOT NULL,"
        " applied_at timestamptz NOT NULL DEFAULT now())"
    )
    return connection.execute("SELECT number, name, digest FROM public.ingest_migrations ORDER BY number").fetchall()


def _compare(wanted: list[Migration], applied: list[DictRow]) -> None:
    if len(applied) > len(wanted):
        raise DatabaseUnavailable(
            f"The database is at migration {len(applied)}, this version of ingest-assets knows {len(wanted)}; "
            "upgrade ingest-assets."
        )
    for migration, row in zip(wanted, applied, strict=False):
        if migration.digest != row["digest"]:
            raise DatabaseUnavailable(
                f"Migration {migration.number:04d}_{migration.name} was applied with other content; "
                "a migration is never edited, add a new one."
            )


def _apply(connection: Connection[DictRow], migration: Migration) -> None:
    try:
        connection.execute(migration.text.encode())
    except (errors.FeatureNotSupported, errors.UndefinedFile) as error:
        if "vector" not in str(error):
            raise
        raise DatabaseUnavailable(
            "This Postgres has no pgvector; install the extension `vector` on the server, or leave "
            "INGEST_DATABASE__URL unset to use the embedded Postgres."
        ) from error
    except errors.InsufficientPrivilege as error:
        raise DatabaseUnavailable(
            f"The database user may not apply migration {migration.number:04d}_{migration.name}: "
            f"{error.diag.message_primary}; "
            "run `ingest-assets db migrate` as the owner of the database, with CREATEROLE."
        ) from error
    connection.execute(
        "INSERT INTO public.ingest_migrations (number, name, digest) VALUES (%s, %s, %s)",
        [migration.number, migration.name, migration.digest],
    )
