"""Statements and migrations against the real schema: the part most likely to rot unseen."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from ingest_assets import schema
from ingest_assets.database import Database, migrate_database, rows
from ingest_assets.errors import DatabaseUnavailable
from ingest_assets.models import all_models, declare_models
from ingest_assets.queries import sql_folder, statement, statements
from ingest_assets.settings import LOCAL_MODEL

PACKAGE = Path(schema.__file__).parent


def _prepared(text: str) -> str:
    """Rewrite %(name)s parameters as $1, $2 …, as the server numbers them."""
    numbers: dict[str, int] = {}
    numbered = re.sub(r"%\((\w+)\)s", lambda found: f"${numbers.setdefault(found[1], len(numbers) + 1)}", text)
    return numbered.replace("%%", "%")


@pytest.fixture(scope="module")
def declared(postgres: Callable[[str], str], template: str) -> Iterator[Database]:
    """A database with one version; tests that use it roll back."""
    with psycopg.connect(postgres("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE declared TEMPLATE {template}".encode())
    with Database.connect(postgres("declared")) as database:
        declare_models(database, [LOCAL_MODEL])
        yield database


OF_DAGSTER = re.findall(r"^-- name: (\w+)$", (sql_folder() / "dagster.sql").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("name", sorted(set(statements()) - set(OF_DAGSTER)))
def test_every_statement_prepares_against_the_migrated_schema(declared: Database, name: str) -> None:
    """A column that was renamed in a migration and not in a statement fails here, not in a run."""
    database = declared
    [model] = all_models(database)
    identifiers = {
        "serving": model.serving,
        "vectors": sql.Identifier("ingest", "chunk_vectors_999"),
        "version": sql.Literal("another"),
        "dimensions": sql.Literal(3),
        "embedding_type": sql.SQL("vector"),
        "operator_class": sql.SQL("vector_cosine_ops"),
    }
    with database.connection() as connection, connection.transaction(force_rollback=True):
        for staging in (
            "create_listing_staging",
            "create_chunk_staging",
            "create_vector_staging",
            "create_publication_staging",
            "create_change_staging",
        ):
            connection.execute(statement(staging))
        identifiers |= {"rebuilt": model.rebuilt, "table_name": sql.Identifier("index_999")}
        identifiers |= {"query": statement("published_passages", **identifiers)}
        text = statement(name, **identifiers).as_string(connection)
        if re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b", text):
            text = statement(name, **{**identifiers, "vectors": model.vectors}).as_string(connection)
            connection.execute(f"PREPARE probe AS {_prepared(text)}; DEALLOCATE probe".encode())
        elif name in {"read_passages", "load_passages"}:
            another = {"serving": sql.Identifier("serving", "index_999"), "query": sql.SQL("SELECT 1")}
            connection.execute(statement("create_serving_table", **{**identifiers, **another}))
            with connection.cursor().copy(statement(name, **another)) as passages:
                assert name == "load_passages" or list(passages)
        elif text.startswith("COPY"):
            with connection.cursor().copy(text.encode()):
                pass
        elif "{vectors}" in statements()[name] and name.startswith("attach"):
            connection.execute(statement("create_vector_partition", **identifiers))
            connection.execute(text.encode())
        elif name == "rename_serving_table":
            names = {"rebuilt": model.serving, "table_name": sql.Identifier("index_999")}
            connection.execute(statement(name, **names))
        elif name == "detach_vectors":
            with pytest.raises(psycopg.errors.ActiveSqlTransaction):  # it is understood, and runs outside only
                connection.execute(text.encode())
        elif name == "finish_detaching":
            text = statement(name, **{**identifiers, "vectors": model.vectors}).as_string(connection)
            with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
                connection.execute(text.encode())
        elif name == "create_serving_table":
            connection.execute(statement(name, **{**identifiers, "serving": sql.Identifier("serving", "index_999")}))
        else:
            connection.execute(text.encode())


def test_every_statement_on_dagster_tables_prepares_against_its_schema(
    postgres: Callable[[str], str], dagster_template: str
) -> None:
    """An upgrade of Dagster that renames a column fails here, not at night."""
    with psycopg.connect(postgres(dagster_template)) as connection:
        for name in OF_DAGSTER:
            text = statement(name).as_string(connection)
            connection.execute(f"PREPARE probe AS {_prepared(text)}; DEALLOCATE probe".encode())


def test_every_statement_is_used() -> None:
    """A statement nobody calls is deleted, and a name that does not exist is not called."""
    code = "\n".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    unused = [name for name in statements() if f'"{name}"' not in code]
    assert unused == []


def test_migrating_twice_applies_nothing_the_second_time(database_url: str) -> None:
    """`db migrate` may be called by every process at every start."""
    assert migrate_database(database_url) == []


def test_many_processes_migrating_at_once_apply_each_file_once(postgres: Callable[[str], str]) -> None:
    """A daemon, a webserver and a run that start together on an empty database do not fail each other."""
    with psycopg.connect(postgres("postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE together")
    code = f"from ingest_assets.database import migrate_database; migrate_database({postgres('together')!r})"
    started = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(4)]
    assert [process.wait(timeout=60) for process in started] == [0, 0, 0, 0]
    with psycopg.connect(postgres("together")) as connection:
        numbers = connection.execute("SELECT number FROM ingest_migrations ORDER BY number").fetchall()
    assert [row[0] for row in numbers] == [item.number for item in schema.migrations()]


def test_an_edited_migration_is_refused(database: Database) -> None:
    """Two deployments with the same number have the same schema."""
    with database.connection() as connection:
        connection.execute("UPDATE ingest_migrations SET digest = 'other' WHERE number = 2")
    with pytest.raises(DatabaseUnavailable, match="0002_vectors was applied with other content"):
        migrate_database(database.url)


def test_a_database_from_the_future_is_refused(database: Database) -> None:
    """An old version of the package does not write into a newer schema."""
    with database.connection() as connection:
        connection.execute("INSERT INTO ingest_migrations (number, name, digest) VALUES (9999, 'later', '')")
    with pytest.raises(DatabaseUnavailable, match="upgrade ingest-assets"):
        migrate_database(database.url)


def test_a_server_that_is_down_is_said_in_one_sentence() -> None:
    """The message names the variable to correct."""
    with pytest.raises(DatabaseUnavailable, match="INGEST_DATABASE__URL"):
        migrate_database("postgresql://nobody@127.0.0.1:1/nowhere")


def test_a_gap_in_the_numbers_of_migrations_is_refused(tmp_path: Path) -> None:
    """Migrations are numbered without holes, so that a merge cannot lose one."""
    (tmp_path / "0001_first.sql").write_text("SELECT 1")
    (tmp_path / "0003_third.sql").write_text("SELECT 1")
    with pytest.raises(ValueError, match="0002_name"):
        schema.migrations(tmp_path)


def test_declaring_versions_twice_makes_their_tables_once(database: Database) -> None:
    """Every process declares at its start."""
    declare_models(database, [LOCAL_MODEL])
    [model] = declare_models(database, [LOCAL_MODEL])
    with database.connection() as connection:
        assert rows(connection, "count_serving_rows", {"serving": model.serving}) == [{"found": 0}]
