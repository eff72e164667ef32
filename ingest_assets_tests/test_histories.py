"""Random histories of a source and of runs that die, overlap and come late: at the end the index is the source.

What does not belong here: single rules (test_deletion.py, test_unreadable.py, test_discovery.py), and `kill -9`
(test_kill.py, test_kill_embedding.py).
"""

import hashlib
import itertools
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from ingest_assets.checks import run_checks
from ingest_assets.database import Database
from ingest_assets.discovery import continue_discovery
from ingest_assets.hints import receive_hints, resolve_hints
from ingest_assets.ingest import ingest_documents
from ingest_assets.outcomes import DocumentOutcome
from ingest_assets.receipts import prove_deletion
from ingest_assets.settings import ModelSettings
from ingest_assets.source.queue import EventQueue
from ingest_assets.verdicts import CheckContext
from ingest_assets_tests.embedding_server import EmbeddingServer
from ingest_assets_tests.fixtures_s3 import DyingQueue, TestQueue, notification
from ingest_assets_tests.pipeline import Pipeline
from ingest_assets_tests.places import BucketPlace, FolderPlace, Place, SmallPages
from ingest_assets_tests.texts import paragraphs

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

BLOCKS = [paragraphs(seed, 2) for seed in range(4)]  # each a chunk of its own, more or less
KEYS = st.sampled_from(["a.txt", "b c.txt", "d/é+%.txt", "x|y.txt", "z.txt"])
CONTENTS = st.lists(st.integers(0, 3), max_size=3)  # which blocks; none leaves nothing to read
TABLES = (
    "ingest.documents, ingest.chunks, ingest.chunk_vectors, ingest.dead_letters, ingest.deletion_receipts,"
    " ingest.embedding_coverage, ingest.embedding_runs, ingest.embedding_claims, ingest.run_leases,"
    " ingest.source_listings, ingest.listing_progress, ingest.listed_pages, ingest.source_hints,"
    " ingest.set_aside_messages, ingest.check_offenders, serving.publications, serving.index_1"
)


class History(RuleBasedStateMachine):
    """What people do to a source, and what runs do, in any order; each run may die anywhere or come late."""

    def __init__(
        self, database: Database, place: Place, server: EmbeddingServer, queue: TestQueue | None = None
    ) -> None:
        super().__init__()
        self.database, self.place, self.server, self.queue = database, place, server, queue
        self.events: list[str] = []  # what the store has to tell of, told or not
        model = {"version": "v1", "provider": "openai", "model": "m", "dimensions": 8, "base_url": server.url}
        self.pipeline = Pipeline(database, SmallPages(place.open(), 2), [ModelSettings.model_validate(model)])
        self.late: Iterator[DocumentOutcome] = iter(())  # a run that has begun, and is stopped
        self.late_since = self.now()  # when the last of them began

    def query(self, statement: str) -> list[dict[str, Any]]:
        """Look into the database."""
        with self.database.connection() as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def now(self) -> datetime:
        """Return the database's time."""
        [row] = self.query("SELECT clock_timestamp() AS time")
        time: datetime = row["time"]
        return time

    @rule(key=KEYS, content=CONTENTS)
    def upload(self, key: str, content: list[int]) -> None:
        """A new document, an edit, or an edit that leaves nothing to read."""
        self.place.put(key, "\n\n".join(BLOCKS[number] for number in content).encode())
        self.events.append(key)

    @rule(key=KEYS)
    def upload_again(self, key: str) -> None:
        """The same bytes."""
        content = self.place.objects().get(key)
        if content is not None:
            self.place.put(key, content)
            self.events.append(key)

    @rule(key=KEYS)
    def remove(self, key: str) -> None:
        """A deletion; in a versioned bucket a delete marker, or one more of them."""
        self.place.remove(key)
        self.events.append(key)

    @rule(old=KEYS, new=KEYS)
    def rename(self, old: str, new: str) -> None:
        """A copy, then a deletion, as stores rename."""
        content = self.place.objects().get(old)
        if content is not None and old != new:
            self.place.put(new, content)
            self.place.remove(old)
            self.events += [old, new]

    @rule(key=KEYS)
    def rewind(self, key: str) -> None:
        """An earlier version becomes current again, or what was deleted comes back."""
        self.place.rewind(key)
        self.events.append(key)

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        """A version that is not current goes, which changes nothing."""
        before = self.place.objects()
        self.place.forget(key)
        self.events.append(key)
        assert self.place.objects() == before

    @rule()
    def list_source(self) -> None:
        """A listing and nothing after it: the process died."""
        self.pipeline.discover()

    @rule()
    def list_a_page(self) -> None:
        """A tick whose time is over after one page, whatever was listed before."""
        continue_discovery(self.database, self.pipeline.source, self.pipeline.settings.source, 0)

    @rule(told=st.lists(st.integers(0, 99), max_size=6))
    def tell(self, told: list[int]) -> None:
        """Events arrive in any order, any number of times, late, or never."""
        if self.queue is not None and self.events:
            self.queue.send(*(self.message(self.events[number % len(self.events)]) for number in told))

    def message(self, *keys: str) -> str:
        """Return what the store sends about keys."""
        [bucket, prefix] = self.place.open().url.removeprefix("s3://").split("/", 1)
        return notification(*(quote_plus(prefix + key) for key in keys), bucket=bucket)

    @rule(is_last=st.booleans())
    def receive(self, is_last: bool) -> None:
        """A tick that takes what is in the queue, or dies between keeping it and deleting it there."""
        if self.queue is None:
            return
        kind = DyingQueue if is_last else EventQueue
        with suppress(KeyboardInterrupt):
            receive_hints(
                self.database, self.pipeline.source, kind(self.queue.url, self.queue.client), wait_seconds=0, seconds=60
            )

    @rule()
    def look(self) -> None:
        """Hinted keys are asked for their state."""
        resolve_hints(self.database, self.pipeline.source, 60)

    @rule()
    def tell_everything(self) -> None:
        """Events alone make every new and changed object known; whatever lists beside them."""
        if self.queue is None or not self.events:
            return
        self.queue.send(self.message(*self.events))
        self.receive(is_last=False)
        self.look()
        self.ingest_all()
        assert self.true_documents() == set(self.place.objects())

    @rule(most=st.sampled_from([None, None, None, 1]))
    def ingest(self, most: int | None) -> None:
        """A run over what is pending, which may die after some documents."""
        self.pipeline.ingest(most=most)

    @rule(keys=st.lists(KEYS, max_size=3))
    def ingest_for_nothing(self, keys: list[str]) -> None:
        """A run that somebody asked for, whatever is due; documents that are not there do no harm."""
        known = {row["source_key"]: row["partition_key"] for row in self.query("SELECT * FROM ingest.documents")}
        self.pipeline.ingest([known[key] for key in keys if key in known])

    @rule()
    def begin_late_run(self) -> None:
        """A run that has decided on one document, and has read others, when its process is stopped for a while."""
        pipeline = self.pipeline
        self.late_since = self.now()
        outcomes = ingest_documents(
            self.database, pipeline.source, pipeline.settings, pipeline.pending(), uuid.uuid4().hex
        )
        self.late = itertools.chain(self.late, itertools.islice(outcomes, 1), outcomes)
        next(self.late, None)

    @rule()
    def end_late_run(self) -> None:
        """It goes on with what it knew then: what others have rightly decided since stays as it is.

        Where nobody has decided since, its read is the newest, even if the object is by now what it was before.
        """
        before = self.true_documents(self.late_since)
        list(self.late)
        assert before <= self.true_documents()

    @rule(older=st.tuples(CONTENTS, CONTENTS), newer=st.tuples(CONTENTS, CONTENTS))
    def overtake(self, older: tuple[list[int], list[int]], newer: tuple[list[int], list[int]]) -> None:
        """Two uploads while the first is being processed, and the run of the second ends first."""
        for contents, run in ((older, self.begin_late_run), (newer, self.ingest_all)):
            for key, content in zip(("a.txt", "z.txt"), contents, strict=True):
                self.upload(key, content)
            self.list_source()
            run()
        self.end_late_run()

    def ingest_all(self) -> None:
        """Ingest what is pending."""
        self.pipeline.ingest()

    def true_documents(self, since: datetime | None = None) -> set[str]:
        """Return the keys of documents whose last decision, taken since then, was on the bytes that are there now."""
        known = self.query(
            "SELECT source_key, content_sha256 AS digest, updated_at FROM ingest.documents WHERE status <> 'deleted'"
        )
        objects = {key: hashlib.sha256(data).digest() for key, data in self.place.objects().items()}
        return {
            row["source_key"]
            for row in known
            if objects.get(row["source_key"]) == row["digest"] and (since is None or row["updated_at"] > since)
        }

    @rule()
    def embed(self) -> None:
        """An embedding run: what has a vector is not sent, and nothing is sent twice."""
        known = {
            row["text"]
            for row in self.query("SELECT c.text FROM ingest.chunks c JOIN ingest.chunk_vectors v USING (chunk_id)")
        }
        before = len(self.server.texts)
        self.pipeline.embed()
        sent = Counter(self.server.texts[before:])
        assert set(sent.values()) <= {1}
        assert not set(sent) & known

    @rule(most=st.sampled_from([None, 1]))
    def delete(self, most: int | None) -> None:
        """A deletion run, which may die after one document."""
        self.pipeline.delete(most=most)

    @rule()
    def let_the_grace_pass(self) -> None:
        """Deletions have waited long enough for what came with them."""
        self.query("UPDATE ingest.documents SET missing_since = missing_since - interval '1 hour'")

    @rule()
    def rename_everything_in_peace(self) -> None:
        """From an index that is true, all documents renamed at once: nothing is sent."""
        self.settle()
        before = len(self.server.texts)
        for key, content in self.place.objects().items():
            self.place.put(f"r/{key}", content)
            self.place.remove(key)
            self.events += [key, f"r/{key}"]
        self.settle()
        assert self.server.texts[before:] == []

    def settle(self) -> None:
        """Let late runs end, then make one ordinary pass, after which nothing is left to do."""
        self.end_late_run()
        self.pipeline.run()
        assert self.pipeline.pending() == []

    def teardown(self) -> None:
        """Prove that the index is the source, whatever happened."""
        self.settle()
        objects = self.place.objects()
        readable = {key: data.decode().strip() for key, data in objects.items() if data.strip()}
        documents = self.query("SELECT source_key, status FROM ingest.documents WHERE status <> 'deleted'")
        assert {row["source_key"]: row["status"] for row in documents} == {
            key: "accepted" if key in readable else "rejected" for key in objects
        }
        served: dict[str, str] = {}
        for row in self.query("SELECT source_key, text FROM serving.index_1 ORDER BY source_key, chunk_index"):
            served[row["source_key"]] = served.get(row["source_key"], "") + row["text"]
        assert {key: text for key, text in served.items() if key in readable} == readable
        assert set(served) <= set(objects)
        self._prove_nothing_is_left_over()

    def _prove_nothing_is_left_over(self) -> None:
        verdicts = run_checks(CheckContext(self.database, self.pipeline.source, 900, lists_source=True))
        assert {item.check: item.offenders for item in verdicts if not item.passed}.keys() <= {
            "unresolved_dead_letters"
        }
        rejected = self.query("SELECT source_key FROM ingest.documents WHERE status = 'rejected' ORDER BY 1")
        letters = self.query(
            "SELECT source_key FROM ingest.dead_letters JOIN ingest.documents USING (document_id)"
            " WHERE resolved_at IS NULL ORDER BY 1"
        )
        assert letters == rejected
        # A chunk is current, or served for a document whose new state is rejected; each has its vector.
        assert not self.query(
            "SELECT c.chunk_id FROM ingest.chunks c JOIN ingest.documents d USING (document_id)"
            " LEFT JOIN ingest.chunk_vectors v USING (chunk_id) WHERE d.status = 'deleted' OR v.chunk_id IS NULL"
            " OR (c.generation <> d.generation AND NOT EXISTS (SELECT FROM serving.publications p"
            "     WHERE c.chunk_id = ANY (p.chunk_ids)))"
        )
        assert not self.query(
            "SELECT run_id FROM ingest.embedding_claims UNION ALL SELECT run_id FROM ingest.run_leases"
        )
        for row in self.query("SELECT document_id FROM ingest.documents WHERE status = 'deleted'"):
            assert prove_deletion(self.database, str(row["document_id"]))["is_zero"]


@pytest.fixture
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Place]:
    """Make empty places of one kind."""
    numbers = itertools.count()
    if request.param == "folder":
        return lambda: FolderPlace(tmp_path / "source")
    s3: S3Client = request.getfixturevalue("s3")
    bucket: str = request.getfixturevalue("bucket")
    if request.param == "versioned bucket":
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    return lambda: BucketPlace(s3, bucket, f"{next(numbers)}/")


FEW = settings(max_examples=4, stateful_step_count=12, derandomize=True)
MANY = settings(max_examples=15, stateful_step_count=50)


@pytest.mark.parametrize("places", ["folder", "bucket", "versioned bucket"], indirect=True)
@pytest.mark.parametrize("length", [FEW, pytest.param(MANY, marks=pytest.mark.soak)], ids=["few", "many"])
def test_after_any_history_the_index_is_the_source(
    database: Database,
    embedding_server: EmbeddingServer,
    places: Callable[[], Place],
    moto_server: str,
    length: settings,
) -> None:
    """Nothing is missing, left over, there twice or paid for twice, whatever happened in whichever order."""

    def begin() -> History:
        with database.connection() as connection:
            connection.execute(f"TRUNCATE {TABLES} CASCADE".encode())
        embedding_server.requests.clear()
        place = places()
        queue = TestQueue(moto_server) if isinstance(place, BucketPlace) else None
        return History(database, place, embedding_server, queue)

    Pipeline(database, places().open(), [History(database, places(), embedding_server).pipeline.models[0]]).embed()
    checked = settings(length, deadline=None, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(begin, settings=checked)  # type: ignore[no-untyped-call]


def test_an_older_read_never_overwrites_a_newer_one(
    database: Database, embedding_server: EmbeddingServer, tmp_path: Path
) -> None:
    """The run of the second upload ended first; that of the first then finds that others have decided."""
    history = History(database, FolderPlace(tmp_path / "source"), embedding_server)
    for older, newer in (([], [1]), ([2], [3]), ([0], [])):
        history.overtake(([0], older), ([1], newer))
        assert history.true_documents() == {"a.txt", "z.txt"}
    history.teardown()


def test_an_object_that_is_again_as_it_was_ends_as_it_is(
    database: Database, embedding_server: EmbeddingServer, tmp_path: Path
) -> None:
    """A run has read an edit when the edit is taken back: what it records is found to be out of date, and mended."""
    history = History(database, FolderPlace(tmp_path / "source"), embedding_server)
    for contents, run in ((([0], [1]), history.ingest_all), (([2], [3]), history.begin_late_run)):
        for key, content in zip(("a.txt", "z.txt"), contents, strict=True):
            history.upload(key, content)
        history.list_source()
        run()
    history.upload("z.txt", [1])
    history.list_source()
    history.end_late_run()
    history.teardown()
    assert history.true_documents() == {"a.txt", "z.txt"}
