"""An application that reads the served index over and over, and remembers every answer that was not whole.

What does not belong here: what is done to the index meanwhile.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg

# Whoever is served a document is served all chunks of one generation.
TORN = """
SELECT p.document_id FROM serving.publications p
LEFT JOIN (SELECT document_id, min(generation) AS first, max(generation) AS last, count(*) AS passages
           FROM serving.index_{0} GROUP BY document_id) i USING (document_id)
WHERE p.embedding_model_version = %s
  AND (p.generation, p.generation, cardinality(p.chunk_ids)) IS DISTINCT FROM (i.first, i.last, i.passages)
"""


@dataclass
class Answers:
    """What the application was told."""

    documents: int  # that there are, whatever happens to them
    by_version: Counter[str] = field(default_factory=Counter)
    wrong: list[object] = field(default_factory=list)


@contextmanager
def reading(url: str, documents: int) -> Iterator[Answers]:
    """Read in a loop while the block runs, and at least once; each look is one snapshot of everything."""
    answers, is_over = Answers(documents), threading.Event()
    reader = threading.Thread(target=_read, args=(url, answers, is_over))
    reader.start()
    try:
        yield answers
    finally:
        is_over.set()
        reader.join()


def _read(url: str, answers: Answers, is_over: threading.Event) -> None:
    try:
        with psycopg.connect(url) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            while True:
                _look(connection, answers)
                connection.rollback()
                if is_over.wait(0.005):  # the others need the processor, too
                    return
    except psycopg.Error as error:
        answers.wrong.append(error)


def _look(connection: psycopg.Connection, answers: Answers) -> None:
    active = connection.execute("SELECT version, number FROM serving.active_model").fetchall()
    if len(active) != 1:
        answers.wrong.append(active)
        return
    [(version, number)] = active
    table = f"serving.index_{number}"
    found = connection.execute(f"SELECT count(DISTINCT document_id) FROM {table}".encode()).fetchall()
    torn = connection.execute(TORN.format(number).encode(), [version]).fetchall()
    if found != [(answers.documents,)] or torn:
        answers.wrong.append((version, found, torn))
    answers.by_version[version] += 1
