"""One process that is measured: a run of the platform, the bare client, or documents that arrive one by one.

A job comes as JSON on standard input, the figures go as JSON to standard output. Imports and start-up are no part of
them. What does not belong here: starting these processes (`embedding_setup.py`) and judging their figures.
"""

import asyncio
import json
import resource
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import openai
import psycopg
from embedding_corpus import insert_documents

from ingest_assets.database import Database
from ingest_assets.embed import open_provider
from ingest_assets.embedding import EmbeddingOutcome, count_foreign_claims, embed_documents
from ingest_assets.leases import lease
from ingest_assets.models import declare_models
from ingest_assets.records import Lane
from ingest_assets.settings import LimitSettings, ModelSettings

CLAIM_POLL_SECONDS = 0.2
Job = dict[str, Any]


def cpu_seconds() -> float:
    """Return processor time of this process and its threads so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def peak_mebibytes() -> float:
    """Return this process's own peak of resident memory; what getrusage says is inherited from whoever started it."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def measured(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what the work found, with its times and the peak of the whole process."""
    began, cpu = time.monotonic(), cpu_seconds()
    found = work()
    times = {"began": began, "seconds": time.monotonic() - began, "cpu_seconds": cpu_seconds() - cpu}
    return {**times, **found, "peak_mebibytes": peak_mebibytes()}


class Platform:
    """The platform as a run sees it, without Dagster."""

    def __init__(self, database: Database, job: Job) -> None:
        self.database = database
        self.settings = ModelSettings(**job["model"])
        self.lane: Lane = job.get("lane", "incremental")
        [self.model] = declare_models(database, [self.settings])

    def embed(self, documents: Sequence[uuid.UUID]) -> EmbeddingOutcome:
        """Do one run over these documents."""
        with lease(self.database, str(uuid.uuid4())) as held:
            outcome = embed_documents(
                self.database,
                self.model,
                self.settings,
                LimitSettings(),
                documents,
                held=held,
                lane=self.lane,
                approved_units=10**9,
            )
        if outcome.failure is not None:
            raise outcome.failure
        return outcome

    def foreign_claims(self) -> int:
        """Return how many texts others are paying for."""
        return count_foreign_claims(self.database, self.model, run_id="")


def embed(job: Job) -> dict[str, Any]:
    """Embed and publish everything that is chunked, waiting for what others have claimed, as a pass does."""
    with Database.connect(job["url"]) as database:
        platform = Platform(database, job)
        documents = _document_ids(job["url"])
        outcomes: list[EmbeddingOutcome] = []

        def work() -> dict[str, Any]:
            outcomes.append(platform.embed(documents))
            own_share_done = time.monotonic()
            while outcomes[-1].left_to_others:
                while platform.foreign_claims():
                    time.sleep(CLAIM_POLL_SECONDS)
                outcomes.append(platform.embed(documents))
            return {"embedded": sum(item.embedded for item in outcomes), "own_share_done": own_share_done}

        return {**measured(work), "left_at_first": outcomes[0].left_to_others}


def bare(job: Job) -> dict[str, Any]:
    """Send the same texts with the client library alone: same requests, same concurrency, nothing kept."""
    settings = ModelSettings(**job["model"])
    texts, size = json.loads(Path(job["texts"]).read_text()), settings.max_batch_items
    encoding: Any = open_provider(settings).fingerprint()["encoding_format"]
    batches = iter([texts[start : start + size] for start in range(0, len(texts), size)])

    async def worker(client: openai.AsyncOpenAI) -> None:
        for batch in batches:
            request: Any = {"model": settings.model, "input": batch, "encoding_format": encoding}
            if job["are_answers_read"]:
                assert len((await client.embeddings.create(**request)).data) == len(batch)
            else:
                await client.embeddings.with_raw_response.create(**request)

    async def send() -> None:
        async with openai.AsyncOpenAI(base_url=settings.base_url, api_key="none", max_retries=0) as client:
            await asyncio.gather(*(worker(client) for _ in range(settings.max_concurrency)))

    def work() -> dict[str, Any]:
        asyncio.run(send())
        return {"embedded": len(texts)}

    return measured(work)


def arrivals(job: Job) -> dict[str, Any]:
    """Insert documents one after the other; returns the seconds from each one's commit to its publication."""
    waits: list[float] = []
    with Database.connect(job["url"]) as database:
        platform = Platform(database, job)
        for number in range(job["documents"]):
            time.sleep(job["pause_seconds"])
            seed = job["seed"] + number
            [document] = insert_documents(job["url"], 1, job["chunks_each"], job["mean_words"], seed, f"new-{seed}")
            began = time.monotonic()
            outcome = platform.embed([document])
            assert all(item.published for item in outcome.publications)
            waits.append(time.monotonic() - began)
    return {"waits": waits}


def _document_ids(url: str) -> list[uuid.UUID]:
    with psycopg.connect(url) as connection:
        return [identifier for (identifier,) in connection.execute("SELECT document_id FROM ingest.documents")]


JOBS: dict[str, Callable[[Job], dict[str, Any]]] = {"embed": embed, "bare": bare, "arrivals": arrivals}


if __name__ == "__main__":
    given = json.load(sys.stdin)
    print(json.dumps(JOBS[given["kind"]](given)))
