"""What the embedding figures are measured on: Postgres as it is shipped, metered servers, and processes of their own.

What does not belong here: the figures, and what happens inside a measured process (`embedding_process.py`).
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, LiteralString, Self

import httpx
import psycopg
from psycopg import sql

from ingest_assets.database import migrate_database
from ingest_assets.embedded import database_urls
from ingest_assets.settings import load_settings

HERE = Path(__file__).parent
VERSION = "metered-384-v1"
Json = dict[str, Any]


def clean_environment() -> dict[str, str]:
    """Return this process's environment without settings of the machine."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith(("INGEST_", "DAGSTER_", "OPENAI_"))
    }


class MeteredServer:
    """A metered server in a process of its own; the keywords are its rules."""

    def __init__(self, **rules: object) -> None:
        arguments = [_option(name, value) for name, value in rules.items()]
        command = [sys.executable, str(HERE / "metered_server.py"), *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()

    def model(self, **settings: object) -> Json:
        """Return the settings of a model version that this server serves."""
        named = {"version": VERSION, "provider": "openai", "model": "metered", "dimensions": 384}
        return {**named, "base_url": self.url, **settings}

    def stats(self) -> Json:
        """Return the counters."""
        found: Json = self._ask("GET", "stats")
        return found

    def log(self) -> list[tuple[float, int, int, bool]]:
        """Return time, items and tokens of each request, and whether it was let in."""
        return [(at, items, tokens, is_in) for at, items, tokens, is_in in self._ask("GET", "log")]

    def reset(self) -> None:
        """Set the counters back and fill the buckets."""
        self._ask("POST", "reset")

    def _ask(self, method: str, path: str) -> Any:
        address = self.url.removesuffix("v1") + path
        return httpx.request(method, address).json()


@dataclass
class Setup:
    """One Postgres in a folder of its own; every figure takes new databases on it."""

    folder: Path
    url_pattern: str
    seed: int
    is_quick: bool
    names: list[str] = field(default_factory=list)

    def url(self, name: str) -> str:
        """Return the url of a database."""
        return self.url_pattern.replace("/ingest?", f"/{name}?")

    def database(self, template: str = "migrated") -> str:
        """Make a database like a template; returns its name."""
        name = f"figure_{len(self.names)}"
        self.names.append(name)
        self.execute("CREATE DATABASE {} TEMPLATE {}", name, template)
        return name

    def drop(self, *names: str) -> None:
        """Drop databases; nothing may be connected to them but what is forgotten."""
        for name in names:
            self.execute("DROP DATABASE {} WITH (FORCE)", name)

    def query(self, name: str, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Look into a database."""
        with psycopg.connect(self.url(name), autocommit=True) as connection:
            return connection.execute(statement.encode(), parameters or None).fetchall()

    def start(self, kind: str, **job: object) -> "subprocess.Popen[str]":
        """Start a measured process."""
        process = subprocess.Popen(
            [sys.executable, str(HERE / "embedding_process.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=clean_environment(),
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps({"kind": kind, **job}))
        process.stdin.close()
        process.stdin = None
        return process

    def run(self, kind: str, **job: object) -> Json:
        """Run a measured process to its end."""
        return figures(self.start(kind, **job))

    def execute(self, statement: LiteralString, *names: str) -> None:
        """Run a statement about databases, given by name."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


def figures(process: "subprocess.Popen[str]") -> Json:
    """Wait for a measured process and return its figures."""
    output, errors = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"a measured process failed: {errors[-2000:]}")
    found: Json = json.loads(output)
    return found


def wait_until(is_reached: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    """Wait for something that a measured process brings about; end with its error should it fail instead."""
    while not is_reached():
        if process.poll():
            figures(process)
        time.sleep(0.01)


@contextmanager
def open_setup(seed: int, *, is_quick: bool) -> Iterator[Setup]:
    """Start Postgres, as the platform starts it where no url is set, in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="ingest-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "inbox").mkdir()
        (folder / "ingest.toml").write_text('[source]\nurl = "inbox"\n')
        with database_urls(load_settings(folder / "ingest.toml")) as urls:
            setup = Setup(folder, urls.ingest, seed, is_quick)
            setup.execute("CREATE DATABASE {}", "migrated")
            migrate_database(setup.url("migrated"))
            yield setup


def _option(name: str, value: object) -> str:
    dashed = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{dashed}" if value else f"--no-{dashed}"
    return f"--{dashed}={value}"
