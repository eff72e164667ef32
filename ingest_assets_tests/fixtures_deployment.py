"""A deployment of its own for a test: an inbox, settings, both databases, and the command line."""

import contextlib
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from typer.testing import CliRunner

from ingest_assets.cli.app import app
from ingest_assets.defs.resources import close_process_platform
from ingest_assets.defs.storage import InstanceStorage


@dataclass
class Deployment:
    """One deployment in a folder, with databases on the session's server."""

    folder: Path
    database_url: str
    dagster_url: str
    extra_environment: dict[str, str] = field(default_factory=dict)

    @property
    def inbox(self) -> Path:
        """The folder that is ingested."""
        return self.folder / "inbox"

    @property
    def environment(self) -> dict[str, str]:
        """Environment of a process of this deployment."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("INGEST_", "DAGSTER_"))}
        return {
            **kept,
            "INGEST_CONFIG": str(self.folder / "ingest.toml"),
            "INGEST_DATABASE__URL": self.database_url,
            "INGEST_DATABASE__DAGSTER_URL": self.dagster_url,
            **self.extra_environment,
        }

    def write(self, key: str, content: str | bytes) -> Path:
        """Put a document into the inbox."""
        path = self.inbox / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def configure(self, toml: str) -> None:
        """Replace the settings file."""
        (self.folder / "ingest.toml").write_text(toml)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start a command and return its process."""
        return subprocess.Popen(
            [sys.executable, "-m", "ingest_assets", *arguments],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def command(self, *arguments: str, code: int | None = 0) -> str:
        """Run a command in this process, expect its exit code (None: any), and return stdout.

        A process of its own imports Dagster anew, which takes most of a short test's time.
        """
        close_process_platform()
        names = {name: None for name in os.environ if name.startswith(("INGEST_", "DAGSTER_"))}
        with contextlib.chdir(self.folder):
            result = CliRunner().invoke(app, list(arguments), env={**names, **self.environment}, catch_exceptions=False)
        close_process_platform()
        assert code is None or result.exit_code == code, f"exit {result.exit_code}\n{result.stdout}\n{result.stderr}"
        return result.stdout

    def json(self, *arguments: str, code: int | None = 0) -> Any:
        """Run a command with --json and return its one value."""
        return json.loads(self.command(*arguments, "--json", code=code))

    def query(self, statement: str, parameters: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Look into the platform's database."""
        with psycopg.connect(self.database_url, row_factory=dict_row, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), parameters)
            return cursor.fetchall() if cursor.description else []


@pytest.fixture(scope="session")
def dagster_template(postgres: Callable[[str], str]) -> str:
    """A database that holds Dagster's tables, to be cloned: making them takes seconds."""
    with psycopg.connect(postgres("postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE dagster_template")
    storage = InstanceStorage(postgres("dagster_template"))
    storage.event_log_storage.dispose()
    for part in (storage.run_storage, storage.schedule_storage, storage.event_log_storage):
        part._engine.dispose()
    return "dagster_template"


@pytest.fixture
def deployment(
    tmp_path: Path, postgres: Callable[[str], str], database_url: str, dagster_template: str
) -> Iterator[Deployment]:
    """A deployment on the local model with an empty inbox."""
    name = f"dagster_{uuid.uuid4().hex[:12]}"
    (tmp_path / "inbox").mkdir()
    (tmp_path / "ingest.toml").write_text(
        '[source]\nurl = "inbox"\ndeletion_grace_seconds = 2\nlisting_interval_seconds = 0\n'
    )
    with psycopg.connect(postgres("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {dagster_template}".encode())
        yield Deployment(tmp_path, database_url, postgres(name))
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
