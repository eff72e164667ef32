"""The retrieval index at 20,000 and 200,000 passages: publication, HNSW builds, latency of `serving.search`, recall.

    .venv/bin/python benchmarks/serving.py [--passages 20000,200000] [--questions 200] [--seed N] [--write]

What does not belong here: whether the passages are the right ones (`retrieval.py`). Publication is that of the
platform; questions are asked by a login that has only the role `ingest_reader`.
"""

import argparse
import os
import secrets
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from embedding_section import Section
from pgvector import Vector
from pgvector.psycopg import register_vector
from psycopg.conninfo import make_conninfo
from serving_corpus import PASSAGES, Corpus, embed

from ingest_assets.database import Database
from ingest_assets.embedded import database_urls
from ingest_assets.models import ModelVersion, declare_models, ensure_ann_index
from ingest_assets.publish import publish_documents
from ingest_assets.settings import LOCAL_MODEL, DatabaseSettings, Settings

READER = "reader_of_benchmark"
K = 10
EF_SEARCH = (40, 100, 200, 400)  # pgvector's default is 40
AGAIN = 50  # documents that are published a second time, into the living index
WAYS = {
    "vector": "query_vector => %(vector)s",
    "vector, one author of 100": 'query_vector => %(vector)s, filters => \'{"metadata": {"author": "author 7"}}\'',
    "vector, one document": 'query_vector => %(vector)s, filters => \'{"document": "7.md"}\'',
    "keyword": "query_text => %(text)s",
    "keyword, common words only": "query_text => 'what is this in the and to that'",
    "hybrid": "query_vector => %(vector)s, query_text => %(text)s",
    "exact": "query_vector => %(vector)s, is_exact => true",
}


def main() -> None:
    """Measure, print, and write where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passages", default="20000,200000", help="sizes, ascending, with commas between")
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="drawn at run time by default")
    parser.add_argument("--write", action="store_true", help="replace these sections of results.md")
    given = parser.parse_args()
    sizes = [int(size) for size in given.passages.split(",")]
    corpus = Corpus(given.seed, sizes[-1])
    questions = corpus.questions(given.questions)
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(database=DatabaseSettings(data_dir=Path(folder)))
        with database_urls(settings) as urls, Database.connect(urls.ingest) as database:
            [model] = declare_models(database, [LOCAL_MODEL])
            with database.connection() as connection:
                connection.execute(f"CREATE ROLE {READER} LOGIN; GRANT ingest_reader TO {READER}".encode())
            with psycopg.connect(make_conninfo(urls.ingest, user=READER), autocommit=True) as reader:
                register_vector(reader)
                measured = [sized(database, model, reader, corpus, questions, size) for size in sizes]
    for section in sections(sizes, measured, given.seed, given.questions):
        if given.write:
            section.write()


def sized(
    database: Database, model: ModelVersion, reader: "psycopg.Connection[Any]", corpus: Corpus, questions: list[str],
    size: int,
) -> dict[str, Any]:  # fmt: skip
    """Bring the index to a size, and measure everything there."""
    with database.connection() as connection:
        [here] = connection.execute(f"SELECT count(*) AS found FROM {model.serving_name}".encode())
        [index] = connection.execute(
            "SELECT max(indexrelid::regclass::text) AS name FROM pg_index JOIN pg_class c ON c.oid = indexrelid"
            " JOIN pg_am a ON a.oid = c.relam WHERE indrelid = %s::regclass AND amname = 'hnsw'",
            [model.serving_name],
        )
        if index["name"] is not None:
            connection.execute(f"DROP INDEX {index['name']}".encode())
    documents = corpus.add(database, (size - here["found"]) // PASSAGES)

    def publish(document_ids: list[Any]) -> None:
        publish_documents(database, model, document_ids, tolerance=0, run_id="benchmark")

    found: dict[str, Any] = {"bulk": len(documents) * PASSAGES / timed(lambda: publish(documents))}
    found["build"] = timed(lambda: ensure_ann_index(database, model))
    with database.connection() as connection:
        connection.execute(f"VACUUM ANALYZE {model.serving_name}".encode())
        name = [model.serving_name] * 2
        [place] = connection.execute("SELECT pg_table_size(%s) AS rows, pg_indexes_size(%s) AS indexes", name)
    found |= {"mib": (place["rows"] / 2**20, place["indexes"] / 2**20)}
    found["live"] = AGAIN * PASSAGES / timed(lambda: publish(documents[:AGAIN]))
    asked = [{"vector": Vector(vector), "text": text} for vector, text in zip(embed(questions), questions, strict=True)]
    answers: dict[str, list[set[str]]] = {}
    for way, arguments in {
        **WAYS,
        **{f"ef_search {ef}": f"{WAYS['vector']}, ef_search => {ef}" for ef in EF_SEARCH},
    }.items():
        statement = f"SELECT chunk_id FROM serving.search({arguments}, k => {K})".encode()
        reader.execute(statement, asked[0])
        seconds, answers[way] = [], []
        for question in asked:
            began = time.perf_counter()
            answers[way].append({row[0] for row in reader.execute(statement, question)})
            seconds.append(time.perf_counter() - began)
        found[way] = seconds
        print(f"{size}: {way}: {latency(seconds)}", flush=True)
    found["load"] = os.getloadavg()[0]
    found["recall"] = {
        way: recall(answers[way], answers["exact"]) for way in answers if way.startswith("ef_") or way == "vector"
    }
    print(size, found["bulk"], found["build"], found["live"], found["mib"], found["recall"], flush=True)
    return found


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that something takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def recall(found: list[set[str]], exact: list[set[str]]) -> float:
    """Return the share of the truly nearest that were found."""
    return sum(len(near & every) for near, every in zip(found, exact, strict=True)) / sum(map(len, exact))


def latency(seconds: list[float]) -> str:
    """Return the median and the 95th percentile in milliseconds."""
    return f"{statistics.median(seconds) * 1000:.1f}, {statistics.quantiles(seconds, n=20)[-1] * 1000:.1f}"


def sections(sizes: list[int], measured: list[dict[str, Any]], seed: int, questions: int) -> list[Section]:
    """Return what was measured as sections of the results."""
    columns = ("figure", *(f"{size:,} passages" for size in sizes))
    written = Section(
        "publication and builds", f"{LOCAL_MODEL.dimensions} dimensions (seed {seed})",
        "Documents of 20 passages through the platform's publication; Postgres as it is embedded (128 MB of shared "
        "buffers). Both cores shared with others.",
        columns, subject="Retrieval index",
    )  # fmt: skip
    for figure, shown in (
        ("passages/s published before the HNSW index is there", lambda found: f"{found['bulk']:,.0f}"),
        ("HNSW build", lambda found: f"{found['build']:.1f} s"),
        ("passages/s published again into the living HNSW index", lambda found: f"{found['live']:,.0f}"),
        ("rows, indexes in MiB", lambda found: "{:,.0f}, {:,.0f}".format(*found["mib"])),
    ):
        written.add(figure, *map(shown, measured))
    asked = Section(
        "latency and recall", f"k = {K}, {questions} questions (seed {seed})",
        "`serving.search` from one connection of a reader, median and 95th percentile in ms. Recall: of the 10 nearest "
        "by a scan of everything, how many the index gives. Target: at least 0.95 at the default settings.",
        columns, subject="Retrieval index",
    )  # fmt: skip
    for way in WAYS:
        asked.add(f"{way}: p50, p95", *(latency(found[way]) for found in measured))
    asked.add("load average of the machine at the end", *(f"{found['load']:.1f}" for found in measured))
    asked.add("**recall@10 at the default settings**", *(f"**{found['recall']['vector']:.3f}**" for found in measured))
    for ef in EF_SEARCH:
        way = f"ef_search {ef}"
        asked.add(
            f"recall@10, p50, p95 at {way}",
            *(f"{found['recall'][way]:.3f}, {latency(found[way])}" for found in measured),
        )
    return [written, asked]


if __name__ == "__main__":
    main()
