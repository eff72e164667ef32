"""Deployments that a module runs once, and whose databases each of its tests gets as they were.

What does not belong here: which states there are. The folder is the same for all tests: documents are named after it.
"""

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest
from psycopg import sql

from ingest_assets_tests.fixtures_deployment import Deployment

CLONE: LiteralString = "CREATE DATABASE {} TEMPLATE {}"
DROP: LiteralString = "DROP DATABASE {} WITH (FORCE)"


@dataclass
class Kept:
    """One deployment's states, as pairs of databases."""

    folder: Path
    documents: Mapping[str, str]  # by key, as every state begins with them
    url: Callable[[str], str]  # of a database by name
    latest: tuple[str, str]  # names of the platform's and of Dagster's database
    names: dict[str, tuple[str, str]] = field(default_factory=dict)

    def make(self, state: str, toml: str) -> None:
        """Go on from the state that was made before with one run of these settings, and keep what it leaves."""
        self.latest = self.names[state] = self._clones(self.latest)
        deployment = self._opened(self.latest)
        deployment.configure(toml)
        deployment.json("run")

    @contextmanager
    def deployment(self, state: str, toml: str) -> Iterator[Deployment]:
        """Give a deployment in a state, with its documents, under these settings."""
        names = self._clones(self.names[state])
        deployment = self._opened(names)
        deployment.configure(toml)
        yield deployment
        for name in names:
            self._execute(DROP, name)

    def _opened(self, names: tuple[str, str]) -> Deployment:
        deployment = Deployment(self.folder, *map(self.url, names))
        deployment.inbox.mkdir(exist_ok=True)
        for path in deployment.inbox.iterdir():
            if path.name not in self.documents:
                path.unlink()
        for key, content in self.documents.items():
            path = deployment.inbox / key
            if not path.exists() or path.read_bytes() != content.encode():
                deployment.write(key, content)
        return deployment

    def _clones(self, originals: tuple[str, str]) -> tuple[str, str]:
        names = tuple(f"kept_{uuid.uuid4().hex[:12]}" for _ in originals)
        for name, original in zip(names, originals, strict=True):
            # What a pool of this process still holds open would keep the server from copying.
            with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [original]
                )
            self._execute(CLONE, name, original)
        return names[0], names[1]

    def _execute(self, statement: LiteralString, *names: str) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


@pytest.fixture(scope="module")
def keeper(
    tmp_path_factory: pytest.TempPathFactory, postgres: Callable[[str], str], template: str, dagster_template: str
) -> Callable[[Mapping[str, str]], Kept]:
    """Give a module's deployment with these documents, of which nothing is known yet."""
    return lambda documents: Kept(tmp_path_factory.mktemp("kept"), documents, postgres, (template, dagster_template))
