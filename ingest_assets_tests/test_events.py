"""Change events over a real queue: every shape, bad messages, and a process that dies between two steps.

What does not belong here: listings (test_discovery.py, test_listing.py) and random histories (test_histories.py).
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest_assets.database import Database
from ingest_assets.defs.instance import open_instance
from ingest_assets.defs.queue_sensor import describe, queue_sensor
from ingest_assets.defs.resources import PlatformResource, close_process_platform, process_platform
from ingest_assets.defs.sensors import source_sensor
from ingest_assets.errors import SettingsError, SourceUnavailable
from ingest_assets.hints import Received, receive_hints, resolve_hints, set_aside_messages
from ingest_assets.settings import SourceSettings, load_settings
from ingest_assets.source.events import MessageFault, ObjectEvent, read_message
from ingest_assets.source.queue import QueueMessage, open_queue
from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.fixtures_s3 import DyingQueue, FailingStore, Reply, TestQueue, make_client, notification
from ingest_assets_tests.pipeline import Pipeline
from ingest_assets_tests.places import BucketPlace
from ingest_assets_tests.texts import paragraphs

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

SCENARIOS = Path(__file__).parent / "cases" / "scenarios"


def scenario(name: str) -> dict[str, Any]:
    """Read a scenario."""
    found: dict[str, Any] = json.loads((SCENARIOS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def bridged(key: str, bucket: str = "docs-in") -> str:
    """Return what EventBridge sends for a key."""
    detail = {"bucket": {"name": bucket}, "object": {"key": key}}
    return json.dumps({"version": "0", "source": "aws.s3", "detail-type": "Object Created", "detail": detail})


def wrapped(body: str) -> str:
    """Return a message as SNS delivers it where raw delivery is off."""
    return json.dumps({"Type": "Notification", "MessageId": "m", "TopicArn": "arn:aws:sns:x", "Message": body})


def keys_of(body: str) -> list[str]:
    """Return the keys that a message without a fault speaks of."""
    content = read_message(body)
    assert content.fault is None
    return [event.key for event in content.events]


def receive(database: Database, place: BucketPlace, queue: TestQueue) -> Received:
    """Take what is in the queue."""
    opened = open_queue(SourceSettings(url="s3://docs/", queue_url=queue.url))
    assert opened is not None
    return receive_hints(database, place.open(), opened, wait_seconds=0, seconds=60)


def hints(database: Database) -> list[str]:
    """Return uris that wait to be looked at."""
    with database.connection() as connection:
        found = connection.execute("SELECT source_uri FROM ingest.source_hints ORDER BY 1").fetchall()
    return [row["source_uri"] for row in found]


def known(database: Database) -> dict[str, str]:
    """Return what is known of each document: its status, or that it is missing."""
    with database.connection() as connection:
        found = connection.execute("SELECT source_key, status, missing_since FROM ingest.documents").fetchall()
    return {
        row["source_key"]: "missing" if row["missing_since"] and row["status"] != "deleted" else row["status"]
        for row in found
    }


def test_b01_every_key_is_decoded_exactly_once_where_its_shape_encodes_it() -> None:
    """Notifications of S3 and MinIO are forms, EventBridge is not, whoever wraps them."""
    bodies = [message["body"] for message in scenario("B01")["messages"]]
    expected = scenario("B01")["expected_keys"]
    for wrap in (str, wrapped):
        assert [key for body in bodies for key in keys_of(wrap(body))] == expected


def test_b01_the_messages_become_documents_under_these_keys(
    database: Database, s3: "S3Client", bucket: str, queue: TestQueue
) -> None:
    """Through the queue, the bucket's current state, and the documents: without any listing."""
    place = BucketPlace(s3, bucket, "")
    expected = set(scenario("B01")["expected_keys"])
    stored = {key for key in expected if "\n" not in key}  # the test server has no url for the others
    for key in stored:
        place.put(key, b"text")
    queue.send(*(message["body"].replace("docs-in", bucket) for message in scenario("B01")["messages"]))
    received = receive(database, place, queue)
    assert (received.messages, received.elsewhere, queue.waiting()) == (21, 0, 0)
    assert hints(database) == sorted(f"s3://{bucket}/{key}" for key in expected)
    assert resolve_hints(database, place.open(), 60) == len(expected)
    assert set(known(database)) == stored


def test_b02_a_bad_message_is_set_aside_alone(
    database: Database, s3: "S3Client", bucket: str, queue: TestQueue
) -> None:
    """The test event is nobody's business, the real one is kept, and the others say why they are not understood."""
    bodies = [message["body"].replace("docs-in", bucket) for message in scenario("B02")["messages"]]
    queue.send(*bodies)
    received = receive(database, BucketPlace(s3, bucket, ""), queue)
    assert hints(database) == [f"s3://{bucket}/real.txt"]
    assert len(received.set_aside) == scenario("B02")["expected"].count("dead_letter")
    kept = {row["body"]: row["reason"] for row in set_aside_messages(database)}
    assert kept == {"not json": "not_json", "{}": "unknown_shape", "[1,2]": "unknown_shape"}
    assert queue.waiting() == 0


def test_a_message_that_postgres_could_not_hold_holds_up_no_other(
    database: Database, s3: "S3Client", bucket: str, queue: TestQueue
) -> None:
    """Half of a surrogate pair and a NUL, in names that the reason quotes."""
    queue.send(r'{"\ud800": 1, "\u0000": 2}', notification("a.txt", bucket=bucket))
    received = receive(database, BucketPlace(s3, bucket, ""), queue)
    assert (len(received.set_aside), queue.waiting()) == (1, 0)
    assert hints(database) == [f"s3://{bucket}/a.txt"]
    [kept] = set_aside_messages(database)
    assert kept["detail"].endswith(r"an object with \x00, \ud800")


def test_several_records_of_one_message_stand_for_themselves() -> None:
    """One that cannot be read is the message's fault, and the others are still events."""
    content = read_message(notification("a.txt", "bad%FFkey.txt", "b+c.txt"))
    assert content.events == [ObjectEvent("docs-in", "a.txt"), ObjectEvent("docs-in", "b c.txt")]
    assert content.fault is MessageFault.BAD_KEY


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('{"Records": []}', MessageFault.UNKNOWN_SHAPE),
        ('{"Records": [{"s3": null}]}', MessageFault.UNKNOWN_SHAPE),
        ('{"Records": ["x"]}', MessageFault.UNKNOWN_SHAPE),
        ('{"Records": [{"s3": {"bucket": "b", "object": {"key": "k"}}}]}', MessageFault.UNKNOWN_SHAPE),
        (notification(""), MessageFault.BAD_KEY),
        (notification("k" * 1025), MessageFault.BAD_KEY),
        (bridged("\ud800"), MessageFault.BAD_KEY),
        ('{"detail-type": "x", "detail": {"bucket": {"name": 1}, "object": {"key": "k"}}}', MessageFault.UNKNOWN_SHAPE),
        (wrapped("not json"), MessageFault.NOT_JSON),
        (wrapped(wrapped(notification("a"))), MessageFault.UNKNOWN_SHAPE),
        ('{"Type": "SubscriptionConfirmation", "SubscribeURL": "https://sns"}', MessageFault.UNKNOWN_SHAPE),
        ("[" * 100_000, MessageFault.NOT_JSON),
        ("", MessageFault.NOT_JSON),
        ("NaN", MessageFault.UNKNOWN_SHAPE),
    ],
    ids=range(14),
)
def test_what_cannot_be_read_says_why(body: str, fault: MessageFault) -> None:
    """Each has a reason of the closed list and a sentence."""
    content = read_message(body)
    assert (content.events, content.fault) == ([], fault)
    assert content.detail


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["Records", "s3", "bucket", "name", "object", "key", "detail", "detail-type", "Type"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_nothing_that_a_message_holds_raises(message: Any) -> None:
    """Whatever its shape: events, a fault, or both."""
    content = read_message(json.dumps(message))
    assert content.events or content.fault


def test_events_of_other_buckets_and_folders_are_counted_and_dropped(
    database: Database, s3: "S3Client", bucket: str, queue: TestQueue
) -> None:
    """A queue may be shared; a key that only begins like the folder is another folder's."""
    place = BucketPlace(s3, bucket, "in/")
    queue.send(
        notification("in/a.txt", "in/b.txt", "inner/a.txt", "out/a.txt", bucket=bucket),
        notification("in/a.txt", bucket="another"),
        bridged("in/b.txt", bucket),
    )
    received = receive(database, place, queue)
    assert hints(database) == [f"s3://{bucket}/in/a.txt", f"s3://{bucket}/in/b.txt"]
    assert received.elsewhere == 3
    assert "3 are of other buckets" in describe(received)


def test_a_message_is_deleted_only_after_its_hint_is_committed(
    database: Database, s3: "S3Client", bucket: str, queue: TestQueue
) -> None:
    """A process that dies before the deletion leaves the message, which then says the same again."""
    place = BucketPlace(s3, bucket, "")
    queue.send(notification("a.txt", bucket=bucket))
    with pytest.raises(KeyboardInterrupt):
        receive_hints(database, place.open(), DyingQueue(queue.url, queue.client), wait_seconds=0, seconds=60)
    assert (hints(database), queue.waiting()) == ([f"s3://{bucket}/a.txt"], 1)
    assert receive(database, place, queue).messages == 1
    assert (hints(database), queue.waiting()) == ([f"s3://{bucket}/a.txt"], 0)


def test_what_another_reader_holds_is_left_to_it(
    database: Database, s3: "S3Client", bucket: str, queue: TestQueue
) -> None:
    """Visibility is the queue's: a hidden message is neither received nor deleted here."""
    queue.hide_for(60)
    queue.send(notification("a.txt", bucket=bucket))
    queue.client.receive_message(QueueUrl=queue.url)
    assert receive(database, BucketPlace(s3, bucket, ""), queue).messages == 0
    assert queue.waiting() == 1


def test_a_hint_that_comes_again_while_it_is_answered_stays(
    database: Database, s3: "S3Client", bucket: str, queue: TestQueue
) -> None:
    """The state that was asked for may be older than the second event."""
    place = BucketPlace(s3, bucket, "")
    place.put("a.txt", b"text")
    source = place.open()

    class Slow:
        """A source during whose HEAD another event arrives."""

        url = source.url

        def head(self, key: str) -> object:
            """Answer, and let an event come."""
            found = source.head(key)
            queue.send(notification("a.txt", bucket=bucket))
            receive(database, place, queue)
            return found

    queue.send(notification("a.txt", bucket=bucket))
    receive(database, place, queue)
    resolve_hints(database, Slow(), 0.0001)  # type: ignore[arg-type]
    assert hints(database) == [f"s3://{bucket}/a.txt"]
    assert resolve_hints(database, source, 60) == 1
    assert hints(database) == []


def test_b05_whatever_order_events_come_in_the_bucket_decides(
    database: Database, s3: "S3Client", bucket: str, queue: TestQueue
) -> None:
    """Events alone say what may have changed; what is gone waits for the listing that judges it."""
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    place = BucketPlace(s3, bucket, "")
    pipeline = Pipeline(database, place.open())
    for number, key in enumerate(("a.txt", "b.txt", "c.txt")):
        place.put(key, paragraphs(number, 1).encode())
    pipeline.run()
    place.remove("a.txt")
    place.remove("b.txt")
    place.put("b.txt", paragraphs(11, 1).encode())
    place.put("c.txt", paragraphs(12, 1).encode())
    place.forget("c.txt")
    queue.send(*(message["body"].replace("docs-in", bucket) for message in scenario("B05")["messages"]))
    receive(database, place, queue)
    resolve_hints(database, place.open(), 60)
    assert known(database) == {"a.txt": "missing", "b.txt": "accepted", "c.txt": "accepted"}
    assert pipeline.pending() == ["b.txt", "c.txt"]
    assert pipeline.delete() == []
    pipeline.run()
    expected = {key: state.split()[0] for key, state in scenario("B05")["final_state"].items()}
    states = {key: "absent" if status == "deleted" else "present" for key, status in known(database).items()}
    assert states == expected


def test_a_mass_deletion_told_by_events_is_withheld_too(
    database: Database, s3: "S3Client", bucket: str, queue: TestQueue
) -> None:
    """Ten objects a message, or one a minute: what is gone is judged together."""
    place = BucketPlace(s3, bucket, "")
    keys = [f"{number}.txt" for number in range(15)]
    for key in keys:
        place.put(key, b"text of a document")
    pipeline = Pipeline(database, place.open())
    pipeline.run()
    for key in keys[:12]:
        place.remove(key)
        queue.send(notification(key, bucket=bucket, name="ObjectRemoved:Delete"))
        receive(database, place, queue)
        resolve_hints(database, place.open(), 60)
    assert list(known(database).values()).count("missing") == 12
    assert pipeline.discover().deletions_withheld == 12
    assert pipeline.delete() == []


def test_a_mass_rename_told_by_events_is_no_shrink(
    database: Database, s3: "S3Client", bucket: str, queue: TestQueue
) -> None:
    """The new names were known before the listing that misses the old ones; they count all the same, and once."""
    place = BucketPlace(s3, bucket, "")
    pipeline = Pipeline(database, place.open())
    for number in range(15):
        place.put(f"{number}.txt", f"text of document {number}".encode())
    pipeline.run()
    for number in range(15):
        place.put(f"new {number}.txt", f"text of document {number}".encode())
        queue.send(notification(f"new+{number}.txt", bucket=bucket))
    receive(database, place, queue)
    resolve_hints(database, place.open(), 60)
    for number in range(15):
        place.remove(f"{number}.txt")
    found = pipeline.discover()
    assert (found.missing, found.deletions_withheld) == (15, 0)
    for number in range(15):
        place.remove(f"new {number}.txt")
    assert pipeline.discover().deletions_withheld == 15


def test_a_restored_object_is_read_at_once(database: Database, failing_store: FailingStore) -> None:
    """Its state has not changed, so nothing but the event says that reading it may succeed now."""
    place = BucketPlace(make_client(failing_store.endpoint_url), "docs", "")
    pipeline = Pipeline(database, place.open())
    failing_store.objects["a.txt"] = b"text of a document"
    pipeline.discover()
    failing_store.replies.append(Reply(403, code="InvalidObjectState"))
    assert [outcome.result for outcome in pipeline.ingest()] != ["accepted"]
    assert pipeline.pending() == []

    class Told:
        """A queue with one message."""

        def __init__(self) -> None:
            self.messages = [QueueMessage("m", "r", bridged("a.txt", "docs"))]

        def receive(self, wait_seconds: int) -> list[QueueMessage]:  # noqa: ARG002 - of the protocol
            """Give it once."""
            given, self.messages = self.messages, []
            return given

        def delete(self, messages: Sequence[QueueMessage]) -> None:
            """It is gone already."""

    receive_hints(database, place.open(), Told(), wait_seconds=0, seconds=1)  # type: ignore[arg-type]
    resolve_hints(database, place.open(), 60)
    assert pipeline.pending() == ["a.txt"]


def test_a_listing_answers_hints_that_came_before_it(
    database: Database, s3: "S3Client", bucket: str, queue: TestQueue
) -> None:
    """After a long outage nobody asks for each of a hundred thousand keys by itself."""
    place = BucketPlace(s3, bucket, "")
    place.put("a.txt", b"text")
    queue.send(notification("a.txt", "gone.txt", bucket=bucket))
    receive(database, place, queue)
    Pipeline(database, place.open()).discover()
    assert hints(database) == []
    assert set(known(database)) == {"a.txt"}


def test_an_object_whose_state_is_hidden_is_left_to_the_listing(
    database: Database, failing_store: FailingStore, queue: TestQueue
) -> None:
    """A HEAD that is refused says neither that it is there nor that it is gone."""
    place = BucketPlace(make_client(failing_store.endpoint_url), "docs", "")
    failing_store.objects["a.txt"] = b"text"
    failing_store.faults["a.txt"] = Reply(403, code="AccessDenied")
    queue.send(notification("a.txt", bucket="docs"))
    receive(database, place, queue)
    resolve_hints(database, place.open(), 60)
    assert (hints(database), known(database)) == ([], {})
    Pipeline(database, place.open()).discover()
    assert set(known(database)) == {"a.txt"}


def test_a_queue_that_cannot_be_read_says_what_to_do(
    database: Database, s3: "S3Client", bucket: str, queue: TestQueue
) -> None:
    """The listing does not need it."""
    missing = open_queue(SourceSettings(url=f"s3://{bucket}/", queue_url=f"{queue.url}-of-nobody"))
    assert missing is not None
    with pytest.raises(SourceUnavailable, match=r"does not exist; correct source\.queue_url"):
        missing.receive(0)
    closed = open_queue(SourceSettings(url=f"s3://{bucket}/", queue_url="http://127.0.0.1:9/1/events"))
    assert closed is not None
    with pytest.raises(SourceUnavailable, match=r"check source\.queue_url and the network"):
        closed.receive(0)


@pytest.mark.parametrize(
    ("url", "queue_url", "message"),
    [
        ("./inbox", "https://sqs.eu-west-1.amazonaws.com/1/q", "events of a bucket"),
        ("s3://docs/", "arn:aws:sqs:eu-west-1:1:q", "no url of a queue"),
    ],
)
def test_a_queue_that_cannot_belong_to_the_source_is_refused(
    tmp_path: Path, url: str, queue_url: str, message: str
) -> None:
    """At start, with the name of the setting."""
    (tmp_path / "ingest.toml").write_text(f'[source]\nurl = "{url}"\nqueue_url = "{queue_url}"\n')
    with pytest.raises(SettingsError, match=message):
        load_settings(tmp_path / "ingest.toml")


@pytest.mark.parametrize(
    ("queue_url", "region"),
    [
        ("https://sqs.eu-north-1.amazonaws.com/1/q", "eu-north-1"),
        ("https://vpce-0a1b-x.sqs.eu-west-3.vpce.amazonaws.com/1/q", "eu-west-3"),
        ("https://sqs.cn-north-1.amazonaws.com.cn/1/q", "cn-north-1"),
        ("http://127.0.0.1:5000/1/q", "us-east-1"),
    ],
)
def test_requests_are_signed_for_the_region_of_the_queue(aws_environment: None, queue_url: str, region: str) -> None:
    """The bucket may be elsewhere; without one in the url the AWS chain decides."""
    opened = open_queue(SourceSettings(url="s3://docs/", queue_url=queue_url))
    assert opened is not None
    assert opened._client.meta.region_name == region


def test_messages_that_were_set_aside_are_shown_and_dropped(
    deployment: Deployment, s3: "S3Client", bucket: str, queue: TestQueue
) -> None:
    """`status` counts them, `messages` shows the reason and the message, and nothing else is held up."""
    queue.send("not json", '{"hello": 1}', notification("a.txt", bucket=bucket))
    with Database.connect(deployment.database_url) as database:
        assert len(receive(database, BucketPlace(s3, bucket, ""), queue).set_aside) == 2
    totals = json.loads(deployment.command("status", "--json"))["source"]
    assert (totals["messages_set_aside"], totals["hints"]) == ({"not_json": 1, "unknown_shape": 1}, 1)
    listed = json.loads(deployment.command("messages", "list", "--json"))
    assert {item["body"]: item["reason"] for item in listed} == {
        "not json": "not_json",
        '{"hello": 1}': "unknown_shape",
    }
    assert "not json" in deployment.command("messages", "list")
    [first, _] = [item["message_id"] for item in listed]
    assert deployment.command("messages", "drop", first) == "1 messages dropped.\n"
    deployment.command("messages", "drop", first, code=1)
    deployment.command("messages", "drop", code=1)
    assert json.loads(deployment.command("messages", "drop", "--all", "--json"))["dropped"] == [listed[1]["message_id"]]
    assert deployment.command("messages", "list") == "No message is set aside.\n"


def test_the_sensors_turn_events_into_runs_without_a_listing(
    deployment: Deployment,
    s3: "S3Client",
    moto_server: str,
    bucket: str,
    queue: TestQueue,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What Dagster evaluates: one takes messages, the other asks for runs that name the documents."""
    deployment.configure(
        f'[source]\nurl = "s3://{bucket}/"\nendpoint_url = "{moto_server}"\nqueue_url = "{queue.url}"\n'
        "listing_interval_seconds = 3600\n"
    )
    place = BucketPlace(s3, bucket, "")
    for key in ("a b.txt", "c.txt"):
        place.put(key, b"This is the text of a document.")
    deployment.command("run")
    place.put("a b.txt", b"This is another text of a document.")
    place.put("d.txt", b"Not told by any event, so nobody knows it yet.")
    queue.send(notification("a+b.txt", "gone.txt", bucket=bucket), "not json")
    for name, value in deployment.environment.items():
        if name.startswith("INGEST_"):
            monkeypatch.setenv(name, value)
    with open_instance(process_platform().settings) as instance:

        def tick(sensor: dg.SensorDefinition) -> Any:
            with dg.build_sensor_context(instance=instance, resources={"platform": PlatformResource()}) as context:
                return sensor.evaluate_tick(context)

        said = tick(queue_sensor).skip_message
        [request] = tick(source_sensor).run_requests
    close_process_platform()
    assert "2 messages: 2 keys may have changed" in said
    assert "1 messages were set aside" in said
    assert request.run_config["ops"]["ingest_documents"]["config"]["keys"] == ["a b.txt"]
