"""The whole platform on a metered OpenAI-compatible server that counts what it is asked: nothing is paid for twice."""

import os
import re
import signal
import time
from collections import Counter

import psycopg
import pytest

from ingest_assets_tests.embedding_server import EmbeddingServer, error, rate_limited
from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.texts import paragraphs


@pytest.fixture
def metered(deployment: Deployment, embedding_server: EmbeddingServer) -> Deployment:
    """A deployment whose only model is the server."""
    deployment.extra_environment["OPENAI_API_KEY"] = "a key"
    deployment.configure(
        '[source]\nurl = "inbox"\n[[models]]\nversion = "metered-8-v1"\nprovider = "openai"\nmodel = "m"\n'
        f'dimensions = 8\nbase_url = "{embedding_server.url}"\nmax_batch_items = 4\nmax_concurrency = 2\n'
        "price_per_million_tokens = 1000.0\n"
    )
    return deployment


def sent(server: EmbeddingServer) -> Counter[str]:
    """Return how often each text was sent."""
    return Counter(server.texts)


def test_each_distinct_text_is_sent_once_and_a_re_run_sends_nothing(
    metered: Deployment, embedding_server: EmbeddingServer
) -> None:
    """Copies of a document, and equal passages inside one, are paid for once."""
    same = "The same notice is repeated in every part of the manual. " * 40
    metered.write("a.md", "# One\n\n" + same + "\n\n# Two\n\n" + same + "\n\n# Three\n\n" + paragraphs(1, 6))
    metered.write("b.md", paragraphs(2, 6))
    metered.write("copy of b.md", paragraphs(2, 6))
    plan_before = metered.json("run")
    assert set(sent(embedding_server).values()) == {1}
    assert len(embedding_server.texts) == plan_before["embedded"]
    stored = metered.query("SELECT DISTINCT text FROM ingest.chunks")
    assert set(embedding_server.texts) == {row["text"] for row in stored}
    metered.command("run")
    assert len(embedding_server.texts) == plan_before["embedded"]
    assert all(check["passed"] for check in metered.json("verify"))


def test_the_plan_says_what_the_run_then_sends(metered: Deployment, embedding_server: EmbeddingServer) -> None:
    """Texts, tokens and cost are known before anything is spent."""
    metered.write("a.md", paragraphs(1, 30))
    metered.configure((metered.folder / "ingest.toml").read_text() + "[limits]\nmax_units_per_run = 1\n")
    metered.command("run", code=1)
    assert embedding_server.requests == []
    plan = metered.json("plan")
    assert plan["cost"] == pytest.approx(plan["tokens"] / 1000)
    result = metered.json("run", "--approve-units", str(plan["units"]))
    assert (result["embedded"], result["sent_tokens"]) == (plan["units"], plan["tokens"])
    assert len(embedding_server.texts) == plan["units"]
    assert result["spend"] == [
        {
            "model": "metered-8-v1",
            "lane": "incremental",
            "origin": "new",
            "units": plan["units"],
            "tokens": plan["tokens"],
            "cost": pytest.approx(plan["cost"]),
        }
    ]
    assert result["billed_tokens"] == embedding_server.billed_tokens


def test_a_rename_is_not_paid_for_when_embedding_was_refused_meanwhile(
    metered: Deployment, embedding_server: EmbeddingServer
) -> None:
    """The old document's vectors stay until the new one has taken them over."""
    path = metered.write("old.txt", paragraphs(1, 6))
    metered.command("run")
    paid = len(embedding_server.texts)
    path.rename(metered.inbox / "new.txt")
    for number in range(5):
        metered.write(f"{number}.txt", paragraphs(number + 10, 6))
    settings = (metered.folder / "ingest.toml").read_text()
    metered.configure(settings + "[limits]\nmax_units_per_run = 1\n")
    metered.command("run", code=1)
    metered.configure(settings)
    metered.command("run")
    assert set(sent(embedding_server).values()) == {1}
    assert len(embedding_server.texts) > paid
    assert metered.json("status")["documents"]["total"] == 6


def test_a_missing_key_is_said_and_no_check_turns_red(metered: Deployment) -> None:
    """Nothing was planned that was not done."""
    del metered.extra_environment["OPENAI_API_KEY"]
    metered.configure((metered.folder / "ingest.toml").read_text().replace("base_url", "# base_url"))
    metered.write("a.md", paragraphs(1, 4))
    assert "OPENAI_API_KEY" in metered.json("run", code=2)["error"]
    metered.command("verify")


def test_two_runs_at_once_pay_for_each_text_once(metered: Deployment, embedding_server: EmbeddingServer) -> None:
    """Whoever claims a text pays for it; the other waits and copies it."""
    for number in range(8):
        metered.write(f"{number}.md", paragraphs(number, 12))
    embedding_server.seconds = 0.2
    processes = [metered.start("run", "--json") for _ in range(2)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    assert set(sent(embedding_server).values()) == {1}
    status = metered.json("status")
    assert status["vectors"] == {"metered-8-v1": status["chunks"]}
    assert all(check["passed"] for check in metered.json("verify"))


def test_a_text_the_model_refuses_costs_itself(metered: Deployment, embedding_server: EmbeddingServer) -> None:
    """Its document is withheld with a reason, neighbours in the batch are published, it is not sent for ever."""
    metered.write("good.md", paragraphs(1, 12))
    metered.write("bad.md", paragraphs(2, 12))
    metered.configure((metered.folder / "ingest.toml").read_text() + "[limits]\nmax_units_per_run = 1\n")
    metered.command("run", code=1)
    [poison] = metered.query(
        "SELECT c.text FROM ingest.chunks c JOIN ingest.documents USING (document_id)"
        " WHERE source_key = 'bad.md' LIMIT 1"
    )
    embedding_server.poison = {poison["text"]}
    result = metered.json("run", "--approve-units", "1000", code=1)
    assert result["dead_lettered"] == 1
    status = metered.json("status", code=1)
    assert status["documents"] == {"total": 2, "complete": 1, "pending": 0, "partial": 1, "rejected": 0}
    assert status["dead_letters"]["by_reason"] == {"content_rejected": 1}
    served = metered.query("SELECT DISTINCT source_key FROM serving.index_1")
    assert [row["source_key"] for row in served] == ["good.md"]
    before = len(embedding_server.requests)
    metered.command("run", code=1)
    assert len(embedding_server.requests) == before
    assert [check["check"] for check in metered.json("verify", code=1) if not check["passed"]] == [
        "unresolved_dead_letters"
    ]

    metered.json("dead-letters", "resolve", "bad.md")
    metered.command("run")
    assert metered.json("status", "bad.md")["published_generation"] == 1


def test_an_exhausted_quota_stops_at_once_and_the_rest_is_sent_later(
    metered: Deployment, embedding_server: EmbeddingServer
) -> None:
    """Nothing is dead-lettered, what was done is published, and the next run sends only the rest."""
    for number in range(6):
        metered.write(f"{number}.md", paragraphs(number, 8))
    quota = error(429, "You exceeded your current quota", code="insufficient_quota", kind="insufficient_quota")
    embedding_server.next(*[lambda server, request: server.answer(server.items(request))] * 3)
    embedding_server.always = quota
    result = metered.json("run", code=1)
    assert "quota_exhausted" in result["failed_runs"][0]["message"]
    assert result["dead_lettered"] == 0
    assert len(embedding_server.requests) <= 3 + 2
    paid = result["embedded"]
    assert paid > 0
    embedding_server.always = None
    again = metered.json("run")
    assert again["embedded"] + paid == len({row["text"] for row in metered.query("SELECT text FROM ingest.chunks")})


def test_kill_9_pays_again_at_most_for_what_was_in_flight(
    metered: Deployment, embedding_server: EmbeddingServer
) -> None:
    """Each finished batch is committed at once."""
    for number in range(10):
        metered.write(f"{number}.md", paragraphs(number, 12))
    embedding_server.seconds = 0.1
    process = metered.start("run", "--json")
    while len(embedding_server.requests) < 6:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    metered.command("run")
    twice = [text for text, times in sent(embedding_server).items() if times > 1]
    in_flight = 2 * 4  # two requests at once of four texts
    committing = 4
    assert len(twice) <= in_flight + committing
    assert max(sent(embedding_server).values()) <= 2
    assert metered.query("SELECT 1 FROM ingest.embedding_claims") == []


def test_secrets_stay_out_of_output_and_rows(metered: Deployment, embedding_server: EmbeddingServer) -> None:
    """A key that is refused is not shown, anywhere."""
    metered.extra_environment["OPENAI_API_KEY"] = "sk-very-secret"
    metered.write("a.md", paragraphs(1, 4))
    embedding_server.always = error(401, "Incorrect API key provided: sk-very-secret", code="invalid_api_key")
    output = metered.command("run", "--json", code=1)
    assert "unauthenticated" in output
    assert "sk-very-secret" not in output
    assert all("sk-very-secret" not in str(row) for row in metered.query("SELECT * FROM ingest.dead_letters"))


def test_a_run_says_how_far_it_is_while_it_works(metered: Deployment, embedding_server: EmbeddingServer) -> None:
    """Completed, remaining and dead-lettered texts, and what the provider answers, from another process."""
    for number in range(8):
        metered.write(f"{number}.md", paragraphs(number, 12))
    embedding_server.seconds = 0.3
    embedding_server.next(rate_limited(0))
    process = metered.start("run", "--json")
    while len(embedding_server.requests) < 7:
        time.sleep(0.02)
    [working] = metered.json("status", code=None)["embedding_runs"]
    process.communicate()
    [stored] = metered.query("SELECT planned_units, embedded FROM ingest.embedding_runs")
    assert working["completed"] + working["remaining"] + working["dead_lettered"] == stored["planned_units"]
    assert 0 < working["completed"] < stored["embedded"] == stored["planned_units"]
    assert (working["lane"], working["rate_limited_responses"]) == ("incremental", 1)
    assert metered.json("status")["embedding_runs"] == []


def test_the_runs_log_says_how_far_it_is_and_what_the_provider_answers(
    metered: Deployment, embedding_server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Completed, remaining and dead-lettered texts, rate limits of the last minute apart from other errors."""
    monkeypatch.setattr("ingest_assets.defs.run_metadata.LOG_SECONDS", 0.0)
    metered.write("a.md", paragraphs(1, 30))
    embedding_server.next(rate_limited(0))
    metered.command("run")
    with psycopg.connect(metered.dagster_url) as connection:
        events = connection.execute("SELECT event FROM event_logs WHERE event LIKE '%texts completed%'").fetchall()
    pattern = re.compile(r"(\d+) texts completed, (\d+) remaining, (\d+) dead-lettered; (.*?)\.")
    said = [pattern.search(row[0]) for row in events]
    numbers = [(int(found[1]), int(found[2]), int(found[3])) for found in said if found]
    [planned] = metered.query("SELECT planned_units FROM ingest.embedding_runs")
    assert numbers[-1] == (planned["planned_units"], 0, 0)
    assert len(numbers) > 1 and {sum(item) for item in numbers} == {planned["planned_units"]}
    assert {found[4] for found in said if found} == {"1 rate-limit answers in the last minute, 0 other errors"}
