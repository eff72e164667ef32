"""The Dagster UI as people use it: a real headless Chromium against the real webserver and daemon.

Not here: what runs do (`test_dagster.py`), and what the UI is given to show (`test_ui.py`).
"""

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from ingest_assets.defs.check_metadata import partition_link
from ingest_assets_tests.embedding_server import EmbeddingServer
from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.running_dev import Dev, running_dev, wait_for

pytestmark = pytest.mark.browser

MODEL = (
    '[[models]]\nversion = "{}"\nprovider = "openai"\nmodel = "m"\ndimensions = 8\nbase_url = "{}"\n'
    "max_batch_items = 4\n"
)
ODD = 'a b, 100% "quoted" |日本.txt'
ODD_PARTITION = "a b%2C 100%25 %22quoted%22 %7C%E6%97%A5%E6%9C%AC.txt"
POISON = "The poisonous pump was inspected on the second day, and its seal was replaced."
PATIENCE = 60_000  # milliseconds until the UI shows what it should


@pytest.fixture
def page() -> Iterator[Any]:
    """A page of a browser that was never here before."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - of an extra that other tests do without

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        opened = browser.new_page(viewport={"width": 1400, "height": 900})
        opened.set_default_timeout(PATIENCE)
        yield opened
        browser.close()


@pytest.fixture
def dev(deployment: Deployment, embedding_server: EmbeddingServer) -> Iterator[Dev]:
    """A running `dev` with four documents: one under an odd key, one broken, one whose text the model refuses."""
    embedding_server.poison.add(POISON)
    deployment.extra_environment["OPENAI_API_KEY"] = "a-key"
    deployment.configure('[source]\nurl = "inbox"\n' + MODEL.format("v1", embedding_server.url))
    deployment.write("good.md", "The good pump was inspected on the third day, and its seal was replaced.")
    deployment.write(ODD, "The odd pump was inspected on the fourth day, and its seal was replaced.")
    deployment.write("broken.md", b"\x89PNG\r\n\x1a\n" + bytes(100))
    deployment.write("poison.md", POISON)
    deployment.json("run", code=1)
    with running_dev(deployment) as running:
        yield running


def runs(deployment: Deployment, where: str) -> list[dict[str, Any]]:
    """Return runs that a condition on `runs` names, the newest first."""
    with psycopg.connect(deployment.dagster_url, row_factory=psycopg.rows.dict_row) as connection:
        statement = f"SELECT run_id, status FROM runs WHERE {where} ORDER BY id DESC"
        return connection.execute(statement.encode()).fetchall()


def tagged(key: str, value: str) -> str:
    """Return the condition that a run carries a tag."""
    return f"run_id IN (SELECT run_id FROM run_tags WHERE key = '{key}' AND value = '{value}')"


def ended(deployment: Deployment, where: str, status: str) -> Callable[[], bool]:
    """Return a condition that the newest of some runs ended so."""
    return lambda: bool(found := runs(deployment, where)) and found[0]["status"] == status


def test_a_partition_with_an_odd_key_is_opened_and_materialized(deployment: Deployment, dev: Dev, page: Any) -> None:
    """From a link to a partition to a run of exactly this document."""
    page.goto(f"{dev.url}{partition_link('documents', ODD, None)}")
    page.get_by_text("source_key").first.wait_for()
    assert page.get_by_text(ODD).count() > 0
    page.get_by_role("button", name="Materialize").first.click()
    page.get_by_role("button", name="Launch 1 run").click()
    wait_for(ended(deployment, tagged("dagster/partition", ODD_PARTITION), "SUCCESS"), 90, "a run of the odd partition")
