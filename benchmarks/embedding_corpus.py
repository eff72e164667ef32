"""Texts for the metered server, and documents made of them that are in the tables without having been extracted.

Every word here is one cl100k token, alone and after a blank, and a text is words with one blank between them: it has
as many tokens as words, for the chunker and for the server. What does not belong here: databases and processes.
"""

import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from uuid import UUID

import psycopg
from first_load import WORDS

from ingest_assets.chunk import count_tokens
from ingest_assets.identity import chunk_ids, document_id, partition_key, text_sha256

ONE_TOKEN = [word for word in dict.fromkeys(WORDS) if count_tokens(word) == 1 and count_tokens(f" {word}") == 1]
EQUAL_SHARE = 0.02
DOCUMENT_COLUMNS = (
    "document_id, source_uri, source_key, partition_key, media_type, text, text_sha256, chunked_text_sha256,"
    " generation, status"
)
CHUNK_COLUMNS = "chunk_id, document_id, generation, chunk_index, text, text_sha256, token_count, char_start, char_end"


def texts(count: int, mean_words: int, chance: random.Random) -> Iterator[str]:
    """Yield texts of half to one and a half times `mean_words` words; one in fifty equals one before it."""
    earlier: list[str] = []
    for _ in range(count):
        if earlier and chance.random() < EQUAL_SHARE:
            yield chance.choice(earlier)
            continue
        text = " ".join(chance.choices(ONE_TOKEN, k=chance.randint(mean_words // 2, mean_words * 3 // 2)))
        if len(earlier) < 1000:
            earlier.append(text)
        yield text


def insert_documents(
    url: str, count: int, chunks_each: int, mean_words: int, seed: int, name: str = "note"
) -> list[UUID]:
    """Put accepted documents into the tables, each with that many chunks, as if ingested; returns their ids."""
    chance = random.Random(seed)
    found = texts(count * chunks_each, mean_words, chance)
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        for start in range(0, count, 1000):
            group = [
                (f"{name}-{number:06}.txt", [next(found) for _ in range(chunks_each)])
                for number in range(start, min(start + 1000, count))
            ]
            with cursor.copy(f"COPY ingest.documents ({DOCUMENT_COLUMNS}) FROM STDIN") as writer:
                for key, parts in group:
                    writer.write_row(_document(key, parts))
            with cursor.copy(f"COPY ingest.chunks ({CHUNK_COLUMNS}) FROM STDIN") as writer:
                for key, parts in group:
                    for record in _chunks(key, parts):
                        writer.write_row(record)
        if count > 1:
            cursor.execute("ANALYZE ingest.documents, ingest.chunks")
    return [document_id(_uri(f"{name}-{number:06}.txt")) for number in range(count)]


def _uri(key: str) -> str:
    return f"file:///generated/{key}"


def _document(key: str, parts: list[str]) -> tuple[Any, ...]:
    uri, text = _uri(key), " ".join(parts)
    digest = text_sha256(text)
    return (document_id(uri), uri, key, partition_key(key), "text/plain", text, digest, digest, 1, "accepted")


def _chunks(key: str, parts: list[str]) -> Iterator[tuple[Any, ...]]:
    identifier = document_id(_uri(key))
    ends = [0]
    for part in parts:
        ends.append(ends[-1] + len(part) + 1)
    for index, ((chunk_id, digest), (start, end)) in enumerate(
        zip(chunk_ids(identifier, parts), pairwise(ends), strict=True)
    ):
        part = parts[index]
        yield chunk_id, identifier, 1, index, part, digest, part.count(" ") + 1, start, end - 1


def distinct_texts(url: str) -> list[str]:
    """Return the distinct texts of all chunks, in the order in which they are sent."""
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT DISTINCT ON (text_sha256) text FROM ingest.chunks ORDER BY text_sha256")
        return [text for (text,) in found]
