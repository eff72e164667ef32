"""Objects that cannot be read: each failure has a reason, is tried three times, is shown, and heals by itself."""

from collections import Counter
from typing import Any

import pytest

from ingest_assets.database import Database
from ingest_assets.errors import SourceUnavailable
from ingest_assets.letters import open_letters
from ingest_assets.settings import ExtractSettings, SourceSettings
from ingest_assets.source import open_source
from ingest_assets.status import document_status, totals
from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.fixtures_s3 import FailingStore, Reply, make_client
from ingest_assets_tests.pipeline import Pipeline
from ingest_assets_tests.texts import paragraphs

KMS = "User is not authorized to perform: kms:Decrypt on this resource"
DENIED = Reply(403, code="AccessDenied")
FAULTS = {
    "denied.txt": (DENIED, "access_denied"),
    "kms-denied.txt": (Reply(403, code="AccessDenied", message=KMS), "access_denied"),
    "kms-disabled.txt": (Reply(400, code="KMS.DisabledException"), "access_denied"),
    "archived.txt": (Reply(403, code="InvalidObjectState"), "archived"),
    "short.txt": (Reply(body=b"half of", promised_bytes=100), "timeout"),
    "failing.txt": (Reply(500, code="InternalError"), "timeout"),
}
REASONS = {key: reason for key, (_, reason) in FAULTS.items()}


@pytest.fixture
def pipeline(database: Database, failing_store: FailingStore) -> Pipeline:
    """A bucket with one document, and the steps over it."""
    failing_store.objects["a.txt"] = paragraphs(1, 1).encode()
    return open_pipeline(database, failing_store)


def open_pipeline(database: Database, store: FailingStore) -> Pipeline:
    """Open the bucket `docs` of a store."""
    client = make_client(store.endpoint_url, max_attempts=1)
    return Pipeline(database, open_source(SourceSettings(url="s3://docs/"), s3_client=client))


def let_time_pass(database: Database) -> None:
    """Let every wait for another attempt be over."""
    with database.connection() as connection:
        connection.execute("UPDATE ingest.documents SET retry_after = now() WHERE retry_after IS NOT NULL")


def waits(database: Database) -> set[float]:
    """Return how many seconds documents wait for their next attempt, to the minute."""
    with database.connection() as connection:
        found = connection.execute(
            "SELECT extract(epoch FROM retry_after - now()) AS seconds FROM ingest.documents"
            " WHERE retry_after IS NOT NULL"
        ).fetchall()
    return {round(float(item["seconds"]) / 60) * 60.0 for item in found}


def test_objects_that_cannot_be_read_are_tried_three_times_then_given_up_and_heal(
    pipeline: Pipeline, failing_store: FailingStore
) -> None:
    """Reasons are shown from the first attempt on, the waits grow, and nobody has to tell when it is mended."""
    database = pipeline.database
    failing_store.objects = {key: key.encode() for key in FAULTS}
    failing_store.faults = {key: fault for key, (fault, _) in FAULTS.items()}
    pipeline.discover()
    for attempt in (1, 2):
        assert results(pipeline) == dict.fromkeys(FAULTS, "postponed")
        assert pipeline.ingest() == []
        status = {key: document_status(database, key) for key in FAULTS}
        assert {key: found["reason"] for key, found in status.items()} == REASONS
        details = {key: found["unreadable"]["detail"] for key, found in status.items()}
        assert {key for key, detail in details.items() if "KMS key" in detail} == {"kms-denied.txt", "kms-disabled.txt"}
        assert {(found["status"], found["unreadable"]["attempts"]) for found in status.values()} == {
            ("pending", attempt)
        }
        assert totals(database)["source"]["unreadable"] == Counter(REASONS.values())
        assert waits(database) == {60.0 * 2 ** (attempt - 1)}
        assert open_letters(database) == []
        let_time_pass(database)
    assert results(pipeline) == dict.fromkeys(FAULTS, "rejected")
    assert {item["source_key"]: item["reason"] for item in open_letters(database)} == REASONS
    assert {(item["stage"], item["attempts"]) for item in open_letters(database)} == {("fetch", 3)}
    assert waits(database) == {pipeline.settings.source.recheck_hours * 3600.0}

    pipeline.discover()
    assert pipeline.ingest() == []
    let_time_pass(database)
    assert results(pipeline) == dict.fromkeys(FAULTS, "rejected")
    assert {item["attempts"] for item in open_letters(database)} == {4}
    failing_store.faults.clear()
    let_time_pass(database)
    assert results(pipeline) == dict.fromkeys(FAULTS, "accepted")
    assert (open_letters(database), waits(database)) == ([], set())
    assert totals(database)["source"]["unreadable"] == {}


def results(pipeline: Pipeline) -> dict[str, str]:
    """Ingest what is pending; returns what became of each document."""
    return {item.source_key: item.result for item in pipeline.ingest()}


def test_what_was_indexed_stays_while_its_new_state_cannot_be_read(
    pipeline: Pipeline, failing_store: FailingStore
) -> None:
    """A changed policy takes no answer from readers."""
    pipeline.run()
    before = served(pipeline.database)
    assert before
    failing_store.objects["a.txt"] = paragraphs(2, 1).encode()
    failing_store.faults["a.txt"] = DENIED
    for _ in range(3):
        pipeline.run()
        let_time_pass(pipeline.database)
    assert document_status(pipeline.database, "a.txt")["status"] == "rejected"
    assert served(pipeline.database) == before
    del failing_store.faults["a.txt"]
    pipeline.run()
    assert document_status(pipeline.database, "a.txt")["status"] == "complete"
    assert not set(served(pipeline.database)) & set(before)


def served(database: Database) -> list[str]:
    """Return the texts that readers see."""
    with database.connection() as connection:
        return [item["text"] for item in connection.execute("SELECT text FROM serving.index_1 ORDER BY 1").fetchall()]


def test_another_upload_starts_with_attempts_of_its_own(pipeline: Pipeline, failing_store: FailingStore) -> None:
    """Two failures of an old state are not held against a new one, which is tried at once."""
    failing_store.faults["a.txt"] = DENIED
    pipeline.discover()
    for _ in range(2):
        pipeline.ingest()
        let_time_pass(pipeline.database)
    failing_store.objects["a.txt"] = b"Another text at the same key."
    pipeline.discover()
    assert [item.result for item in pipeline.ingest()] == ["postponed"]
    assert document_status(pipeline.database, "a.txt")["unreadable"]["attempts"] == 1


def test_an_object_that_vanishes_between_listing_and_read_becomes_a_deletion(
    pipeline: Pipeline, failing_store: FailingStore
) -> None:
    """It is no failure: nothing is retried, nothing is given up, and the next listing confirms that it is gone."""
    pipeline.run()
    failing_store.objects["a.txt"] = paragraphs(2, 1).encode()
    pipeline.discover()
    del failing_store.objects["a.txt"]
    assert [item.result for item in pipeline.ingest()] == ["missing"]
    assert pipeline.ingest() == []
    assert pipeline.delete() == []
    pipeline.discover()
    assert [item.result for item in pipeline.delete()] == ["deleted"]
    assert open_letters(pipeline.database) == []
    assert served(pipeline.database) == []


def test_a_deletion_that_cannot_be_confirmed_is_asked_for_later(
    pipeline: Pipeline, failing_store: FailingStore
) -> None:
    """A HEAD that is refused says nothing: the document stays, its reason is shown, and no tick asks again at once."""
    pipeline.run()
    [data] = failing_store.objects.values()
    failing_store.objects.clear()
    failing_store.faults["a.txt"] = DENIED
    pipeline.discover()
    assert [item.result for item in pipeline.delete()] == ["unreadable"]
    assert pipeline.delete() == []
    assert document_status(pipeline.database, "a.txt")["reason"] == "access_denied"
    assert served(pipeline.database)
    let_time_pass(pipeline.database)
    failing_store.faults.clear()
    failing_store.objects["a.txt"] = data
    assert [item.result for item in pipeline.delete()] == ["present"]
    assert totals(pipeline.database)["source"]["unreadable"] == {}
    assert document_status(pipeline.database, "a.txt")["status"] == "complete"


def test_a_bucket_that_goes_away_while_it_is_read_deletes_and_rejects_nothing(
    pipeline: Pipeline, failing_store: FailingStore
) -> None:
    """That is nobody's document: the run stops with what to do, and no attempt is counted."""
    pipeline.discover()
    failing_store.faults["a.txt"] = Reply(404, code="NoSuchBucket")
    with pytest.raises(SourceUnavailable, match="does not exist"):
        pipeline.ingest()
    status = document_status(pipeline.database, "a.txt")
    assert (status["status"], status["unreadable"]) == ("pending", None)
    assert pipeline.pending() == ["a.txt"]


def test_a_document_over_the_limit_is_given_up_at_once(pipeline: Pipeline, failing_store: FailingStore) -> None:
    """Only a new object or another setting mends it, so it is not tried again."""
    limits = ExtractSettings(max_bytes=10, max_text_bytes=10, min_characters=1)
    pipeline.settings = pipeline.settings.model_copy(update={"extract": limits})
    pipeline.discover()
    assert [(item.result, item.reason) for item in pipeline.ingest()] == [("rejected", "too_large")]
    assert waits(pipeline.database) == set()
    failing_store.objects["a.txt"] = b"short"
    pipeline.discover()
    assert [item.result for item in pipeline.ingest()] == ["accepted"]
    assert open_letters(pipeline.database) == []


def test_run_and_status_say_what_could_not_be_read_and_when_it_is_tried_again(
    deployment: Deployment, moto_server: str, s3: Any, bucket: str, aws_environment: None
) -> None:
    """An archived object keeps the exit code from 0, and recovers when it is restored."""
    deployment.configure(f'[source]\nurl = "s3://{bucket}/"\nendpoint_url = "{moto_server}"\n')
    s3.put_object(Bucket=bucket, Key="cold.txt", Body=paragraphs(1, 2).encode(), StorageClass="GLACIER")
    result = deployment.json("run", code=1)
    assert result["totals"]["source"]["unreadable"] == {"archived": 1}
    assert all(check["passed"] for check in result["checks"])
    status = deployment.json("status", "cold.txt")
    assert (status["status"], status["reason"]) == ("pending", "archived")
    assert "restore" in status["unreadable"]["detail"]
    s3.restore_object(Bucket=bucket, Key="cold.txt", RestoreRequest={"Days": 1})
    deployment.query("UPDATE ingest.documents SET retry_after = now()")
    deployment.command("run")
    assert deployment.json("status", "cold.txt")["status"] == "complete"
