"""What an operator sees of embedding runs: rows, tags, exit codes and messages, through the whole platform.

Not here: the queue, claims and attempts below it (test_embedding_queue.py), and whole histories of what is paid for
(test_paid_embedding.py, test_kill_embedding.py).
"""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from ingest_assets_tests.embedding_queue import hold
from ingest_assets_tests.embedding_server import EmbeddingServer, Received, Reply, changed, scripted
from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.texts import paragraphs

SENTENCE = "The pumps of the station are inspected on every first Monday of a month."
PRICE = 1000.0  # per million tokens
MODEL = (
    '[[models]]\nversion = "{}"\nprovider = "openai"\nmodel = "m"\ndimensions = 8\nbase_url = "{}"\n'
    f"max_batch_items = 4\nmax_concurrency = 2\nprice_per_million_tokens = {PRICE}\n"
)


@pytest.fixture
def metered(deployment: Deployment, embedding_server: EmbeddingServer) -> Deployment:
    """A deployment whose only model is the server."""
    deployment.configure('[source]\nurl = "inbox"\n' + MODEL.format("v1", embedding_server.url))
    return deployment


def spend_of(metered: Deployment) -> list[tuple[Any, ...]]:
    """Return version, lane, origin, texts and tokens of everything that was sent, in the order it was."""
    found = metered.query(
        "SELECT embedding_model_version, lane, origin, units, tokens, cost FROM ingest.embedding_spend"
        " JOIN ingest.embedding_runs USING (run_id, embedding_model_version) ORDER BY started_at, origin"
    )
    assert all(row["cost"] == pytest.approx(row["tokens"] * PRICE / 1e6) for row in found)
    return [tuple(row.values())[:5] for row in found]


def tags_of(metered: Deployment, run_id: str) -> dict[str, str]:
    """Return the tags that Dagster shows of a run."""
    with psycopg.connect(metered.dagster_url) as connection:
        return dict(connection.execute("SELECT key, value FROM run_tags WHERE run_id = %s", [run_id]).fetchall())


def test_the_plan_is_there_before_the_first_request_and_the_account_after_the_last(
    metered: Deployment, embedding_server: EmbeddingServer
) -> None:
    """Rows and tags of the run, in numbers that agree with what the server billed."""
    seen: list[tuple[dict[str, Any], dict[str, str]]] = []

    def looks(server: EmbeddingServer, request: Received) -> Reply:
        [row] = metered.query("SELECT * FROM ingest.embedding_runs")
        seen.append((row, tags_of(metered, row["run_id"])))
        return server.answer(server.items(request))

    embedding_server.next(looks)
    metered.write("a.md", paragraphs(1, 12))
    metered.command("run")
    before, tags_before = seen[0]
    texts = metered.query("SELECT DISTINCT text_sha256, token_count FROM ingest.chunks")
    tokens = sum(row["token_count"] for row in texts)
    assert (before["planned_units"], before["planned_tokens"], before["embedded"]) == (len(texts), tokens, 0)
    assert before["estimated_cost"] == pytest.approx(tokens * PRICE / 1e6)
    assert (tags_before["ingest/planned_texts"], tags_before["ingest/planned_tokens"]) == (str(len(texts)), str(tokens))
    assert "ingest/embedded_texts" not in tags_before
    [row] = metered.query("SELECT * FROM ingest.embedding_runs")
    assert (row["embedded"], row["sent_tokens"], row["requests"]) == (
        len(texts),
        tokens,
        len(embedding_server.requests),
    )
    assert row["billed_tokens"] == embedding_server.billed_tokens
    assert spend_of(metered) == [("v1", "incremental", "new", len(texts), tokens)]
    tags = tags_of(metered, row["run_id"])
    assert tags["ingest/embedded_texts"] == str(len(texts))
    assert tags["ingest/billed_tokens"] == str(embedding_server.billed_tokens)
    assert tags["ingest/cost"] == f"{tokens * PRICE / 1e6:.4f}"


def test_spend_says_why_texts_were_sent(metered: Deployment, embedding_server: EmbeddingServer) -> None:
    """A first load, an edit, then a version declared later together with a document that is new to both versions."""
    metered.write("a.md", "# A\n\n" + paragraphs(1, 8))
    metered.command("run")
    metered.write("a.md", "# A\n\nA sentence that was put in front of everything else.\n\n" + paragraphs(1, 8))
    metered.command("run")
    metered.configure((metered.folder / "ingest.toml").read_text() + MODEL.format("v2", embedding_server.url))
    metered.write("b.md", paragraphs(2, 3))
    metered.command("run")
    found = spend_of(metered)
    assert [row[:3] for row in found] == [
        ("v1", "incremental", "new"),
        ("v1", "incremental", "changed"),
        ("v1", "incremental", "new"),
        ("v2", "backfill", "new"),
        ("v2", "backfill", "re_embed"),
    ]
    first, edit, new, new_again, again = (row[3] for row in found)
    assert edit < first <= again and new == new_again
    assert sum(row[3] for row in found) == len(embedding_server.texts)


def test_claims_of_a_dead_process_are_free_at_once(metered: Deployment, embedding_server: EmbeddingServer) -> None:
    """Its lease would run for an hour yet, but its process is gone."""
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    metered.write("a.md", SENTENCE)
    hold(metered.query, SENTENCE, pid=int(ended.stdout))
    assert metered.json("run")["replaced_runs"] == ["other"]
    assert metered.json("status")["documents"]["complete"] == 1


def test_a_run_waits_for_what_others_pay_for(metered: Deployment, embedding_server: EmbeddingServer) -> None:
    """It ends when the text is paid for or free again, and sends it then; also when that happens before it looks."""
    metered.write("a.md", SENTENCE)
    metered.write("b.md", paragraphs(1, 3))
    hold(metered.query, SENTENCE)

    def gives_up() -> None:
        while not metered.query("SELECT 1 FROM ingest.embedding_runs WHERE left_to_others = 1"):
            time.sleep(0.02)
        assert SENTENCE not in embedding_server.texts
        metered.query("DELETE FROM ingest.embedding_claims WHERE run_id = 'other'")

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(gives_up)
        metered.command("run")
        assert other.exception() is None
    assert embedding_server.texts.count(SENTENCE) == 1
    assert metered.json("status")["documents"]["complete"] == 2


def test_a_client_with_other_vectors_writes_nothing(metered: Deployment, embedding_server: EmbeddingServer) -> None:
    """Exit code 1 and the reason; the label keeps its meaning, and the old client goes on where it was."""
    metered.write("a.md", paragraphs(1, 6))
    metered.command("run")
    metered.query('UPDATE ingest.embedding_models SET fingerprint = fingerprint || \'{"library_version": "0.0"}\'')
    metered.write("b.md", paragraphs(2, 6))
    before = metered.query(
        "SELECT (SELECT count(*) FROM ingest.chunk_vectors), fingerprint FROM ingest.embedding_models"
    )
    embedding_server.always = changed(lambda items: [{**item, "embedding": item["embedding"][::-1]} for item in items])
    result = metered.json("run", code=1)
    assert "fingerprint_changed" in result["failed_runs"][0]["message"] and result["dead_lettered"] == 0
    after = metered.query(
        "SELECT (SELECT count(*) FROM ingest.chunk_vectors), fingerprint FROM ingest.embedding_models"
    )
    assert after == before
    assert metered.json("status")["documents"] == {"total": 2, "complete": 1, "pending": 1, "partial": 0, "rejected": 0}


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("max_batch_items = 0", "max_batch_items"),
        ("max_concurrency = -1", "max_concurrency"),
        ("requests_per_minute = 0", "requests_per_minute"),
        ("price_per_million_tokens = -1", "price_per_million_tokens"),
        ("backfill_share = 1.5", "backfill_share"),
        (MODEL.format("v1", "http://127.0.0.1:1/v1"), "declared twice"),
    ],
)
def test_settings_that_make_no_sense_are_refused(deployment: Deployment, setting: str, told: str) -> None:
    """Before a database is opened."""
    model = '[[models]]\nversion = "v1"\nprovider = "openai"\nmodel = "m"\ndimensions = 8\n'
    deployment.configure(model + setting)
    assert told in deployment.json("run", code=2)["error"]


def test_a_server_that_is_no_embeddings_endpoint_is_refused_with_the_reason(
    metered: Deployment, embedding_server: EmbeddingServer
) -> None:
    """One request, nothing given up."""
    metered.configure((metered.folder / "ingest.toml").read_text().replace('/v1"', '/elsewhere"'))
    embedding_server.always = scripted(404, "<html>no such page</html>")
    metered.write("a.md", paragraphs(1, 6))
    result = metered.json("run", code=1)
    assert "base_url" in result["failed_runs"][0]["message"]
    assert metered.json("status")["dead_letters"]["open"] == 0


def test_a_plan_that_costs_too_much_is_refused_until_approved(
    metered: Deployment, embedding_server: EmbeddingServer
) -> None:
    """The message has the number and the way."""
    metered.configure((metered.folder / "ingest.toml").read_text() + "[limits]\nmax_cost_per_run = 0.1\n")
    metered.write("a.md", paragraphs(1, 6))
    message = metered.json("run", code=1)["failed_runs"][0]["message"]
    assert "over_budget" in message and "max_cost_per_run" in message
    assert embedding_server.requests == []
    approval = message.partition("`ingest-assets ")[2].partition("`")[0].split()
    metered.command(*approval)
    assert metered.json("status")["documents"]["complete"] == 1
