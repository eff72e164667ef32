"""Scenario D07 of the public reports: a database that cancels, is full, or has no connection or memory left.

Trouble is made by the server itself: its own limits where a test can set them, else a trigger that raises the same
SQLSTATE. In all of it no document and no text is given up on, and the next run goes on where the last one stopped.
"""

import threading
import uuid

import psycopg
import pytest
from psycopg.rows import DictRow

from ingest_assets.database import Database
from ingest_assets.errors import DatabaseUnavailable
from ingest_assets_tests.embedding_queue import Queue, raise_on_insert, texts
from ingest_assets_tests.embedding_server import EmbeddingServer
from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.texts import paragraphs

WHOLE = {"vectors": 36, "publications": 3, "letters": 0}


@pytest.fixture
def queue(database: Database, embedding_server: EmbeddingServer) -> Queue:
    """Three documents that share twelve texts."""
    queue = Queue(database, embedding_server)
    for key in ("a.md", "b.md", "c.md"):
        queue.add(key, texts(12))
    queue.declare()
    return queue


def counted(queue: Queue) -> dict[str, int]:
    """Return what runs left: vectors, publications and dead letters."""
    return queue.query(
        "SELECT (SELECT count(*) FROM ingest.chunk_vectors) AS vectors,"
        " (SELECT count(*) FROM serving.publications) AS publications,"
        " (SELECT count(*) FROM ingest.dead_letters) AS letters"
    )[0]


@pytest.mark.parametrize(
    ("sqlstate", "told"),
    [
        ("57014", "raise statement_timeout"),
        ("53100", "is full"),
        ("53200", "no memory left"),
        ("25006", "read-only standby"),
        ("40P01", "run again"),
    ],
)
def test_trouble_while_vectors_are_written_stops_the_run_and_costs_nothing(
    queue: Queue, sqlstate: str, told: str
) -> None:
    """Cancelled, full, out of memory, read-only, or in the way for ever: the run says so, and is run again."""
    raise_on_insert(queue.query, "ingest.chunk_vectors", sqlstate)
    with pytest.raises(DatabaseUnavailable, match=told):
        queue.run()
    assert counted(queue)["letters"] == 0
    queue.query("DROP FUNCTION trouble CASCADE")
    queue.run()
    assert counted(queue) == WHOLE


def test_a_serialization_failure_is_invisible(queue: Queue) -> None:
    """The transaction is run again; nothing is sent again."""
    raise_on_insert(queue.query, "ingest.chunk_vectors", "40001", times=3)
    queue.run()
    assert counted(queue) == WHOLE
    assert len(queue.server.texts) == 12


def test_a_batch_that_takes_too_long_to_write_is_written_in_parts(queue: Queue) -> None:
    """What is paid for is kept, although the server cancels statements over so many rows."""
    queue.query(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " IF (SELECT count(*) FROM written) > 9 THEN RAISE EXCEPTION 'too slow' USING ERRCODE = '57014'; END IF;"
        " RETURN NULL; END $$"
    )
    queue.query(
        "CREATE TRIGGER slow AFTER INSERT ON ingest.chunk_vectors REFERENCING NEW TABLE AS written"
        " FOR EACH STATEMENT EXECUTE FUNCTION slow()"
    )
    queue.run()
    assert counted(queue) == WHOLE
    assert len(queue.server.texts) == 12


def test_trouble_while_chunks_are_written_is_no_fault_of_the_document(deployment: Deployment) -> None:
    """A lost privilege costs no good document, however often it is tried."""
    deployment.write("a.md", paragraphs(1, 6))
    raise_on_insert(deployment.query, "ingest.chunks", "42501")
    deployment.command("run", code=2)
    deployment.query("UPDATE ingest.documents SET attempts = 100, retry_after = NULL")
    deployment.command("run", code=2)
    assert deployment.json("status")["dead_letters"]["open"] == 0
    deployment.query("DROP FUNCTION trouble CASCADE")
    deployment.command("run")
    assert deployment.json("status")["documents"]["complete"] == 1


def test_a_real_statement_timeout_is_said(deployment: Deployment) -> None:
    """The whole command line against a server that cancels what takes long."""
    deployment.write("a.md", paragraphs(1, 6))
    deployment.query(
        "CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_sleep(60); RETURN NULL; END $$"
    )
    deployment.query("CREATE TRIGGER linger AFTER INSERT ON ingest.chunks EXECUTE FUNCTION linger()")
    patient = deployment.database_url
    deployment.database_url = f"{patient}&options=-cstatement_timeout%3D2s"
    result = deployment.json("run", code=2)
    deployment.database_url = patient
    assert "raise statement_timeout" in result["failed_runs"][0]["message"]
    assert deployment.json("status")["dead_letters"]["open"] == 0


def test_too_few_connections_are_said(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """A role with few connections does the work; with none left, the reason is told and nothing is given up."""
    monkeypatch.setattr("ingest_assets.database.CONNECT_SECONDS", 1.0)
    deployment.write("a.md", paragraphs(1, 6))
    role, owner = f"few_{uuid.uuid4().hex[:8]}", deployment.database_url
    deployment.query(f"CREATE ROLE {role} LOGIN INHERIT CONNECTION LIMIT 4; GRANT postgres TO {role}")
    try:
        deployment.database_url = owner.replace("postgres@", f"{role}@")
        with psycopg.connect(owner, autocommit=True) as connection:
            connection.execute(f"ALTER ROLE {role} CONNECTION LIMIT 0".encode())
            assert "no connection left" in deployment.json("run", code=2)["error"]
            connection.execute(f"ALTER ROLE {role} CONNECTION LIMIT 4".encode())
        deployment.command("run")
    finally:
        deployment.database_url = owner
        deployment.query(f"REASSIGN OWNED BY {role} TO postgres; DROP ROLE {role}")
    assert deployment.json("status")["documents"]["complete"] == 1


def test_a_short_lack_of_connections_is_waited_for(database_url: str) -> None:
    """Others end their work, and this process begins its own."""
    role = f"few_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN INHERIT CONNECTION LIMIT 0; GRANT postgres TO {role}".encode())

        def leave() -> None:
            connection.execute(f"ALTER ROLE {role} CONNECTION LIMIT 4".encode())

        leaving = threading.Timer(0.5, leave)
        leaving.start()
        with Database.connect(database_url.replace("postgres@", f"{role}@")) as database:
            assert database.transact(lambda opened: opened.execute(b"SELECT current_user AS name").fetchone()) == {
                "name": role
            }
        leaving.join()
        connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


def test_an_index_that_cannot_be_built_leaves_the_data_searchable(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Search is exact without it; the run's log says what the server lacks, and a later run builds it."""
    deployment.write("a.md", paragraphs(1, 6))
    deployment.command("run")
    monkeypatch.setattr("ingest_assets.models.ANN_INDEX_ROWS", 1)
    deployment.query(
        "CREATE FUNCTION trouble() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION"
        " 'could not resize shared memory segment \"/PostgreSQL.1\" to 536870912 bytes: No space left on device'"
        " USING ERRCODE = '53100'; END $$"
    )
    deployment.query(
        "CREATE EVENT TRIGGER trouble ON ddl_command_start WHEN TAG IN ('CREATE INDEX') EXECUTE FUNCTION trouble()"
    )
    deployment.write("b.md", paragraphs(2, 6))
    deployment.command("run")
    assert "b.md" in {hit["document"] for hit in deployment.json("search", "chlorine of the reservoir", "-k", "50")}
    with psycopg.connect(deployment.dagster_url) as connection:
        logged = connection.execute("SELECT event FROM event_logs WHERE event LIKE '%HNSW%'").fetchall()
    assert any("shared memory" in event and "maintenance_work_mem" in event for (event,) in logged), logged
    deployment.query("DROP EVENT TRIGGER trouble")
    deployment.write("c.md", paragraphs(3, 6))
    deployment.command("run")
    assert deployment.query("SELECT 1 FROM pg_indexes WHERE indexdef LIKE '%hnsw%'")


def test_a_transaction_whose_process_is_stopped_is_undone_and_others_go_on(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows would be locked for as long as it stays stopped; it is told when it wakes up."""
    monkeypatch.setattr("ingest_assets.database.IDLE_TRANSACTION_SECONDS", 0.2)
    insert = b"INSERT INTO ingest.embedding_claims VALUES ('v1', 'a text', %s, now())"

    def work(connection: psycopg.Connection[DictRow]) -> None:
        connection.execute(insert, ["stopped"])
        with psycopg.connect(database_url, autocommit=True) as other:
            other.execute(insert, ["another"])  # waits until the server has undone ours
        connection.execute(b"SELECT 1")

    with (
        Database.connect(database_url) as database,
        pytest.raises(DatabaseUnavailable, match="stopped in the middle of a transaction"),
    ):
        database.transact(work)
    with psycopg.connect(database_url) as connection:
        assert connection.execute(b"SELECT run_id FROM ingest.embedding_claims").fetchall() == [("another",)]
