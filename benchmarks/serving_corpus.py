"""Many passages for the serving figures: short pieces of real documentation, with the local model's vectors.

What does not belong here: measuring, and whole documents: a passage is a few sentences, so that there are enough.
"""

import asyncio
import hashlib
import random
import uuid
from collections.abc import Iterator

import numpy as np
from documentation import manuals
from numpy.typing import NDArray
from pgvector import Vector
from psycopg.types.json import Jsonb

from ingest_assets.database import Database
from ingest_assets.embed import open_provider
from ingest_assets.settings import LOCAL_MODEL

PASSAGE_CHARACTERS = 150  # at least
PAGES = 6000
PASSAGES = 20  # in one document
AUTHORS = 100
CHUNK_COLUMNS = (
    "COPY ingest.chunks (chunk_id, document_id, generation, chunk_index, text, text_sha256, token_count, char_start,"
    " char_end) FROM STDIN"
)
VECTOR_COLUMNS = (
    "COPY ingest.chunk_vectors (chunk_id, embedding_model_version, text_sha256, embedding, run_id) FROM STDIN"
)


def embed(texts: list[str]) -> NDArray[np.float32]:
    """Return the local model's vectors."""

    async def answer() -> NDArray[np.float32]:
        provider = open_provider(LOCAL_MODEL)
        try:
            return (await provider.embed(texts)).vectors
        finally:
            await provider.close()

    return asyncio.run(answer())


class Corpus:
    """As many passages as are asked for, drawn by a seed."""

    def __init__(self, seed: int, passages: int) -> None:
        self._chance = random.Random(seed)
        found = dict.fromkeys(piece for manual in manuals(PAGES, seed) for piece in _pieces(manual.extracted.text))
        texts = self._chance.sample(list(found), min(passages, len(found)))
        print(f"{len(found):,} passages of {sum(map(len, texts)) / len(texts):.0f} characters on average", flush=True)
        self.texts = texts
        self._vectors = embed(texts)
        self._made = 0

    def questions(self, count: int) -> list[str]:
        """Return the beginnings of passages."""
        return [" ".join(text.split()[:12]) for text in self._chance.sample(self.texts, count)]

    def add(self, database: Database, documents: int) -> list[uuid.UUID]:
        """Write documents with chunks and vectors, as the steps leave them; nothing is published."""
        ids: list[uuid.UUID] = []
        with database.connection() as connection, connection.transaction(), connection.cursor() as cursor:
            chunks: list[tuple[object, ...]] = []
            vectors: list[tuple[object, ...]] = []
            for number in range(self._made, self._made + documents):
                uri = f"file:///corpus/{number}.md"
                document_id = uuid.UUID(bytes=hashlib.sha256(uri.encode()).digest()[:16])
                cursor.execute(
                    "INSERT INTO ingest.documents (document_id, source_uri, source_key, partition_key, media_type,"
                    " text, metadata, generation, status) VALUES (%s, %s, %s, %s, 'text/html', '', %s, 1,"
                    " 'accepted')",
                    (document_id, uri, f"{number}.md", f"{number}.md", Jsonb({"author": f"author {number % AUTHORS}"})),
                )
                ids.append(document_id)
                for index, (text, vector) in enumerate(self._passages(number)):
                    chunk_id, digest = uuid.UUID(int=self._chance.getrandbits(128)), hashlib.sha256(text.encode())
                    chunks.append((chunk_id, document_id, 1, index, text, digest.digest(), 300, 0, len(text)))
                    vectors.append((chunk_id, LOCAL_MODEL.version, digest.digest(), Vector(vector), "benchmark"))
            for statement, records in ((CHUNK_COLUMNS, chunks), (VECTOR_COLUMNS, vectors)):
                with cursor.copy(statement) as copy:
                    for record in records:
                        copy.write_row(record)
        self._made += documents
        return ids

    def _passages(self, number: int) -> Iterator[tuple[str, NDArray[np.float32]]]:
        chosen = slice(number * PASSAGES, (number + 1) * PASSAGES)
        return zip(self.texts[chosen], self._vectors[chosen], strict=True)


def _pieces(text: str) -> Iterator[str]:
    piece = ""
    for line in text.splitlines():
        piece = f"{piece} {line}".strip()
        if len(piece) >= PASSAGE_CHARACTERS:
            yield piece[: 6 * PASSAGE_CHARACTERS]
            piece = ""
