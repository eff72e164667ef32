"""Processes that die while an unreliable server is paid: nothing is lost, doubled, or paid for more than it must be.

Not here: death in the other stages (test_kill.py).
"""

import os
import random
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from ingest_assets_tests.embedding_server import EmbeddingServer, Received, Reply, error, lost
from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.texts import paragraphs

BATCH, CONCURRENCY = 4, 3
POISON = "The server refuses this sentence for good."
SETTINGS = (
    '[source]\nurl = "inbox"\n[[models]]\nversion = "v1"\nprovider = "openai"\nmodel = "m"\ndimensions = 8\n'
    f'base_url = "{{}}"\nmax_batch_items = {BATCH}\nmax_concurrency = {CONCURRENCY}\n'
)
# What is compared: everything embedding leaves behind, without times and ids of runs.
ROWS = {
    "vectors": "SELECT chunk_id, text_sha256, embedding::text FROM ingest.chunk_vectors ORDER BY 1",
    "coverage": "SELECT document_id, generation, published FROM ingest.embedding_coverage ORDER BY 1",
    "letters": "SELECT chunk_id, stage, reason, resolved_at FROM ingest.dead_letters ORDER BY 1",
    "publications": "SELECT document_id, generation, chunk_ids, positions FROM serving.publications ORDER BY 1",
    "served": "SELECT chunk_id, document_id, generation, text, embedding::text FROM serving.index_1 ORDER BY 1",
    "claims": "SELECT text_sha256 FROM ingest.embedding_claims",
    "leases": "SELECT run_id FROM ingest.run_leases",
    "attempts": "SELECT text_sha256 FROM ingest.embedding_attempts",
}


@dataclass
class Unreliable:
    """How the server answers: rate limits, errors, resets after the work is done, slowly; some texts never."""

    chance: random.Random
    is_faulty: bool = False
    paid: Counter[str] = field(default_factory=Counter)
    paid_for_nothing: int = 0  # texts whose answer was lost on its way

    def __call__(self, server: EmbeddingServer, request: Received) -> Reply:
        """Answer one request."""
        if any(POISON in text for text in request.texts):
            return error(400, "The input was rejected")(server, request)
        kind = self.chance.random() if self.is_faulty else 1.0
        if kind < 0.1:
            return error(429, code="rate_limit_exceeded", retry_after=0)(server, request)
        if kind < 0.2:
            return error(500, retry_after=0)(server, request)
        self.paid.update(request.texts)
        if kind < 0.23:
            self.paid_for_nothing += len(request.texts)
            return lost(server, request)
        if kind < 0.4:
            time.sleep(self.chance.uniform(0.05, 0.3))
        return server.answer(server.items(request))


def rows(deployment: Deployment) -> dict[str, list[dict[str, Any]]]:
    """Return all rows that must not depend on what died."""
    return {name: deployment.query(statement) for name, statement in ROWS.items()}


def wipe(deployment: Deployment) -> None:
    """Forget everything but the version, as before the first run."""
    deployment.query(
        "TRUNCATE ingest.documents, ingest.dead_letters, ingest.run_leases, ingest.embedding_runs,"
        " ingest.embedding_claims, ingest.embedding_attempts, ingest.source_listings, serving.publications,"
        " serving.index_1 CASCADE"
    )
    deployment.query("UPDATE ingest.embedding_models SET status = 'building'")


def kill_after(deployment: Deployment, server: EmbeddingServer, requests: int, seconds: float) -> None:
    """Start a run and kill it so long after so many requests have come; it may end by itself before."""
    until = len(server.requests) + requests
    process = deployment.start("run", "--json")
    while process.poll() is None and len(server.requests) < until:
        time.sleep(0.005)
    time.sleep(seconds)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.mark.parametrize(
    ("kills", "documents"),
    [pytest.param(2, 12, id="two"), pytest.param(10, 60, id="ten", marks=pytest.mark.soak)],
)
def test_kill_9_while_an_unreliable_server_is_paid_leaves_the_rows_of_an_undisturbed_run(
    deployment: Deployment, embedding_server: EmbeddingServer, kills: int, documents: int
) -> None:
    """And pays twice for no more than what was in flight at each death; the seed is drawn, and shown on failure."""
    seed = random.SystemRandom().randrange(2**32)
    sys.stderr.write(f"seed {seed}\n")
    chance = random.Random(seed)
    deployment.configure(SETTINGS.format(embedding_server.url))
    for number in range(documents):
        bad = f"\n\n{POISON}" if number % 6 == 0 else ""
        deployment.write(f"{number:03}.md", paragraphs(number % (documents - 3), 14) + bad)
    answers = embedding_server.always = Unreliable(random.Random(chance.random()))
    deployment.command("run", code=1)
    undisturbed = rows(deployment)
    assert undisturbed["letters"] and undisturbed["claims"] == undisturbed["attempts"] == []
    requests = len(embedding_server.requests)
    wipe(deployment)

    answers.is_faulty, answers.paid = True, Counter()
    for _ in range(kills):
        kill_after(deployment, embedding_server, chance.randrange(requests // (kills + 1)) + 1, chance.uniform(0, 0.2))
    answers.is_faulty = False
    deployment.command("run", code=1)
    assert rows(deployment) == undisturbed
    paid_again = sum(times - 1 for times in answers.paid.values()) - answers.paid_for_nothing
    assert paid_again <= kills * BATCH * CONCURRENCY
    checks = deployment.json("verify", code=1)
    assert [check["check"] for check in checks if not check["passed"]] == ["unresolved_dead_letters"]
