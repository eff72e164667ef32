"""Figures on processes that die or stand still: kill -9 and the run after it (c), a re-run (d), SIGSTOP (f).

What does not belong here: starting things (`embedding_setup.py`) and what a process does (`embedding_process.py`).
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedding_corpus import insert_documents
from embedding_section import Section
from embedding_setup import VERSION, Json, MeteredServer, Setup, clean_environment, figures, wait_until
from first_load import write_corpus

KILLS, QUICK_KILLS = 10, 3
DOCUMENTS, QUICK_DOCUMENTS = 150, 40
BATCH_ITEMS, CONCURRENCY = 16, 4
STARTING_SHARE = 0.3  # of the kills
SLOW_SECONDS = 0.5  # latency of a request: long enough that a kill meets requests in flight
STOPPED_TEXTS, QUICK_STOPPED_TEXTS = 8000, 5000
STOPPED_BATCH_ITEMS = 64
STOP_AFTER_ITEMS = 600
LIMIT_SECONDS = 90.0
# Everything that a reader sees or that is paid for, without times and ids of runs.
TABLES = {
    "documents": "SELECT source_key, status, generation, text_sha256 FROM ingest.documents ORDER BY 1",
    "chunks": "SELECT chunk_id, generation, chunk_index, text FROM ingest.chunks ORDER BY 1",
    "vectors": "SELECT chunk_id, embedding_model_version, embedding::text FROM ingest.chunk_vectors ORDER BY 1",
    "served": "SELECT chunk_id, document_id, generation, text, embedding::text FROM serving.index_1 ORDER BY 1",
    "publications": "SELECT document_id, embedding_model_version, generation FROM serving.publications ORDER BY 1",
    "letters": "SELECT document_id, stage, reason FROM ingest.dead_letters ORDER BY 1",
    "claims": "SELECT * FROM ingest.embedding_claims",
    "leases": "SELECT * FROM ingest.run_leases",
}
DUPLICATES = (
    "SELECT (SELECT count(*) - count(DISTINCT (chunk_id, embedding_model_version)) FROM ingest.chunk_vectors)"
    " + (SELECT count(*) - count(DISTINCT chunk_id) FROM serving.index_1)"
    " + (SELECT count(*) - count(DISTINCT (document_id, text_sha256, chunk_index)) FROM ingest.chunks)"
)
MISSING = (
    "SELECT c.text_sha256 FROM ingest.chunks c WHERE NOT EXISTS (SELECT FROM ingest.chunk_vectors v"
    " WHERE v.chunk_id = c.chunk_id AND v.embedding_model_version = %s)"
)
# Sessions that wait inside a transaction for their process, and those of them that have written vectors in it.
INSIDE = (
    "SELECT count(DISTINCT a.pid), count(l.pid) FROM pg_stat_activity a LEFT JOIN pg_locks l ON l.pid = a.pid"
    " AND l.relation = 'ingest.chunk_vectors'::regclass AND l.mode = 'RowExclusiveLock'"
    " WHERE a.datname = current_database() AND a.state = 'idle in transaction'"
)


@dataclass(frozen=True)
class Deployment:
    """The command line on a folder of documents and two databases of its own."""

    setup: Setup
    folder: Path
    database: str
    dagster: str

    def start(self) -> "subprocess.Popen[str]":
        """Start a pass."""
        urls = {
            "INGEST_DATABASE__URL": self.setup.url(self.database),
            "INGEST_DATABASE__DAGSTER_URL": self.setup.url(self.dagster),
            "INGEST_CONFIG": str(self.folder / "ingest.toml"),
        }
        return subprocess.Popen(
            [sys.executable, "-m", "ingest_assets", "run", "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env={**clean_environment(), **urls},
            start_new_session=True,
        )

    def run(self) -> tuple[float, Json]:
        """Run a pass to its end; returns its seconds and its result."""
        began = time.monotonic()
        found = figures(self.start())
        return time.monotonic() - began, found

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return the rows that must not depend on what died."""
        return {name: self.setup.query(self.database, statement) for name, statement in TABLES.items()}


def kills(setup: Setup) -> Section:
    """Measure what kill -9 costs, whether its rows equal an undisturbed run's, and what an identical re-run sends."""
    folder = setup.folder / "killed"
    (folder / "inbox").mkdir(parents=True)
    write_corpus(folder / "inbox", QUICK_DOCUMENTS if setup.is_quick else DOCUMENTS, setup.seed)
    with MeteredServer(seconds=SLOW_SECONDS) as server:
        model = server.model(max_batch_items=BATCH_ITEMS, max_concurrency=CONCURRENCY)
        (folder / "ingest.toml").write_text(_settings(model))
        calm, killed = (Deployment(setup, folder, setup.database(), setup.database("template0")) for _ in range(2))
        calm_began = time.monotonic()
        calm_seconds, _ = calm.run()
        undisturbed, calm_stats = calm.rows(), server.stats()
        server.reset()
        starting = calm_stats["first_request_at"] - calm_began
        sending = calm_stats["last_answer_at"] - calm_stats["first_request_at"]
        at_kill = _kill_often(setup, killed, server, starting, sending)
        killed.run()
        stats = server.stats()
        section = _kills_section(setup, at_kill, stats)
        differing = [name for name, rows in killed.rows().items() if rows != undisturbed[name]]
        [(duplicates,)] = setup.query(killed.database, DUPLICATES)
        section.add("duplicate rows", duplicates)
        section.add("tables that differ from those of an undisturbed run", ", ".join(differing) or "none")
        server.reset()
        again_seconds, _ = killed.run()
        section.add("items sent by an identical re-run", server.stats()["items"])
        section.add("identical re-run, whole command", f"{again_seconds:.1f} s")
        section.add("undisturbed first load, whole command", f"{calm_seconds:.1f} s")
    setup.drop(calm.database, calm.dagster, killed.database, killed.dagster)
    return section


def _kills_section(setup: Setup, at_kill: list[int], stats: Json) -> Section:
    section = Section(
        "kill -9 and the runs after it",
        f"{QUICK_KILLS if setup.is_quick else KILLS} kills, {stats['distinct_texts']:,} texts (seed {setup.seed})",
        f"The command line on text documents, {CONCURRENCY} requests of {BATCH_ITEMS} at once. Moments: while "
        "it starts and ingests, or after a first request. Target: texts paid twice at most requests at once x texts "
        "in each, for each kill after a first request; no duplicate rows; the rows of an undisturbed run; a re-run "
        "that sends nothing.",
    )
    section.add("requests the server was working on, at each kill after a first request", ", ".join(map(str, at_kill)))
    section.add("texts in these requests, at most", sum(at_kill) * BATCH_ITEMS)
    section.add("texts paid more than once", stats["texts_billed_again"])
    section.add("items paid again", stats["billed_again"])
    allowed = len(at_kill) * CONCURRENCY * BATCH_ITEMS
    section.add(f"items allowed: {len(at_kill)} kills x {CONCURRENCY} x {BATCH_ITEMS}", allowed)
    return section


def _kill_often(
    setup: Setup, deployment: Deployment, server: MeteredServer, starting_seconds: float, sending_seconds: float
) -> list[int]:
    """Start passes and kill each at a moment that is drawn; returns the requests in flight at each that met any."""
    chance, count = random.Random(setup.seed), QUICK_KILLS if setup.is_quick else KILLS
    in_flight = []
    for _ in range(count):
        before, process = server.stats()["requests"], deployment.start()
        if chance.random() < STARTING_SHARE:
            time.sleep(chance.uniform(0.0, starting_seconds))
        else:
            _wait_for_request(server, before, process)
            # Ten deaths together get through about two thirds of the texts.
            time.sleep(chance.uniform(0.0, 1.8 * sending_seconds / count))
        stats = server.stats()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        if stats["requests"] > before:
            in_flight.append(stats["in_flight"])
        process.communicate()
    return in_flight


def _wait_for_request(server: MeteredServer, before: int, process: "subprocess.Popen[str]") -> None:
    wait_until(lambda: server.stats()["requests"] > before or process.poll() == 0, process)


def stopped(setup: Setup) -> Section:
    """Measure what a stopped process delays, for how long, and what is paid twice when it goes on."""
    allowed = CONCURRENCY * STOPPED_BATCH_ITEMS
    section = Section(
        "a stopped process beside a living one",
        f"{CONCURRENCY} requests of {STOPPED_BATCH_ITEMS} at once (seed {setup.seed})",
        "The first process is stopped (SIGSTOP) while it sends, between transactions or before a commit; the second "
        f"runs over the same documents; when all is done, or after {LIMIT_SECONDS:.0f} s, the first goes on. A lease "
        f"lasts 60 s. Target: only claimed texts wait, until the lease ends; at most {allowed} items paid again.",
        ("stopped", "texts it had claimed", "others done after", "claimed ones done after", "paid again", "its end"),
    )
    for is_inside in (False, True):
        section.add(
            "before the commit of vectors" if is_inside else "between transactions", *_stop(setup, is_inside=is_inside)
        )
    return section


def _stop(setup: Setup, *, is_inside: bool) -> tuple[object, ...]:
    name = setup.database()
    texts = QUICK_STOPPED_TEXTS if setup.is_quick else STOPPED_TEXTS
    insert_documents(setup.url(name), texts // 10, 10, 40, setup.seed)
    with MeteredServer() as server:
        job = {"url": setup.url(name), "model": server.model(max_batch_items=STOPPED_BATCH_ITEMS, max_concurrency=4)}
        first = setup.start("embed", **job)
        wait_until(lambda: server.stats()["billed_items"] >= STOP_AFTER_ITEMS, first)
        wait_until(lambda: _is_stopped(setup, name, first, is_inside=is_inside), first)
        stopped_at = time.monotonic()
        first_run = setup.query(name, "SELECT run_id FROM ingest.embedding_runs ORDER BY started_at LIMIT 1")[0][0]
        held = set(setup.query(name, "SELECT text_sha256 FROM ingest.embedding_claims WHERE run_id = %s", first_run))
        second = setup.start("embed", **job)
        others_done, all_done = _watch(setup, name, stopped_at, held)
        os.kill(first.pid, signal.SIGCONT)
        figures(second)
        _, errors = first.communicate()
        again = server.stats()["billed_again"]
    setup.drop(name)
    end = errors.splitlines()[-1].rpartition(".")[0].partition(": ")[2] if first.returncode else "went on"
    return len(held), others_done, all_done, again, end


def _is_stopped(setup: Setup, name: str, process: "subprocess.Popen[str]", *, is_inside: bool) -> bool:
    """Stop a process, and let it go on again where that met it on the other side of a transaction's borders."""
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(0.05)  # what it had asked of the server is answered by then
    [(inside, writing)] = setup.query(name, INSIDE)
    if writing if is_inside else not inside:
        return True
    os.kill(process.pid, signal.SIGCONT)
    return False


def _watch(setup: Setup, name: str, since: float, held: set[tuple[Any, ...]]) -> tuple[str, str]:
    """Return seconds until only texts that were held lacked vectors, and until none did."""
    others_done, seconds = "", 0.0
    while seconds < LIMIT_SECONDS:
        missing = set(setup.query(name, MISSING, VERSION))
        seconds = time.monotonic() - since
        if not others_done and not missing - held:
            others_done = f"{seconds:.1f} s"
        if not missing:
            return others_done, f"{seconds:.1f} s"
        time.sleep(0.25)
    never = f"not within {LIMIT_SECONDS:.0f} s"
    return others_done or never, never


def _settings(model: Json) -> str:
    """Return a settings file with one model."""
    fields = "\n".join(f"{name} = {json.dumps(value)}" for name, value in model.items())
    return f'[source]\nurl = "inbox"\ndeletion_grace_seconds = 2\n\n[[models]]\n{fields}\n'
