"""A large corpus is moved to another embedding model version while an application searches it."""

import threading
from collections import Counter

import psycopg
import pytest

from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.index_readers import reading
from ingest_assets_tests.texts import paragraphs

DOCUMENTS, PARAGRAPHS = 200, 64
SETTINGS = '[source]\nurl = "inbox"\n[chunker]\nmax_tokens = 120\nmin_tokens = 30\n'
MODELS = [
    f'[[models]]\nversion = "v{size}"\nprovider = "local"\nmodel = "wordllama-l2-supercat"\ndimensions = {size}\n'
    "price_per_million_tokens = 0.02\n"
    for size in (256, 64)
]
SEARCH = "SELECT version, count(*) FROM serving.search(query_text => 'note', k => 10) GROUP BY version"


def search_on(url: str, is_over: threading.Event, answers: Counter[object]) -> None:
    """Ask over and over, and count each answer."""
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            while not is_over.wait(0.002):
                answers[tuple(connection.execute(SEARCH.encode()).fetchall())] += 1
    except psycopg.Error as error:
        answers[error] += 1


@pytest.mark.soak
def test_twenty_thousand_chunks_move_to_other_dimensions_under_load_at_the_planned_cost(deployment: Deployment) -> None:
    """No search fails or mixes versions, what was paid is what was planned, and everything adds up at the end."""
    deployment.configure(SETTINGS + MODELS[0])
    for number in range(DOCUMENTS):
        deployment.write(f"{number}.md", f"# Note {number}\n\n" + paragraphs(number, PARAGRAPHS))
    assert deployment.json("run")["totals"]["chunks"] >= 20_000
    deployment.configure(SETTINGS + "".join(MODELS))
    plan = deployment.json("plan", "--model", "v64")
    is_over, answers = threading.Event(), Counter[object]()
    searching = threading.Thread(target=search_on, args=(deployment.database_url, is_over, answers))
    searching.start()
    try:
        with reading(deployment.database_url, DOCUMENTS) as looks:
            result = deployment.json("run")
            deployment.json("models", "activate", "v64")
            deployment.json("models", "rollback")
            deployment.json("models", "activate", "v64")
            deployment.json("rebuild-index")
            deployment.json("models", "retire", "v256")
    finally:
        is_over.set()
        searching.join()
    assert looks.wrong == []
    assert looks.by_version.keys() == {"v256", "v64"}
    assert answers.keys() == {(("v256", 10),), (("v64", 10),)}
    assert (result["embedded"], result["sent_tokens"]) == (plan["units"], plan["tokens"])
    assert [item["cost"] for item in result["spend"]] == [pytest.approx(plan["cost"])]
    assert all(check["passed"] for check in deployment.json("verify"))
