"""The queue of one run as a stream of claimed texts: nobody pays for one text twice.

What does not belong here: sending, and what becomes of a text. The queue is a difference (`ingest.embedding_queue`):
it is read in hash order in keyset pages without words, and texts are claimed and read a slice at a time, so memory
stays flat and no cursor is held open. What another run has claimed is left to it.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from psycopg.rows import DictRow

from ingest_assets.database import Connection, Database, rows, run
from ingest_assets.leases import LEASE_SECONDS
from ingest_assets.models import require_live
from ingest_assets.records import Unit

PAGE_UNITS = 16_384  # distinct texts of the queue read at once, without their words: about 8 MiB
SLICE_UNITS = 1024  # texts claimed and held in memory at once


class Claims:
    """Claims of one run at one version over its queue.

    `queue` holds the parameters of `ingest.embedding_queue`: version, watermark and document_ids.
    """

    def __init__(self, database: Database, queue: dict[str, Any], run_id: str) -> None:
        self._database, self._queue, self._run_id = database, queue, run_id

    async def units(self) -> AsyncGenerator[Unit]:
        """Yield the texts this run has to pay for, each claimed."""
        after = b""
        while page := await asyncio.to_thread(self._page, after):
            after = bytes(page[-1]["text_sha256"])
            for part in _slices(page):
                for unit in await asyncio.to_thread(self._claim, part):
                    yield unit

    def release(self, connection: Connection, texts: Sequence[bytes]) -> None:
        """Give up claims, in the transaction that decided on their texts."""
        run(connection, "release_claims", version=self._queue["version"], run_id=self._run_id, texts=list(texts))

    def reuse(self, connection: Connection, texts: Sequence[bytes] | None = None) -> set[bytes]:
        """Copy vectors that queued texts have at this version (None: all texts); returns the texts."""
        require_live(connection, self._queue["version"])
        found = rows(
            connection,
            "copy_vectors",
            texts=None if texts is None else list(texts),
            run_id=self._run_id,
            **self._queue,
        )
        return {bytes(item["text_sha256"]) for item in found}

    def _page(self, after: bytes) -> list[DictRow]:
        with self._database.connection() as connection:
            return rows(connection, "queue_page", after=after, page_size=PAGE_UNITS, **self._queue)

    def _claim(self, part: Sequence[DictRow]) -> list[Unit]:
        """Claim some texts of a page; returns those this run has to send.

        A text whose vector arrived between the page and the claim is left where it is: the copy at the end of the run
        takes it.
        """
        by_digest = {bytes(item["text_sha256"]): item for item in part}
        version = self._queue["version"]

        def work(connection: Connection) -> list[DictRow]:
            require_live(connection, version)
            claimed = rows(
                connection,
                "claim_texts",
                version=version,
                run_id=self._run_id,
                lease_seconds=LEASE_SECONDS,
                texts=list(by_digest),
            )
            chunk_ids = [by_digest[bytes(item["text_sha256"])]["chunk_id"] for item in claimed]
            words = rows(connection, "claimed_words", version=version, chunk_ids=chunk_ids)
            wanted = [item for item in words if not item["is_known"]]
            unwanted = {bytes(item["text_sha256"]) for item in claimed} - {
                bytes(item["text_sha256"]) for item in wanted
            }
            self.release(connection, sorted(unwanted))
            return wanted

        found = self._database.transact(work)
        return [_unit(by_digest[bytes(item["text_sha256"])], item["text"]) for item in found]


def _slices(page: Sequence[DictRow]) -> list[Sequence[DictRow]]:
    return [page[start : start + SLICE_UNITS] for start in range(0, len(page), SLICE_UNITS)]


def _unit(item: DictRow, text: str) -> Unit:
    return Unit(bytes(item["text_sha256"]), text, item["token_count"], item["failed_runs"], item["origin"])
