"""What a run takes from its queue, leaves to others and gives up on; its plain functions on a metered server.

Not here: what an operator sees of it (test_embedding_runs.py), and the engine alone (test_embed_engine.py).
"""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ingest_assets.database import Database
from ingest_assets.errors import EmbeddingTransient, Reason
from ingest_assets.identity import text_sha256
from ingest_assets.letters import open_letters, retry_letters
from ingest_assets_tests.embedding_queue import Queue, hold, texts
from ingest_assets_tests.embedding_server import EmbeddingServer, Fault, Received, Reply, error


@pytest.fixture
def queue(database: Database, embedding_server: EmbeddingServer) -> Queue:
    """A queue without documents."""
    return Queue(database, embedding_server)


def attempts(queue: Queue) -> list[int]:
    """Return the failed runs that are remembered of texts."""
    return [row["attempts"] for row in queue.query("SELECT attempts FROM ingest.embedding_attempts ORDER BY 1")]


def fails_on(text: str) -> Fault:
    """Answer 500 to any request that holds a text, with the shortest wait a server can ask for."""
    trouble = error(500, kind="server_error", retry_after=0)
    return lambda server, request: (
        trouble(server, request) if text in request.texts else server.answer(server.items(request))
    )


def test_a_text_that_breaks_the_server_is_given_up_after_three_runs(queue: Queue) -> None:
    """Its neighbours are embedded at once or in the next run; a retry by hand starts counting afresh."""
    queue.add("a.md", [*texts(11), "toxic"])
    queue.server.always = fails_on("toxic")
    first = queue.run()
    assert isinstance(first.failure, EmbeddingTransient) and 8 <= first.embedded <= 11
    assert set(attempts(queue)) == {1}
    second = queue.run()
    assert first.embedded + second.embedded == 11
    assert attempts(queue) == [2]
    third = queue.run()  # nothing but the text is left: a harmless sentence shows that the server works
    assert (third.dead_lettered, third.failure) == (1, None)
    [letter] = open_letters(queue.database)
    assert (letter["reason"], letter["attempts"]) == (Reason.ATTEMPTS_EXHAUSTED, 3)
    sent = len(queue.server.requests)
    assert queue.run().plan.units == 0 and len(queue.server.requests) == sent
    retry_letters(queue.database, [letter["dead_letter_id"]])
    assert isinstance(queue.run().failure, EmbeddingTransient)
    assert attempts(queue) == [1]
    queue.server.always = None
    assert queue.run().publications[0].published
    assert open_letters(queue.database) == [] and attempts(queue) == []


def test_when_everything_fails_no_text_is_to_blame(queue: Queue) -> None:
    """Days of an outage give nothing up."""
    queue.add("a.md", texts(12))
    queue.server.always = error(503, retry_after=0)
    for _ in range(3):
        assert isinstance(queue.run(max_concurrency=1).failure, EmbeddingTransient)
    assert attempts(queue) == [] and open_letters(queue.database) == []
    queue.server.always = None
    assert queue.run().embedded == 12


def test_a_poison_text_that_the_server_names_costs_few_requests(queue: Queue) -> None:
    """One letter for each place it stands in, and its neighbours in the next request."""
    queue.add("a.md", [*texts(30), "poison"])
    queue.add("b.md", [*texts(3, "other"), "poison"])
    queue.server.poison, queue.server.names_poison = {"poison"}, True
    outcome = queue.run(max_batch_items=64)
    assert (outcome.embedded, outcome.dead_lettered) == (33, 1)
    assert [letter["reason"] for letter in open_letters(queue.database)] == [Reason.CONTENT_REJECTED] * 2
    assert len(queue.server.requests) <= 5


def test_equal_texts_are_paid_for_once_by_two_runs_at_once(queue: Queue) -> None:
    """In many documents, and many times in one."""
    for number in range(6):
        queue.add(f"{number}.md", [*texts(10), *texts(10), "the same notice", f"only in {number}"])
    queue.server.seconds = 0.02
    with ThreadPoolExecutor(2) as pool:
        outcomes = [run.result() for run in [pool.submit(queue.run) for _ in range(2)]]
    assert set(Counter(queue.server.texts).values()) == {1}
    assert sum(outcome.embedded for outcome in outcomes) == 17
    queue.run()
    [found] = queue.query("SELECT count(*) AS vectors, count(DISTINCT text_sha256) AS texts FROM ingest.chunk_vectors")
    assert found == {"vectors": 6 * 22, "texts": 17} and len(queue.server.texts) == 17


def test_a_living_claim_is_respected_and_a_lapsed_one_is_taken_over(queue: Queue) -> None:
    """Who pays for a text is known from rows alone, so it holds across hosts."""
    queue.add("a.md", texts(5))
    hold(queue.query, "text number 3")
    outcome = queue.run()
    assert (outcome.embedded, outcome.left_to_others, outcome.publications[0].covered) == (4, 1, False)
    assert "text number 3" not in queue.server.texts
    queue.query("UPDATE ingest.embedding_claims SET expires_at = now() - interval '1 second'")
    outcome = queue.run()
    assert (outcome.embedded, outcome.publications[0].published) == (1, True)


def test_a_chunk_that_vanishes_in_flight_does_not_cost_its_batch(queue: Queue) -> None:
    """What is left of the answer is kept, and the account says what became of the rest."""
    queue.add("a.md", texts(4))
    queue.add("b.md", texts(3, "other"))

    def vanishes(server: EmbeddingServer, request: Received) -> Reply:
        queue.query("DELETE FROM ingest.chunks WHERE text = %s", request.texts[0])
        return server.answer(server.items(request))

    queue.server.next(vanishes)
    outcome = queue.run(max_batch_items=16)
    assert (outcome.embedded, outcome.vanished, outcome.failure) == (6, 1, None)
    assert all(publication.published for publication in outcome.publications)
    [row] = queue.query("SELECT planned_units, embedded, vanished, sent_tokens FROM ingest.embedding_runs")
    assert row == {"planned_units": 7, "embedded": 6, "vanished": 1, "sent_tokens": 21}


def fingerprint(queue: Queue) -> dict[str, Any]:
    """Return what is recorded of the client and the sample."""
    return queue.query("SELECT fingerprint, canary FROM ingest.embedding_models")[0]


def forge_library(queue: Queue) -> None:
    """Record another client than the installed one."""
    queue.query('UPDATE ingest.embedding_models SET fingerprint = fingerprint || \'{"library_version": "0.0"}\'')


def test_a_new_client_proves_itself_on_the_sample(queue: Queue) -> None:
    """A first load sends nothing extra; a changed client sends the sample once, also after documents were deleted."""
    for number in range(3):
        queue.add(f"{number}.md", texts(10, f"document {number}"))
    queue.run()
    assert len(queue.server.texts) == 30
    recorded = fingerprint(queue)
    assert recorded["fingerprint"]["library"] == "openai"
    assert recorded["canary"] == sorted(text_sha256(text).hex() for text in queue.server.texts)[:16]
    forge_library(queue)
    queue.query("DELETE FROM ingest.documents WHERE document_id = %s", queue.documents.pop())
    queue.add("new.md", ["a new text"])
    queue.server.requests.clear()
    assert queue.run().embedded == 1
    assert len(queue.server.texts) == 16 + 1 and queue.server.texts[-1] == "a new text"
    assert fingerprint(queue) == recorded
    queue.add("newer.md", ["a newer text"])
    queue.run()
    assert queue.server.texts[17:] == ["a newer text"]


def test_the_sample_keeps_to_the_limits_of_the_model(queue: Queue) -> None:
    """A new client is tried with requests of the usual size; a sample text that is refused now does not stop it."""
    queue.add("a.md", texts(20))
    queue.run()
    refused = queue.query("SELECT text FROM ingest.chunks ORDER BY text_sha256 LIMIT 1")[0]["text"]
    forge_library(queue)
    queue.server.max_items, queue.server.poison = 4, {refused}
    queue.server.requests.clear()
    queue.add("b.md", ["a new text"])
    outcome = queue.run()
    assert (outcome.embedded, outcome.failure) == (1, None)
    assert open_letters(queue.database) == []
    [run] = queue.query("SELECT requests FROM ingest.embedding_runs ORDER BY started_at DESC LIMIT 1")
    assert run["requests"] == len(queue.server.requests)


def test_a_queue_longer_than_memory_is_read_in_parts(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every text is still sent exactly once, also those that stand in many parts of the corpus."""
    monkeypatch.setattr("ingest_assets.claims.PAGE_UNITS", 7)
    monkeypatch.setattr("ingest_assets.claims.SLICE_UNITS", 3)
    for number in range(4):
        queue.add(f"{number}.md", [*texts(20), *texts(5, f"only {number}")])
    outcome = queue.run()
    assert outcome.embedded == 40 and all(publication.published for publication in outcome.publications)
    assert set(Counter(queue.server.texts).values()) == {1}
