"""The Dagster UI as people use it: a real headless Chromium against the real webserver and daemon.

Not here: what single runs do (test_dagster.py), and interrupted backfills (test_backfill_daemon.py).
"""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
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
OF_V1 = "run_id IN (SELECT run_id FROM run_tags WHERE key = 'embedding_model_version' AND value = 'v1')"
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
    """A running `dev` with four documents: one under an odd key, one broken, one whose text the model refuses.

    The source is listed once, so that what people do in the UI is not done by a sensor.
    """
    embedding_server.poison.add(POISON)
    deployment.extra_environment["OPENAI_API_KEY"] = "a-key"
    deployment.configure(
        '[source]\nurl = "inbox"\nlisting_interval_seconds = 86400\n' + MODEL.format("v1", embedding_server.url)
    )
    deployment.write("good.md", "The good pump was inspected on the third day, and its seal was replaced.")
    deployment.write(ODD, "The odd pump was inspected on the fourth day, and its seal was replaced.")
    deployment.write("broken.md", b"\x89PNG\r\n\x1a\n" + bytes(100))
    deployment.write("poison.md", POISON)
    with running_dev(deployment) as running:
        wait_for(lambda: runs(deployment, f"status = 'FAILURE' AND {OF_V1}"), 90, "the run that gives the poison up")
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


def test_a_red_partition_says_why_and_is_green_and_searchable_after_its_run_is_started_again(
    deployment: Deployment, dev: Dev, page: Any, embedding_server: EmbeddingServer
) -> None:
    """The cause goes, the failed run is re-executed in the UI, and nothing else is needed."""
    page.goto(f"{dev.url}/assets/documents?view=partitions&partition=broken.md")
    page.get_by_text("failed, and did not materialize").wait_for()
    page.get_by_role("button", name="View all historical events").click()
    page.get_by_role("dialog").get_by_text("broken.md").last.click()
    page.get_by_text("unsupported_type").first.wait_for()
    [failed] = [
        run["run_id"] for run in runs(deployment, f"status = 'FAILURE' AND {tagged('embedding_model_version', 'v1')}")
    ]
    embedding_server.poison.clear()
    page.goto(f"{dev.url}/runs/{failed}")
    page.get_by_text("1 documents have dead letters: poison.md").first.wait_for()
    page.get_by_role("button", name="Re-execute all").click()
    wait_for(ended(deployment, tagged("dagster/parent_run_id", failed), "SUCCESS"), 90, "the run started again")
    assert "poison.md" in [item["source_key"] for item in deployment.query("SELECT source_key FROM serving.index_1")]
    page.goto(f"{dev.url}/assets/chunk_vectors?view=partitions")
    page.get_by_text("Failed (0)").wait_for()


def test_a_red_partition_whose_file_was_replaced_is_materialized_and_searchable(
    deployment: Deployment, dev: Dev, page: Any
) -> None:
    """No listing comes meanwhile: the partition reads the file as it is now."""
    deployment.write("broken.md", "The broken pump was inspected on the fifth day, and its seal was replaced.")
    page.goto(f"{dev.url}/assets/documents?view=partitions&partition=broken.md")
    page.get_by_text("failed, and did not materialize").wait_for()
    page.get_by_role("button", name="Materialize").first.click()
    page.get_by_role("button", name="Launch 1 run").click()
    wait_for(ended(deployment, tagged("dagster/partition", "broken.md"), "SUCCESS"), 90, "a run of the partition")

    def served() -> list[dict[str, Any]]:
        return deployment.query("SELECT text FROM serving.index_1 WHERE source_key = 'broken.md'")

    wait_for(lambda: "broken pump" in str(served()), 90, "the new text in the index")
    page.goto(f"{dev.url}/assets/documents?view=partitions&partition=broken.md")
    page.get_by_text("Latest materialization").first.wait_for()
    page.get_by_text("Failed (0)").wait_for()


def test_a_new_version_is_backfilled_over_all_documents_from_the_partition_picker(
    deployment: Deployment, dev: Dev, page: Any, embedding_server: EmbeddingServer
) -> None:
    """The version appears without a reload; the backfill ends green although a document has no text."""
    embedding_server.poison.clear()
    deployment.configure(
        '[source]\nurl = "inbox"\n' + "".join(MODEL.format(version, embedding_server.url) for version in ("v1", "v2"))
    )
    wait_for(lambda: deployment.json("status", code=None)["vectors"].get("v2"), 60, "the new version")
    page.goto(f"{dev.url}/assets/chunk_vectors?view=partitions")
    page.get_by_role("button", name="Materialize").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="All", exact=True).first.click()
    dialog.get_by_text("Select a partition or create one").last.click()
    page.get_by_text("v2", exact=True).last.locator("..").click()  # the text itself only measures
    page.keyboard.press("Escape")
    dialog.get_by_role("button", name="Launch backfill").click()

    def is_complete() -> bool:
        with psycopg.connect(deployment.dagster_url) as connection:
            found = connection.execute("SELECT status FROM bulk_actions").fetchall()
        return found == [("COMPLETED_SUCCESS",)]

    wait_for(is_complete, 150, "the backfill as a success")
    page.goto(f"{dev.url}/runs?view=backfills")
    page.get_by_text("Success").first.wait_for()


def test_a_failed_check_is_run_alone_and_shows_its_offenders_with_links(
    deployment: Deployment, dev: Dev, page: Any
) -> None:
    """What it means, how many, which, and from there to the document."""
    deployment.query(
        "UPDATE ingest.chunks SET text = text || '!' WHERE document_id ="
        " (SELECT document_id FROM ingest.documents WHERE source_key = 'good.md')"
    )
    page.goto(f"{dev.url}/assets/chunk_vectors?view=checks&checkDetail=hash_freshness")
    page.get_by_text("Vectors are of the text that their chunks hold now").first.wait_for()
    page.locator("button").filter(has_text=re.compile("^Execute$")).click()
    page.get_by_text("Documents served or embedded with a text that is not theirs: 1.").first.wait_for()
    page.get_by_text("Rows were changed by hand").first.wait_for()
    page.get_by_text("[Show Markdown]").first.click()
    page.get_by_text("the served rows differ from the chunks").wait_for()
    page.get_by_role("link", name="good.md").first.click()
    page.get_by_text("Latest materialization").first.wait_for()
    assert "partition=good.md" in page.url
    assert Path(page.url.partition("?")[0]).name in ("documents", "chunk_vectors")
