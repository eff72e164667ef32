"""Take the pictures of docs/ui.md from the real Dagster UI over the example corpus.

It deploys into a temporary folder, and needs Chromium and `pip install "ingest-assets[browser]"`. The corpus gets one
file that cannot be indexed and a second embedding model version, so that there is something red and something to do.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from playwright.sync_api import Page, sync_playwright

EXAMPLES = Path(__file__).parent
IMAGES = EXAMPLES.parent / "docs" / "images"
SOURCE = '[source]\nurl = "inbox"\n'
MODEL = (
    '[[models]]\nversion = "wordllama-{0}-v1"\nprovider = "local"\nmodel = "wordllama-l2-supercat"\ndimensions = {0}\n'
)
ADDED = "wordllama-128-v1"
BROKEN = "contracts/interrupted-upload.pdf"
SIZE = {"width": 1240, "height": 760}
LARGEST_BYTES = 150_000
PATIENCE_SECONDS = 120.0


def main() -> None:
    """Take every picture."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        deploy(folder)
        with running_ui(folder) as url, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport=SIZE)
            page.set_default_timeout(PATIENCE_SECONDS * 1000)
            photograph(folder, url, page)


def deploy(folder: Path) -> None:
    """Index the corpus and a file that is cut off."""
    shutil.copytree(EXAMPLES / "corpus", folder / "inbox")
    target = folder / "inbox" / BROKEN
    target.parent.mkdir()
    shutil.copy(EXAMPLES / "trouble" / "interrupted-upload.pdf", target)
    (folder / "ingest.toml").write_text(SOURCE + MODEL.format(256))
    subprocess.run([*command(folder), "run"], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def photograph(folder: Path, url: str, page: Page) -> None:
    """Go through the UI as docs/ui.md does."""

    def shot(name: str) -> None:
        page.wait_for_timeout(1500)  # drawings move into their place
        # The folder of this machine is nobody's business.
        page.evaluate(
            """folder => { const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
            while (walk.nextNode()) walk.currentNode.data = walk.currentNode.data.replaceAll(folder, '/srv') }""",
            str(folder),
        )
        taken = page.screenshot(path=IMAGES / f"{name}.png")
        if len(taken) > LARGEST_BYTES:
            raise SystemExit(f"{name}.png has {len(taken)} bytes; show less of it.")
        print(f"{name}.png: {len(taken)} bytes")

    page.set_viewport_size({"width": 1900, "height": 640})  # a smaller graph is drawn without details
    page.goto(f"{url}/asset-groups/")
    page.get_by_text("retrieval_index").last.wait_for()
    shot("lineage")
    page.set_viewport_size(SIZE)
    page.goto(f"{url}/assets/documents?view=overview")
    page.get_by_text("source_uri").first.wait_for()
    shot("asset")
    open_partition(url, page, "manuals/maintenance-manual.pdf")
    page.get_by_text("preview").first.wait_for()
    shot("partition")
    open_partition(url, page, BROKEN)
    page.get_by_text("failed, and did not materialize").wait_for()
    shot("red-partition")
    page.get_by_role("button", name="View all historical events").click()
    page.get_by_role("dialog").get_by_text(BROKEN).last.click()
    page.get_by_text("what to do").first.wait_for()
    shot("red-reason")
    page.goto(f"{url}/assets/dead_letters?view=checks&checkDetail=unresolved_dead_letters")
    page.get_by_text("Latest execution").wait_for()
    page.get_by_text("[Show Markdown]").first.click()
    shot("check")
    (folder / "ingest.toml").write_text(SOURCE + MODEL.format(256) + MODEL.format(128))
    wait_for(lambda: ask(folder, "status")["vectors"].get(ADDED), "the added version")
    launch_backfill(url, page, shot)
    page.goto(f"{url}/runs")
    page.get_by_text("lane: backfill").first.wait_for()
    shot("runs")


def open_partition(url: str, page: Page, key: str) -> None:
    """Look at a document's partition."""
    page.goto(f"{url}/assets/documents?view=partitions&partition={quote(key, safe='')}")


def launch_backfill(url: str, page: Page, shot: Callable[[str], None]) -> None:
    """Ask for the added version over all documents, and wait until it is there."""
    page.goto(f"{url}/assets/chunk_vectors?view=partitions")
    page.get_by_role("button", name="Materialize").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="All", exact=True).first.click()
    dialog.get_by_text("Select a partition or create one").last.click()
    page.get_by_text(re.compile("128-v1$")).locator("visible=true").last.click()  # the list shortens long names
    page.keyboard.press("Escape")
    shot("backfill")
    dialog.get_by_role("button", name="Launch backfill").click()
    dialog.wait_for(state="hidden")
    page.goto(f"{url}/runs?view=backfills")
    page.get_by_text("Success").first.wait_for()
    shot("backfills")


def ask(folder: Path, *words: str) -> Any:
    """Return the answer of a command."""
    ran = subprocess.run([*command(folder), *words, "--json"], check=False, capture_output=True, text=True)
    return json.loads(ran.stdout)


def command(folder: Path) -> list[str]:
    """Return the beginning of every command."""
    return [sys.executable, "-m", "ingest_assets", "--config", str(folder / "ingest.toml")]


@contextmanager
def running_ui(folder: Path) -> Iterator[str]:
    """Run `dev`, yield the address of its UI, and end it as Ctrl-C does."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with (folder / "dev.log").open("w") as log:
        process = subprocess.Popen([*command(folder), "dev", "--port", str(port)], stdout=log, stderr=log)
    try:
        wait_for(lambda: answers(url), "the UI")
        yield url
    finally:
        os.kill(process.pid, signal.SIGINT)
        process.wait(timeout=60)


def answers(url: str) -> bool:
    """Tell whether the UI is up."""
    try:
        return httpx.get(f"{url}/server_info", timeout=2).is_success
    except httpx.HTTPError:
        return False


def wait_for(condition: Callable[[], Any], what: str) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"Not within {PATIENCE_SECONDS:.0f} s: {what}.")
        time.sleep(0.5)


if __name__ == "__main__":
    main()
