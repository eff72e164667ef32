"""What becomes of a run's units: vectors, dead letters and failed attempts, with the counters that say so.

What does not belong here: sending, and which units there are (`claims.py`). Each call is one transaction: what it
decides, what it counts and the claims it gives up are committed together.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import numpy as np
import psycopg
from numpy.typing import NDArray

from ingest_assets.claims import Claims
from ingest_assets.database import Connection, Database, copy, rows, run
from ingest_assets.embed.engine import Unfinished
from ingest_assets.embed.failures import RateLimited
from ingest_assets.errors import DatabaseUnavailable, EmbeddingTransient, Reason, UnitRejected
from ingest_assets.ledger import Ledger, UnitCounts
from ingest_assets.models import require_live
from ingest_assets.records import Unit

MOST_FAILED_RUNS = 3  # runs in which a text gets no answer while others do; then it is given up on


class UnitWriter:
    """Writes one run's units at one version. `queue` holds the parameters of `ingest.embedding_queue`."""

    def __init__(self, database: Database, queue: dict[str, Any], ledger: Ledger, claims: Claims) -> None:
        self._database, self._queue, self._ledger, self._claims = database, queue, ledger, claims
        self._version = ledger.version
        self.rejected_documents: set[UUID] = set()  # with letters that this run wrote

    def write(
        self, units: Sequence[Unit], vectors: NDArray[np.float32], rejections: Mapping[bytes, UnitRejected]
    ) -> None:
        """Commit a finished batch: vectors, dead letters, counters and the release of its claims together.

        A batch that takes the database longer than it allows a statement is committed in halves: it is paid for.
        """
        try:
            self._write(units, vectors, rejections)
        except DatabaseUnavailable as error:
            if len(units) < 2 or not isinstance(error.__cause__, psycopg.errors.QueryCanceled):  # noqa: PLR2004  # one cannot be halved
                raise
            middle = len(units) // 2
            self.write(units[:middle], vectors[:middle], rejections)
            self.write(units[middle:], vectors[middle:], {})

    def _write(
        self, units: Sequence[Unit], vectors: NDArray[np.float32], rejections: Mapping[bytes, UnitRejected]
    ) -> None:
        tried = [unit.text_sha256 for unit in units if unit.failed_runs]

        def work(connection: Connection) -> tuple[UnitCounts, set[UUID], dict[str, int]]:
            require_live(connection, self._version)
            embedded = self._write_vectors(connection, units, vectors) if units else 0
            documents = self._write_letters(connection, rejections)
            if tried or rejections:
                run(connection, "forget_attempts", version=self._version, texts=[*tried, *rejections])
            self._claims.release(connection, [*(unit.text_sha256 for unit in units), *rejections])
            added = UnitCounts(
                embedded=embedded,
                vanished=len(units) - embedded,
                dead_lettered=len(rejections),
                sent_tokens=sum(unit.token_count for unit in units),
            )
            self._ledger.note(connection, added)
            self._ledger.note_spend(connection, units)
            return added, documents, self._ledger.note_requests(connection)

        added, documents, noted = self._database.transact(work)
        self._ledger.counts.add(added)
        self._ledger.noted(noted)
        self.rejected_documents |= documents

    def _write_vectors(self, connection: Connection, units: Sequence[Unit], vectors: NDArray[np.float32]) -> int:
        run(connection, "create_vector_staging")
        records = ((unit.text_sha256, vector) for unit, vector in zip(units, vectors, strict=True))
        copy(connection, "copy_vector_staging", ("bytea", "vector"), records)
        run(connection, "analyze_vector_staging")
        inserted = rows(
            connection,
            "insert_vectors",
            version=self._version,
            document_ids=self._queue["document_ids"],
            run_id=self._ledger.run_id,
        )
        return len({bytes(item["text_sha256"]) for item in inserted})

    def _write_letters(
        self, connection: Connection, rejections: Mapping[bytes, UnitRejected], attempts: int = 1
    ) -> set[UUID]:
        """Write a letter for every chunk of the run that holds a refused text; returns their documents."""
        documents: set[UUID] = set()
        for digest, error in sorted(rejections.items()):
            written = rows(
                connection,
                "insert_unit_letters",
                text_sha256=digest,
                reason=error.reason,
                detail=error.detail,
                attempts=attempts,
                run_id=self._ledger.run_id,
                **self._queue,
            )
            documents |= {item["document_id"] for item in written}
        return documents

    def note_unanswered(self, unfinished: Unfinished) -> EmbeddingTransient | None:
        """Count a failed run for texts that got no answer while others did; the third makes a dead letter.

        Returns what is left to try again, None where everything is given up on. A limit of the account is no fault of
        a text and counts for none.
        """
        failed = {key: error for key, error in unfinished.units.items() if not isinstance(error, RateLimited)}

        def work(connection: Connection) -> tuple[UnitCounts, set[UUID]]:
            require_live(connection, self._version)
            counted = rows(
                connection,
                "note_attempts",
                version=self._version,
                run_id=self._ledger.run_id,
                texts=list(failed),
                errors=[str(error) for error in failed.values()],
            )
            exhausted = {
                bytes(item["text_sha256"]): UnitRejected(
                    Reason.ATTEMPTS_EXHAUSTED,
                    f"It got no answer in {item['attempts']} runs while other texts did; last: {item['last_error']}",
                )
                for item in counted
                if item["attempts"] >= MOST_FAILED_RUNS
            }
            documents = self._write_letters(connection, exhausted, MOST_FAILED_RUNS)
            run(connection, "forget_attempts", version=self._version, texts=list(exhausted))
            self._claims.release(connection, list(exhausted))
            added = UnitCounts(dead_lettered=len(exhausted))
            self._ledger.note(connection, added)
            return added, documents

        if not failed:
            return unfinished
        added, documents = self._database.transact(work)
        self._ledger.counts.add(added)
        self.rejected_documents |= documents
        return unfinished if added.dead_lettered < len(unfinished.units) else None
