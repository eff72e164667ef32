"""Checks at a million chunks: after a run (its documents in full, the corpus by counters) and everything, as scheduled.

    .venv/bin/python benchmarks/checks.py [--documents N] [--write]

The corpus is written by SQL, 20 chunks of a thousand characters a document, each with a vector of 256 dimensions
and a served row. Every figure is the second of two runs: the first one reads from disk what later ones find in memory.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ingest_assets.checks import CHECKS, run_checks
from ingest_assets.database import Database
from ingest_assets.embedded import database_urls
from ingest_assets.models import declare_models
from ingest_assets.settings import load_settings
from ingest_assets.source import open_source
from ingest_assets.verdicts import CheckContext

RESULTS = Path(__file__).with_name("results.md")
CHUNKS_PER_DOCUMENT = 20
DOCUMENTS_OF_A_RUN = 500
VERSION = "wordllama-256-v1"

# The index of words is no business of the checks, and would take longest to write.
CORPUS = """
DO $$ DECLARE found text; BEGIN
    FOR found IN SELECT indexname FROM pg_indexes WHERE schemaname = 'serving' AND indexdef LIKE '%%gin (tsv)%%' LOOP
        EXECUTE 'DROP INDEX serving.' || quote_ident(found);
    END LOOP;
END $$;
ALTER TABLE serving.index_1 ALTER COLUMN tsv DROP EXPRESSION;
CREATE TEMP TABLE written AS SELECT n, 'doc-' || n || '.txt' AS source_key, 'file:///bench/doc-' || n || '.txt' AS uri,
    (SELECT string_agg(repeat(md5(n || '/' || j), 32), '' ORDER BY j) FROM generate_series(0, {chunks} - 1) j) AS text
    FROM generate_series(1, {documents}) n;
INSERT INTO ingest.documents (document_id, source_uri, source_key, partition_key, etag, size_bytes, seen_etag,
    seen_size_bytes, text, text_sha256, chunked_text_sha256, media_type, generation, status)
SELECT encode(substr(sha256(convert_to(uri, 'UTF8')), 1, 16), 'hex')::uuid, uri, source_key, source_key, 'e', 1, 'e', 1,
    text, sha256(convert_to(text, 'UTF8')), sha256(convert_to(text, 'UTF8')), 'text/plain', 1, 'accepted' FROM written;
INSERT INTO ingest.chunks (chunk_id, document_id, generation, chunk_index, text, text_sha256, token_count, char_start,
    char_end)
SELECT gen_random_uuid(), document_id, 1, j, part, sha256(convert_to(part, 'UTF8')), 300, 1024 * j, 1024 * (j + 1)
FROM written JOIN ingest.documents USING (source_key), generate_series(0, {chunks} - 1) j,
    LATERAL (SELECT repeat(md5(n || '/' || j), 32) AS part) made ORDER BY n, j;
INSERT INTO ingest.chunk_vectors (chunk_id, embedding_model_version, text_sha256, embedding, run_id)
SELECT chunk_id, '{version}', text_sha256, array_fill(0.0625, ARRAY[256])::vector, 'bench'
FROM ingest.chunks ORDER BY document_id, chunk_index;
INSERT INTO serving.index_1 (chunk_id, document_id, generation, chunk_index, source_key, text, heading, metadata,
    embedding)
SELECT c.chunk_id, c.document_id, 1, c.chunk_index, d.source_key, c.text, '{{}}', '{{}}', v.embedding
FROM ingest.chunks c JOIN ingest.documents d USING (document_id) JOIN ingest.chunk_vectors v USING (chunk_id)
ORDER BY c.document_id, c.chunk_index;
INSERT INTO serving.publications (document_id, embedding_model_version, generation, chunk_ids, positions, run_id)
SELECT document_id, '{version}', 1, array_agg(chunk_id ORDER BY chunk_index), '[]', 'bench'
FROM ingest.chunks GROUP BY document_id;
INSERT INTO ingest.embedding_coverage (document_id, embedding_model_version, generation, published, run_id)
SELECT document_id, '{version}', 1, true, 'bench' FROM ingest.documents;
"""


@contextmanager
def written_corpus(folder: Path, documents: int) -> Iterator[CheckContext]:
    """Give what checks look at, over a corpus of that many documents."""
    config = folder / "ingest.toml"
    (folder / "inbox").mkdir()
    config.write_text('[source]\nurl = "inbox"\n')
    settings = load_settings(config)
    with database_urls(settings) as urls, Database.connect(urls.ingest) as database:
        declare_models(database, settings.models)
        with database.connection() as connection:
            for statement in CORPUS.format(chunks=CHUNKS_PER_DOCUMENT, documents=documents, version=VERSION).split(
                ";\nCREATE TEMP"
            ):
                text = statement if statement.lstrip().startswith("DO") else "CREATE TEMP" + statement
                connection.execute(text.encode())
            connection.execute(b"VACUUM ANALYZE")
        yield CheckContext(database, open_source(settings.source), deletion_grace_seconds=900)


def seconds_of(context: CheckContext) -> dict[str, float]:
    """Return the seconds of each check and of all of them; every check must pass."""
    took = {}
    for check in CHECKS:
        began = time.perf_counter()
        assert check.run(context).passed, check.name
        took[check.name] = time.perf_counter() - began
    began = time.perf_counter()
    run_checks(context)
    return {**took, "all": time.perf_counter() - began}


def figures_of(context: CheckContext) -> list[dict[str, float]]:
    """Return the seconds of each check after a run of some documents, and of everything."""
    with context.database.connection() as connection:
        found = connection.execute(
            b"SELECT document_id FROM ingest.documents ORDER BY random() LIMIT %d" % DOCUMENTS_OF_A_RUN
        ).fetchall()
    after_run = replace(context, documents=tuple(item["document_id"] for item in found))
    return [[seconds_of(item) for _ in range(2)][-1] for item in (after_run, context)]


def main() -> None:
    """Measure, print, and append to the results with --write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=50_000)
    parser.add_argument("--write", action="store_true", help="append to benchmarks/results.md")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="ingest-bench-") as name,
        written_corpus(Path(name), options.documents) as context,
    ):
        figures = figures_of(context)
    lines = [
        f"### Checks, {options.documents} documents, {options.documents * CHUNKS_PER_DOCUMENT} chunks",
        "",
        f"| check | after a run of {DOCUMENTS_OF_A_RUN} documents | everything |",
        "|---|---|---|",
        *(f"| {name} | {figures[0][name]:.2f} s | {figures[1][name]:.1f} s |" for name in figures[0]),
    ]
    print("\n".join(lines))
    if options.write:
        with RESULTS.open("a") as results:
            results.write("\n".join(["", *lines, ""]))


if __name__ == "__main__":
    main()
