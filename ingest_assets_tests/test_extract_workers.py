"""Extraction in processes of its own: what a document may cost, what it cannot harm, and that nothing stays behind.

What does not belong here: what is read from a document (test_extract*.py), and runs (test_main_job.py).
"""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ingest_assets.chunk import chunker_version
from ingest_assets.database import Database
from ingest_assets.discovery import discover, pending_documents
from ingest_assets.errors import DocumentRejected, EnvironmentProblem, Reason
from ingest_assets.extract import extractor_version
from ingest_assets.extract.messages import Request
from ingest_assets.extract.pool import Finding, Workers, end_waiting
from ingest_assets.extract.process import END_SECONDS, WorkerProcess
from ingest_assets.ingest import ingest_documents
from ingest_assets.records import Extracted
from ingest_assets.settings import ChunkerSettings, ExtractSettings, Settings, SourceSettings
from ingest_assets.source import open_source
from ingest_assets_tests.bombs import endless_pdf, growing_pdf, long_docx, slow_html

LOW = ExtractSettings(min_characters=1, timeout_seconds=2, memory_limit_mb=64)
HASTY = ExtractSettings(timeout_seconds=1)
PATIENT = ExtractSettings(min_characters=1, timeout_seconds=300, memory_limit_mb=8192)
CHUNKER = ChunkerSettings()
BUSY_SECONDS = 1.5  # of a processor: more than a start takes, so that a document is being read
READ_FOR_EVER = """
import sys
from ingest_assets.extract.pool import Workers
from ingest_assets.settings import ExtractSettings
with Workers(ExtractSettings(timeout_seconds=300)) as workers:
    workers.submit(None, open(sys.argv[1], "rb").read(), sys.argv[1])
    list(workers.drain())
"""


@pytest.fixture(autouse=True)
def _no_waiting_workers() -> Iterator[None]:
    """Each test begins and ends without workers."""
    end_waiting()
    yield
    end_waiting()


def text(finding: Finding) -> str:
    """Return the text of a document that was accepted."""
    assert isinstance(finding, Extracted), finding
    return finding.text


def rejection(finding: Finding) -> DocumentRejected:
    """Return why a document was rejected."""
    assert isinstance(finding, DocumentRejected), finding
    return finding


def read(data: bytes, key: str, settings: ExtractSettings = LOW) -> Finding:
    """Read one document."""
    with Workers[None](settings) as workers:
        workers.submit(None, data, key)
        [(_, finding)] = workers.drain()
    return finding


def worker_pids(parent: int | None = None) -> set[int]:
    """Return the workers of a process; of this one by default."""
    children = psutil.Process(parent).children(recursive=True)
    return {child.pid for child in children if "ingest_assets.extract.worker" in child.cmdline()}


def busy_worker(parent: int | None = None) -> int:
    """Wait until a worker is in the middle of a document that takes long, and return it."""
    for _ in range(3000):
        for pid in worker_pids(parent):
            if psutil.Process(pid).cpu_times().user > BUSY_SECONDS:
                return pid
        time.sleep(0.02)
    raise AssertionError("no worker is busy")


def gone(pid: int) -> bool:
    """Wait until a process is gone; False where it stays."""
    for _ in range(1500):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.02)
    return False


def test_a_document_that_takes_too_long_is_a_timeout() -> None:
    """It is given up at the limit, and the sentence names the limit."""
    found = rejection(read(slow_html(), "a.html", HASTY))
    assert (found.reason, found.detail) == (Reason.TIMEOUT, "Reading it took more than 1 seconds.")


def test_a_form_that_draws_itself_ends_at_the_limit() -> None:
    """A kilobyte that would keep the library busy for days."""
    assert rejection(read(endless_pdf(), "a.pdf")).reason in (Reason.TIMEOUT, Reason.TOO_LARGE)


def test_a_document_that_takes_all_memory_is_too_large(caplog: pytest.LogCaptureFixture) -> None:
    """The library aborts when it gets no more; the run's log says where that was, the sentence does not."""
    with caplog.at_level(logging.WARNING):
        found = rejection(read(growing_pdf(), "a.pdf", ExtractSettings(timeout_seconds=60, memory_limit_mb=32)))
    assert (found.reason, found.detail) == (Reason.TOO_LARGE, "Reading it needs more than 32 MiB of memory.")
    assert "Extracting a.pdf" in caplog.text
    assert "extract_pdf" in caplog.text


def test_an_honest_document_is_not_called_damaged_for_lack_of_memory() -> None:
    """Libraries say "not well-formed" when they get no memory; with more of it the same bytes are read."""
    data = long_docx()
    few = ExtractSettings(timeout_seconds=60, memory_limit_mb=8)
    assert rejection(read(data, "a.docx", few)).reason is Reason.TOO_LARGE
    assert text(read(data, "a.docx", PATIENT)).startswith("Line 0\n\nLine 1\n\n")


def test_a_damaged_document_stays_corrupt() -> None:
    """A limit that was not met changes no reason."""
    assert rejection(read(long_docx(100)[:900], "a.docx", PATIENT)).reason is Reason.CORRUPT


def test_every_document_gets_its_own_text_whatever_its_neighbours_do() -> None:
    """Answers are never mixed up, also around documents that end their worker."""
    documents = {f"{number}.txt": f"Document number {number}.".encode() for number in range(40)}
    bombs = {"7.pdf": endless_pdf(), "8.pdf": growing_pdf(), "23.html": slow_html()}
    found: dict[str, Finding] = {}
    with Workers[str](LOW) as workers:
        for key, data in sorted({**documents, **bombs}.items()):
            workers.submit(key, data, key)
            found.update(workers.finished())
        found.update(workers.drain())
    assert {key: text(found[key]) for key in documents} == {key: data.decode() for key, data in documents.items()}
    assert {rejection(found[key]).reason for key in bombs} <= {Reason.TIMEOUT, Reason.TOO_LARGE}


def test_a_name_that_is_no_unicode_reaches_the_worker() -> None:
    """Files may have any name."""
    assert text(read(b"Pumps and valves", os.fsdecode(b"\xff\xfe.md"), PATIENT)) == "Pumps and valves"


def test_a_worker_that_dies_once_does_not_condemn_its_document() -> None:
    """The machine, or the document before, may have done it: a new worker reads the document."""
    page = b"<html><body>" + b"<p>word</p>" * 60_000
    with Workers[None](PATIENT) as workers:
        workers.submit(None, page, "a.html")
        [pid] = worker_pids()
        os.kill(pid, signal.SIGKILL)
        [(_, finding)] = workers.drain()
    assert text(finding).count("word") == 60_000


def test_a_document_whose_workers_die_is_corrupt() -> None:
    """Two deaths are the document's fault."""

    def kill_two() -> None:
        for _ in range(2):
            pid = busy_worker()
            os.kill(pid, signal.SIGKILL)
            gone(pid)

    killer = threading.Thread(target=kill_two)
    killer.start()
    found = rejection(read(slow_html(), "a.html", PATIENT))
    killer.join()
    assert (found.reason, found.detail) == (Reason.CORRUPT, "The program that reads it crashed twice (signal 9).")


def test_the_next_run_of_a_process_finds_the_workers_warm() -> None:
    """Half a second of imports is paid once."""
    read(b"First.", "a.txt")
    before = worker_pids()
    read(b"Second.", "b.txt")
    assert worker_pids() == before
    assert len(before) == 1


def test_a_worker_that_ran_out_of_memory_is_replaced() -> None:
    """What stopped in the middle may have left anything behind."""
    read(b"First.", "a.txt")
    before = worker_pids()
    assert rejection(read(b"word " * 1_000_000, "a.txt", LOW.model_copy(update={"memory_limit_mb": 1}))).reason is (
        Reason.TOO_LARGE
    )
    read(b"Second.", "b.txt")
    assert not worker_pids() & before


def test_nothing_starts_where_nothing_is_read() -> None:
    """A run that finds everything unchanged pays nothing."""
    with Workers[None](PATIENT) as workers:
        assert list(workers.finished()) == list(workers.drain()) == []
    assert worker_pids() == set()


def test_an_error_in_a_run_ends_its_workers() -> None:
    """Also the one that is in the middle of a document."""
    with pytest.raises(ZeroDivisionError), Workers[None](PATIENT) as workers:
        workers.submit(None, slow_html(), "a.html")
        pids = worker_pids()
        raise ZeroDivisionError
    assert len(pids) == 1
    assert all(map(gone, pids))


def test_an_abandoned_run_ends_its_workers_and_leaves_the_rest_to_the_next(database_url: str, tmp_path: Path) -> None:
    """What was decided stands; the document in the middle is as it was."""
    (tmp_path / "a.md").write_text("A note that is read at once.")
    (tmp_path / "b.html").write_bytes(slow_html())
    settings = Settings(source=SourceSettings(url=f"file://{tmp_path}"))
    source, versions = open_source(settings.source), (extractor_version(settings.extract), chunker_version(CHUNKER))
    with Database.connect(database_url) as database:
        discover(database, source, settings.source)
        outcomes = ingest_documents(database, source, settings, pending_documents(database, *versions), "run")
        assert next(outcomes).source_key == "a.md"
        pids = worker_pids()
        outcomes.close()  # type: ignore[attr-defined]
        assert pending_documents(database, *versions) == ["b.html"]
    assert len(pids) == 1
    assert all(map(gone, pids))


def test_workers_die_with_a_process_that_is_killed(tmp_path: Path) -> None:
    """A killed run leaves nothing that eats a processor, even in the middle of a document."""
    (tmp_path / "a.html").write_bytes(slow_html())
    process = subprocess.Popen([sys.executable, "-c", READ_FOR_EVER, str(tmp_path / "a.html")])
    worker = busy_worker(process.pid)
    process.kill()
    process.wait()
    assert gone(worker)


def test_an_interrupt_at_the_terminal_ends_the_workers_without_their_tracebacks(tmp_path: Path) -> None:
    """Ctrl-C goes to all processes of the terminal; only the command itself answers."""
    (tmp_path / "a.html").write_bytes(slow_html())
    # What runs in the background of a shell is deaf to interrupts, and so would be what it starts.
    command = ["env", "--default-signal=INT", sys.executable, "-m", "ingest_assets", "extract", "a.html"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True)
    worker = busy_worker(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate()
    assert "Traceback" not in errors
    assert process.returncode != 0
    assert gone(worker)


def test_workers_know_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """What reads hostile files has no password to give away."""
    monkeypatch.setenv("INGEST_DATABASE__URL", "postgresql://writer:secret@db.example.org/ingest")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    read(b"First.", "a.txt")
    [pid] = worker_pids()
    assert "secret" not in str(psutil.Process(pid).environ())


def test_what_a_machine_lacks_stops_the_run_and_condemns_no_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recognition program that is not installed says nothing about a scan."""
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EnvironmentProblem, match=r"extract\.ocr"):
        read(growing_pdf(), "a.pdf", ExtractSettings(ocr=True))


@pytest.mark.soak
def test_a_worker_is_replaced_after_many_documents() -> None:
    """What libraries leak does not add up."""
    seen = set()
    with Workers[int](PATIENT) as workers:
        for number in range(2500):
            workers.submit(number, b"A line.", "a.txt")
            seen |= worker_pids() if number % 100 == 0 else set()
            list(workers.finished())
        list(workers.drain())
    assert len(seen) > 1


@pytest.mark.soak
def test_a_worker_ends_itself_where_the_run_is_held_up() -> None:
    """A run that waits for a lock for minutes does not let a document that never ends use a processor meanwhile."""
    worker = WorkerProcess.start()
    worker.await_ready()
    worker.send(Request("a.html", ExtractSettings(timeout_seconds=0.1)), slow_html(), 60)
    assert gone(worker.process.pid)
    assert worker.end(END_SECONDS).code == -signal.SIGXCPU
