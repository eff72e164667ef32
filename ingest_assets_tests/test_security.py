"""Roles, row-level security and TLS, by trying: logins that have one role do what they may not."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pgvector import Vector
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import DictRow

from ingest_assets.database import Database
from ingest_assets.errors import SettingsError
from ingest_assets.tenants import protect_tenants, set_tenant_key, tenant_key
from ingest_assets_tests.embedding_server import EmbeddingServer
from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.serving_rows import application, asked, declared_version, insert_rows
from ingest_assets_tests.texts import paragraphs
from ingest_assets_tests.tls_postgres import TlsPostgres, write_certificate

CONFIDENTIAL = "The vault opens with the number four one two."
NORTH, SOUTH = "reader_of_north", "reader_of_south"


def refused(connection: "psycopg.Connection[DictRow]", *statements: str) -> list[str]:
    """Return the statements that the server did not refuse for lack of rights."""
    allowed = []
    for text in statements:
        try:
            connection.execute(text.encode())
        except psycopg.errors.InsufficientPrivilege:
            continue
        allowed.append(text)
    return allowed


@pytest.fixture
def filled(deployment: Deployment, embedding_server: EmbeddingServer) -> Deployment:
    """A document that is served, and one whose only text the provider refuses, quoting it."""
    deployment.configure(
        '[source]\nurl = "inbox"\n[[models]]\nversion = "v1"\nprovider = "openai"\nmodel = "m"\ndimensions = 8\n'
        f'base_url = "{embedding_server.url}"\n'
    )
    embedding_server.poison.add(CONFIDENTIAL)
    embedding_server.names_poison = True
    deployment.write("pumps.md", "# Pumps\n\n" + paragraphs(1, 4))
    deployment.write("vault.txt", CONFIDENTIAL)
    deployment.command("run", code=1)
    return deployment


def test_each_role_does_its_work_and_nothing_else(filled: Deployment) -> None:
    """A reader sees the serving tables only, an operator no content, a writer is no master of the server."""
    with Database.connect(filled.database_url) as database:
        with application(database) as reader:
            assert len(asked(reader, query_text="pump", k=3)) > 0
            assert len(reader.execute("SELECT text FROM serving.index_1").fetchall()) > 0
            assert (
                refused(
                    reader,
                    "SELECT FROM ingest.documents",
                    "SELECT FROM ingest.chunk_vectors",
                    "SELECT FROM ingest.dead_letters",
                    "SELECT FROM ingest.document_status",
                    "UPDATE serving.index_1 SET text = ''",
                    "DELETE FROM serving.publications",
                    "INSERT INTO serving.tenant_readers VALUES ('app_of_tests', 'north')",
                    "CREATE TABLE serving.mine ()",
                )
                == []
            )
        with application(database, "operator_of_tests", role="ingest_operator") as operator:
            [letter] = operator.execute("SELECT * FROM ingest.dead_letters").fetchall()
            assert not any(word in str(letter) for word in ("vault opens", "four one two"))
            assert operator.execute(
                "UPDATE ingest.dead_letters SET resolved_at = now(), resolution = 'accepted'"
            ).rowcount
            assert len(operator.execute("SELECT * FROM ingest.document_status").fetchall()) == 2
            assert (
                refused(
                    operator,
                    "SELECT text FROM ingest.documents",
                    "SELECT text FROM ingest.chunks",
                    "SELECT FROM serving.index_1",
                    "SELECT FROM serving.search(query_text => 'pump')",
                    "INSERT INTO ingest.chunk_vectors DEFAULT VALUES",
                    "UPDATE ingest.chunk_vectors SET embedding = '[1]'",
                    "UPDATE ingest.chunk_vectors_1 SET embedding = '[1]'",
                    "DELETE FROM ingest.chunk_vectors",
                    "UPDATE ingest.dead_letters SET detail = ''",
                    "UPDATE ingest.embedding_models SET status = 'retired'",
                )
                == []
            )
        with application(database, "writer_of_tests", role="ingest_writer") as writer:
            assert writer.execute("UPDATE ingest.chunk_vectors SET run_id = 'again'").rowcount > 0
            assert len(asked(writer, query_text="pump", k=3)) > 0
            assert (
                refused(
                    writer,
                    "CREATE ROLE another",
                    "CREATE DATABASE another",
                    "ALTER SYSTEM SET work_mem = '1MB'",
                    "COPY (SELECT 1) TO PROGRAM 'true'",
                    "SELECT pg_read_file('/etc/hostname')",
                    "DROP TABLE ingest.documents",
                    "ALTER TABLE serving.index_1 DISABLE ROW LEVEL SECURITY",
                    "SELECT ingest.set_tenant_key(NULL)",
                )
                == []
            )
        with database.connection() as connection:
            flags = connection.execute(
                "SELECT rolname FROM pg_roles WHERE rolname IN ('ingest_writer', 'ingest_operator', 'ingest_reader')"
                " AND (rolsuper OR rolcreaterole OR rolcreatedb OR rolbypassrls OR rolreplication OR rolcanlogin)"
            ).fetchall()
    assert flags == []


@pytest.fixture
def tenants(database: Database) -> Iterator[Database]:
    """Forty passages of two tenants and some of nobody, in two versions; who reads what is said."""
    first, second = declared_version(database, 2, "v1"), declared_version(database, 2, "v2", is_active=False)
    rows: list[dict[str, Any]] = [
        {
            "key": f"{owner}/{number}.txt",
            "text": f"pump {owner}",
            "metadata": {"tenant": owner} if owner else {},
            "embedding": [1, number / 20],
        }
        for number in range(20)
        for owner in ("north", "south", "")
    ]
    insert_rows(database, first, rows)
    protect_tenants(database, "tenant")
    insert_rows(database, second, rows)
    yield database
    with database.connection() as connection:
        connection.execute("DELETE FROM serving.tenant_readers")


def seen(connection: "psycopg.Connection[DictRow]", version: str = "v1") -> set[str]:
    """Return whose passages come out of every way to ask."""
    number = version[1:]
    found = [
        *asked(connection, query_vector=Vector([1, 0]), k=100, model_version=version),
        *asked(connection, query_vector=Vector([1, 0]), k=100, model_version=version, is_exact=True),
        *asked(connection, query_text="pump", k=100, model_version=version),
        *asked(connection, query_text='"pump south" or "pump north"', k=100, model_version=version),
        *asked(connection, query_vector=Vector([1, 0]), query_text="pump", k=100, model_version=version),
        *asked(connection, query_text="pump", k=100, model_version=version, filters={"metadata": {"tenant": "south"}}),
        *asked(connection, query_text="pump", k=100, model_version=version, filters={"document": "south/1.txt"}),
        *connection.execute(f"SELECT metadata FROM serving.index_{number}".encode()),
    ]
    return {row["metadata"].get("tenant", "nobody") for row in found}


def test_a_tenant_sees_its_own_passages_in_every_way_to_ask(tenants: Database) -> None:
    """By function, by table, at a version made later, and whatever it says its tenant is."""
    with tenants.connection() as owner:
        owner.execute("INSERT INTO serving.tenant_readers VALUES (%s, 'north'), (%s, 'south')", [NORTH, SOUTH])
    with application(tenants, NORTH) as north, application(tenants, SOUTH) as south:
        for version in ("v1", "v2"):
            assert (seen(north, version), seen(south, version)) == ({"north"}, {"south"})
        assert len(asked(north, query_vector=Vector([1, 0]), k=15)) == 15
        north.execute("SET ingest.tenant = 'south'")
        assert seen(north) == set()
        assert north.execute("SELECT FROM serving.publications").fetchall() == []
        assert {row["tenant"] for row in south.execute("SELECT tenant FROM serving.tenant_readers")} == {"south"}


def test_one_login_for_many_tenants_names_the_one_it_serves(tenants: Database) -> None:
    """It sees nobody's passages until it does, and nobody else's afterwards; who was told nothing sees nothing."""
    with application(tenants) as pool, application(tenants, NORTH) as stranger:
        assert seen(pool) == set()
        with tenants.connection() as owner:
            owner.execute("INSERT INTO serving.tenant_readers VALUES ('app_of_tests', NULL)")
        assert seen(pool) == set()
        with pool.transaction():
            pool.execute("SET LOCAL ingest.tenant = 'south'")
            assert seen(pool) == {"south"}
        assert seen(pool) == set()
        stranger.execute("SET ingest.tenant = 'north'")
        assert seen(stranger) == set()


def test_row_level_security_is_only_taken_away_on_purpose(deployment: Deployment) -> None:
    """A process that lacks the setting opens nothing; `db migrate` says what it changed."""
    source = '[source]\nurl = "inbox"\n'
    deployment.write("pumps.md", "# Pumps\n\n" + paragraphs(1, 3))
    deployment.configure(source + '[readers]\ntenant_key = "tenant"\n')
    deployment.command("run")
    protected = (
        "SELECT relname FROM pg_class WHERE relrowsecurity AND relname IN ('index_1', 'publications') ORDER BY 1"
    )
    assert [row["relname"] for row in deployment.query(protected)] == ["index_1", "publications"]
    deployment.configure(source)
    deployment.command("status")
    assert len(deployment.query(protected)) == 2
    deployment.configure(source + '[readers]\ntenant_key = "customer"\n')
    assert "ingest-assets db migrate" in deployment.json("status", code=2)["error"]
    assert "their customer only" in deployment.command("db", "migrate")
    deployment.command("status")
    deployment.configure(source)
    assert "see all passages" in deployment.command("db", "migrate")
    assert deployment.query(protected) == []


def test_a_key_in_force_is_kept_or_changed_in_one_step(database: Database) -> None:
    """Asking for the same again changes nothing, and another one is refused until it is meant."""
    protect_tenants(database, None)
    assert tenant_key(database) is None
    protect_tenants(database, "tenant")
    protect_tenants(database, None)
    with pytest.raises(SettingsError, match="separated by tenant"):
        protect_tenants(database, "customer")
    assert not set_tenant_key(database, "tenant")
    with database.connection() as connection:
        connection.execute("CREATE TABLE serving.index_9 (metadata jsonb)")
        protect_tenants(database, None)
        protected = connection.execute("SELECT relrowsecurity FROM pg_class WHERE relname = 'index_9'").fetchone()
    assert protected == {"relrowsecurity": True}
    assert set_tenant_key(database, "customer")
    assert tenant_key(database) == "customer"


def test_tls_settings_of_the_url_are_obeyed(deployment: Deployment, tmp_path: Path) -> None:
    """The server's certificate is verified for both databases, and a wrong one lets nothing through."""
    names = [conninfo_to_dict(url) for url in (deployment.database_url, deployment.dagster_url)]
    ours, other = write_certificate(tmp_path, "localhost"), write_certificate(tmp_path, "elsewhere")
    deployment.write("pumps.md", "# Pumps\n\n" + paragraphs(1, 3))

    def use(host: str, authority: Path) -> None:
        deployment.database_url, deployment.dagster_url = (
            f"postgresql://postgres@{host}:{server.port}/{name['dbname']}?sslmode=verify-full&sslrootcert={authority}"
            for name in names
        )

    with TlsPostgres(ours, f"{names[0]['host']}/.s.PGSQL.5432") as server:
        use("localhost", other)
        assert "certificate verify failed" in deployment.json("run", code=2)["error"]
        use("127.0.0.1", ours)
        assert "does not match host name" in deployment.json("run", code=2)["error"]
        assert server.encrypted == 0
        use("localhost", ours)
        deployment.command("run")
        assert server.encrypted > 0
        assert deployment.json("status")["documents"]["complete"] == 1


def test_the_metadata_of_an_object_decides_whose_it_is(
    deployment: Deployment, moto_server: str, s3: Any, bucket: str, aws_environment: None
) -> None:
    """From the bucket to the reader; an object that is given to another tenant is taken from the first."""
    deployment.configure(
        f'[source]\nurl = "s3://{bucket}/"\nendpoint_url = "{moto_server}"\n[readers]\ntenant_key = "tenant"\n'
    )
    for tenant in ("north", "south"):
        body = f"# {tenant}\n\nThe pumps of {tenant} are on the lower shelf.\n"
        s3.put_object(Bucket=bucket, Key=f"{tenant}.md", Body=body.encode(), Metadata={"tenant": tenant})
    deployment.command("run")
    deployment.query(f"INSERT INTO serving.tenant_readers VALUES ('{NORTH}', 'north')")
    with Database.connect(deployment.database_url) as database, application(database, NORTH) as reader:
        assert {row["document"] for row in asked(reader, query_text="pumps")} == {"north.md"}
        given_away = s3.get_object(Bucket=bucket, Key="north.md")["Body"].read()
        s3.put_object(Bucket=bucket, Key="north.md", Body=given_away, Metadata={"tenant": "south"})
        deployment.command("run")
        assert asked(reader, query_text="pumps") == []
    assert len(deployment.json("search", "pumps", "--mode", "keyword")) == 2
