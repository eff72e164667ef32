"""Figures on a server without limits: speed beside the bare client (b), memory and time by size (g).

What does not belong here: starting things (`embedding_setup.py`) and what a process does (`embedding_process.py`).
"""

import json
import statistics
import time

from embedding_corpus import distinct_texts, insert_documents
from embedding_section import Section
from embedding_setup import Json, MeteredServer, Setup

BATCH_ITEMS = 128
CONCURRENCIES = (4, 16)
ROUNDS, QUICK_ROUNDS = 3, 1
SPEED_CHUNKS, QUICK_SPEED_CHUNKS = 5000, 2500
SIZES, QUICK_SIZES = (2000, 20_000, 200_000), (2000, 10_000)
DOCUMENTS = 500  # the most that one run takes by default
SPEED_WORDS, SIZE_WORDS = 150, 60
TARGET_RATIO = 0.9
CONTENDERS = ("bare client", "bare client, answers unread", "this platform")


def speed(setup: Setup) -> Section:
    """Measure items a second and processor seconds beside the client library alone, taking turns."""
    corpus = setup.database()
    chunks = QUICK_SPEED_CHUNKS if setup.is_quick else SPEED_CHUNKS
    insert_documents(setup.url(corpus), chunks // 10, 10, SPEED_WORDS, setup.seed)
    texts = setup.folder / "texts.json"
    texts.write_text(json.dumps(distinct_texts(setup.url(corpus))))
    rounds = QUICK_ROUNDS if setup.is_quick else ROUNDS
    section = Section(
        "speed without limits",
        f"{chunks:,} chunks, requests of {BATCH_ITEMS} (seed {setup.seed})",
        f"50 ms + 1 ms an item. Medians of {rounds} turns. Sending lasts from the first request to the last commit "
        "(bare: to the last answer read). The bare client writes nothing; with answers unread it is a floor that no "
        f"user has. Target: at least {TARGET_RATIO} of the bare client while sending, up to where one core is full.",
        ("at once", "who", "texts/s sending", "ratio", "texts/s, plan to publication", "CPU s per 1,000", "cores"),
    )
    with MeteredServer() as server:
        for concurrency in CONCURRENCIES:
            model = server.model(max_batch_items=BATCH_ITEMS, max_concurrency=concurrency)
            turns = [_turn(setup, server, corpus, model) for _ in range(rounds)]
            for who in CONTENDERS:
                section.add(concurrency, who, *_speed_cells(who, turns))
    setup.drop(corpus)
    return section


def _turn(setup: Setup, server: MeteredServer, corpus: str, model: Json) -> dict[str, Json]:
    """Let each contender send the corpus once; returns their figures by name."""
    texts = str(setup.folder / "texts.json")
    found = {}
    for who in CONTENDERS[:2]:
        server.reset()
        item = setup.run("bare", texts=texts, model=model, are_answers_read=who == CONTENDERS[0])
        item["sending"] = item["began"] + item["seconds"] - server.stats()["first_request_at"]
        found[who] = item
    name = setup.database(corpus)
    server.reset()
    item = setup.run("embed", url=setup.url(name), model=model)
    [(committed,)] = setup.query(name, "SELECT extract(epoch FROM max(embedded_at))::float FROM ingest.chunk_vectors")
    item["sending"] = committed - (time.time() - time.monotonic()) - server.stats()["first_request_at"]
    setup.drop(name)
    found[CONTENDERS[2]] = item
    return found


def _speed_cells(who: str, turns: list[dict[str, Json]]) -> tuple[str, ...]:
    def median(figure: str) -> float:
        return statistics.median(float(turn[who][figure]) for turn in turns)

    count = turns[0][who]["embedded"]
    ratio = statistics.median(turn[CONTENDERS[0]]["sending"] / turn[who]["sending"] for turn in turns)
    cpu, seconds = median("cpu_seconds"), median("seconds")
    return (
        f"{count / median('sending'):.0f}",
        f"{ratio:.2f}",
        f"{count / seconds:.0f}",
        f"{1000 * cpu / count:.2f}",
        f"{cpu / seconds:.2f}",
    )


def memory(setup: Setup) -> Section:
    """Measure peak memory and seconds per 1,000 chunks of one run at several sizes."""
    section = Section(
        "one run by size",
        f"without limits (seed {setup.seed})",
        f"One run over {DOCUMENTS} documents, 16 requests at once, from plan to publication. Target: memory and "
        "seconds per 1,000 chunks are flat.",
        ("chunks", "peak memory", "seconds", "seconds per 1,000", "of them sending", "CPU s per 1,000"),
    )
    with MeteredServer() as server:
        for chunks in QUICK_SIZES if setup.is_quick else SIZES:
            section.add(f"{chunks:,}", *_size_cells(setup, server, chunks))
    return section


def _size_cells(setup: Setup, server: MeteredServer, chunks: int) -> tuple[str, ...]:
    name = setup.database()
    insert_documents(setup.url(name), DOCUMENTS, chunks // DOCUMENTS, SIZE_WORDS, setup.seed)
    server.reset()
    found = setup.run("embed", url=setup.url(name), model=server.model(max_concurrency=16))
    stats = server.stats()
    setup.drop(name)
    per = 1000 / chunks
    return (
        f"{found['peak_mebibytes']:.0f} MiB",
        f"{found['seconds']:.1f}",
        f"{found['seconds'] * per:.2f}",
        f"{(stats['last_answer_at'] - stats['first_request_at']) * per:.2f}",
        f"{found['cpu_seconds'] * per:.2f}",
    )
