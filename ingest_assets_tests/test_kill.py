"""A process that dies at any moment costs nothing but time: the next run brings what an undisturbed one brings."""

import os
import random
import signal
import time

import pytest

from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.texts import paragraphs

# What is compared: everything a reader or an operator can see, without times and ids of runs.
EVERYTHING = {
    "documents": "SELECT source_key, status, generation, text_sha256 FROM ingest.documents ORDER BY 1",
    "chunks": "SELECT chunk_id, generation, chunk_index, text FROM ingest.chunks ORDER BY 1",
    "vectors": "SELECT chunk_id, embedding_model_version, embedding::text FROM ingest.chunk_vectors ORDER BY 1",
    "served": "SELECT chunk_id, document_id, generation, text FROM serving.index_1 ORDER BY 1",
    "publications": "SELECT document_id, embedding_model_version, generation FROM serving.publications ORDER BY 1",
    "letters": "SELECT document_id, stage, reason, resolved_at IS NULL AS open FROM ingest.dead_letters ORDER BY 1, 2",
    "claims": "SELECT * FROM ingest.embedding_claims",
    "leases": "SELECT * FROM ingest.run_leases",
}


def everything(deployment: Deployment) -> dict[str, list[dict[str, object]]]:
    """Return all rows that must not depend on what died."""
    return {name: deployment.query(statement) for name, statement in EVERYTHING.items()}


def fill(deployment: Deployment) -> None:
    """Write enough documents that a run takes a while in each of its stages."""
    for number in range(60):
        deployment.write(f"{number:03}.md", f"# Note {number}\n\n" + paragraphs(number, 12))
    deployment.write("empty.txt", b"")


def wipe(deployment: Deployment) -> None:
    """Forget everything, as before the first run."""
    deployment.query(
        "TRUNCATE ingest.documents, ingest.chunks, ingest.chunk_vectors, ingest.dead_letters, ingest.run_leases,"
        " ingest.embedding_coverage, ingest.embedding_runs, ingest.embedding_claims, ingest.source_listings,"
        " serving.publications, serving.index_1 CASCADE"
    )
    deployment.query("UPDATE ingest.embedding_models SET status = 'building'")


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (1, 2, 3))])
def test_kill_9_at_random_moments_then_a_run_gives_the_rows_of_an_undisturbed_run(
    deployment: Deployment, seed: int
) -> None:
    """Five deaths a history, twenty with `make soak`; nothing is doubled, nothing is missing, nothing stays held."""
    fill(deployment)
    began = time.monotonic()
    deployment.command("run", code=1)
    seconds = time.monotonic() - began
    undisturbed = everything(deployment)
    wipe(deployment)
    chance = random.Random(seed)
    for _ in range(5):
        process = deployment.start("run", "--json")
        time.sleep(chance.uniform(0.35, 1.0) * seconds)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    result = deployment.json("run", code=1)
    assert everything(deployment) == undisturbed
    assert all(check["passed"] for check in result["checks"] if check["check"] != "unresolved_dead_letters")


def test_a_killed_run_is_reported_as_failed_and_replaced(deployment: Deployment) -> None:
    """Nobody waits for a process that is gone, and nobody has to tell the platform."""
    fill(deployment)
    process = deployment.start("run", "--json")
    while not deployment.query("SELECT 1 FROM ingest.run_leases"):
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    [lease] = deployment.query("SELECT run_id FROM ingest.run_leases")
    result = deployment.json("run", code=1)
    assert result["replaced_runs"] == [lease["run_id"]]
    assert deployment.json("status", code=1)["documents"]["complete"] == 60
