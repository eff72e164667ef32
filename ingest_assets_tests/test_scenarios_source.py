"""Scenarios of sources that went wrong elsewhere (B04, B05, B07, B08), each through listing, reading and deleting.

What does not belong here: the messages of these scenarios as hints, and the source alone (test_source.py).
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ingest_assets.database import Database
from ingest_assets.errors import SourceUnavailable
from ingest_assets.identity import MAX_PARTITION_KEY_BYTES
from ingest_assets_tests.fixtures_s3 import FailingStore, Reply, make_client
from ingest_assets_tests.pipeline import Pipeline
from ingest_assets_tests.places import BucketPlace
from ingest_assets_tests.texts import paragraphs

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

SCENARIOS = Path(__file__).parent / "cases" / "scenarios"
DECISIONS = "SELECT source_key, status, etag FROM ingest.documents ORDER BY source_key"


def scenario(name: str) -> dict[str, Any]:
    """Read a scenario."""
    found: dict[str, Any] = json.loads((SCENARIOS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def records_of(name: str) -> list[dict[str, Any]]:
    """Return the records of a scenario's messages in the order they arrive."""
    return [
        record for message in scenario(name)["messages"] for record in json.loads(message["body"]).get("Records", [])
    ]


def query(database: Database, statement: str) -> list[dict[str, Any]]:
    """Look into the database."""
    with database.connection() as connection:
        return connection.execute(statement.encode()).fetchall()


def statuses(database: Database) -> dict[str, str]:
    """Return what was decided on each document."""
    return {row["source_key"]: row["status"] for row in query(database, DECISIONS)}


def served_keys(database: Database) -> set[str]:
    """Return the keys that readers see."""
    return {row["source_key"] for row in query(database, "SELECT source_key FROM serving.index_1")}


def test_b04_only_an_empty_key_with_a_final_slash_is_no_document(
    database: Database, s3: "S3Client", bucket: str
) -> None:
    """Each of the others is recorded with what became of it."""
    place = BucketPlace(s3, bucket, "")
    objects = {record["s3"]["object"]["key"]: record["s3"]["object"]["size"] for record in records_of("B04")}
    for key, size in objects.items():
        place.put(key, b"\x89PNG\r\n\x1a\n".ljust(size, b"\0") if size else b"")
    Pipeline(database, place.open()).run()
    assert statuses(database) == dict.fromkeys(objects.keys() - {"docs/"}, "rejected")
    letters = query(
        database, "SELECT source_key, reason FROM ingest.dead_letters JOIN ingest.documents USING (document_id)"
    )
    assert {row["source_key"]: row["reason"] for row in letters} == {
        "docs/report": "empty_document",
        "docs/.keep": "empty_document",
        "docs/notes/": "unsupported_type",
    }


def test_b05_the_state_of_the_object_decides_whatever_came_late_or_twice(
    database: Database, s3: "S3Client", bucket: str
) -> None:
    """A delete marker before its create, a delete of an old version, a duplicate: and passes do not care."""
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    place = BucketPlace(s3, bucket, "")
    pipeline = Pipeline(database, place.open())
    for number, key in enumerate(("a.txt", "b.txt", "c.txt")):
        place.put(key, paragraphs(number, 1).encode())
    pipeline.run()
    assert served_keys(database) == {"a.txt", "b.txt", "c.txt"}
    # What happened, in its true order; the scenario's messages tell it in another.
    place.put("a.txt", paragraphs(10, 1).encode())
    place.remove("a.txt")
    place.remove("b.txt")
    place.put("b.txt", paragraphs(11, 1).encode())
    place.put("c.txt", paragraphs(12, 1).encode())
    place.forget("c.txt")
    expected = {key: state.split()[0] for key, state in scenario("B05")["final_state"].items()}
    for _ in range(2):
        pipeline.run()
        present = {key for key, status in statuses(database).items() if status != "deleted"}
        assert {key: "present" if key in present else "absent" for key in expected} == expected
    assert served_keys(database) == {"b.txt", "c.txt"}
    texts = query(database, "SELECT source_key, text FROM ingest.documents WHERE status = 'accepted' ORDER BY 1")
    assert [row["text"] for row in texts] == [paragraphs(number, 1).strip() for number in (11, 12)]


def test_b07_odd_keys_go_the_whole_way_and_stay_apart(database: Database, s3: "S3Client", bucket: str) -> None:
    """Control characters, 1,024 bytes, two spellings of one letter: each is a document with a partition of its own."""
    place = BucketPlace(s3, bucket, "")
    keys = scenario("B07")["keys"]
    for number, key in enumerate(keys):
        place.put(key, f"Document {number}. {paragraphs(number, 1)}".encode())
    pipeline = Pipeline(database, place.open())
    pipeline.run()
    rows = query(database, "SELECT source_key, partition_key, status, text FROM ingest.documents")
    texts = {row["source_key"]: row["text"].partition(".")[0] for row in rows}
    assert texts == {key: f"Document {number}" for number, key in enumerate(keys)}
    assert {row["status"] for row in rows} == {"accepted"}
    partitions = {row["partition_key"] for row in rows}
    assert len(partitions) == len(keys)
    assert all(len(key) <= MAX_PARTITION_KEY_BYTES and key.isascii() and key.isprintable() for key in partitions)
    assert served_keys(database) == set(keys)
    for key in keys:
        place.remove(key)
    pipeline.discover(approved=True)
    assert {item.result for item in pipeline.delete()} == {"deleted"}
    assert served_keys(database) == set()


def reply_of(read: dict[str, Any]) -> Reply:
    """Return the store's answer to a GET of a B08 scenario."""
    get = read["get"]
    if "error" in get:
        return Reply(get["status"], code=get["error"], message=get.get("message", "scripted"))
    whole = paragraphs(7, 1).encode()
    if "body" in get:
        return Reply(body=whole[:50], promised_bytes=len(whole))
    return Reply(body=whole, etag="another")


B08 = [pytest.param(read, id=str(next(iter(read["get"].values())))[:20]) for read in scenario("B08")["reads"]]


@pytest.mark.parametrize("read", B08)
def test_b08_a_read_that_fails_costs_neither_the_index_nor_another_document(
    database: Database, failing_store: FailingStore, read: dict[str, Any]
) -> None:
    """What was served stays served, a part is never taken for the whole, and what came with it is read."""
    client = make_client(failing_store.endpoint_url, max_attempts=2)
    pipeline = Pipeline(database, BucketPlace(client, "docs", "").open())
    failing_store.objects["a.txt"] = paragraphs(1, 1).encode()
    pipeline.run()
    before = query(database, "SELECT source_key, text FROM serving.index_1")
    failing_store.objects["a.txt"] = paragraphs(2, 1).encode()
    pipeline.discover()
    failing_store.replies.append(reply_of(read))
    error = read["get"].get("error")
    if error == "NoSuchBucket":
        with pytest.raises(SourceUnavailable):
            pipeline.ingest()
        assert (pipeline.delete(), pipeline.pending()) == ([], ["a.txt"])
    else:
        [outcome] = pipeline.ingest()
        expected = {"NoSuchKey": ("missing", "not_found"), "AccessDenied": ("postponed", "access_denied")}
        assert (outcome.result, outcome.reason) == expected.get(error, ("accepted", None))
    assert query(database, "SELECT source_key, text FROM serving.index_1") == before
    known = query(database, DECISIONS)[0]
    if "etag_changed_between_head_and_get" in read["get"]:
        assert known["etag"] == "another"
    elif error == "AccessDenied":
        assert known["status"] == "accepted"
        assert query(database, "SELECT reason FROM ingest.dead_letters") == []
