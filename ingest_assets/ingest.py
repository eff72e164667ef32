"""The first body: fetch, extract, chunk and record some documents, each in a transaction of its own.

What does not belong here: Dagster, vectors, deciding which documents are due (`discovery.py`), and what is written
(`recording.py`).
Extraction runs in processes of its own: while some documents are read there, others are fetched and recorded here.
"""

import hashlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

import psycopg
from psycopg.rows import DictRow

from ingest_assets.chunk import chunk, chunker_version
from ingest_assets.database import Database, rows
from ingest_assets.document_rows import Fetched
from ingest_assets.errors import DocumentRejected, DocumentUnreadable, IngestError, Reason
from ingest_assets.extract import extractor_version
from ingest_assets.extract.pool import Workers
from ingest_assets.identity import chunk_ids, key_of
from ingest_assets.outcomes import DocumentOutcome, superseded
from ingest_assets.recording import Recorder
from ingest_assets.records import Chunk, Extracted, SourceContent
from ingest_assets.settings import Settings
from ingest_assets.source import Source

logger = logging.getLogger(__name__)

T = TypeVar("T")

ABOUT_ROWS = (psycopg.DataError, psycopg.IntegrityError)  # what a document can bring about in the database


def ingest_documents(
    database: Database, source: Source, settings: Settings, partition_keys: Sequence[str], run_id: str
) -> Iterator[DocumentOutcome]:
    """Bring documents up to date with their objects; yields as each is decided, whichever is done first.

    A document that cannot be indexed costs itself: it becomes a dead letter. Running twice is safe.

    Raises:
        EnvironmentProblem: the source, the database or the extraction workers fail; what was yielded stands.
    """
    ingestion = _Ingestion(source, settings, Recorder(database, settings, run_id))
    with database.connection() as connection:
        found = {
            item["partition_key"]: item
            for item in rows(connection, "select_documents", partition_keys=list(partition_keys))
        }
    with Workers[Fetched](settings.extract) as workers:
        for key in partition_keys:
            document = found.get(key)
            if document is None or document["status"] == "deleted":
                yield DocumentOutcome(key, "unknown", detail="no such document; it was deleted, or never listed")
                continue
            if not (ingestion.is_current(document) or is_rechunkable(document, settings)):
                workers.warm()
            fetched = ingestion.begin(document)
            if isinstance(fetched, DocumentOutcome):
                yield fetched
            else:
                workers.submit(fetched, fetched.content.data, document["source_key"])
            for item, finding in workers.finished():
                yield ingestion.conclude(item, finding)
        for item, finding in workers.drain():
            yield ingestion.conclude(item, finding)


@dataclass(frozen=True, slots=True)
class _Ingestion:
    source: Source
    settings: Settings
    recorder: Recorder

    def begin(self, document: DictRow) -> Fetched | DocumentOutcome:
        """Fetch a document; decide on it at once where there is nothing to extract."""
        return self._safely(document, lambda: self._begin(document))

    def conclude(self, fetched: Fetched, finding: Extracted | DocumentRejected) -> DocumentOutcome:
        """Chunk and record what was found in a document."""
        return self._safely(fetched.document, lambda: self._conclude(fetched, finding))

    def is_current(self, document: DictRow) -> bool:
        """Tell whether a document is known, provided that its bytes are the same."""
        return bool(
            document["status"] == "accepted"
            and document["is_intact"]
            and document["extractor_version"] == extractor_version(self.settings.extract)
            and document["chunker_version"] == chunker_version(self.settings.chunker)
        )

    def _safely(self, document: DictRow, work: Callable[[], T]) -> T | DocumentOutcome:
        """Do something about a document; an error that nobody foresaw costs this document, not those behind it."""
        try:
            return work()
        except IngestError:
            raise
        except Exception as error:
            if isinstance(error, psycopg.Error) and not isinstance(error, ABOUT_ROWS):
                raise  # the server's trouble
            logger.exception("Document %s", document["document_id"])
            detail = f"It could not be recorded ({type(error).__name__}); the run's log has the traceback."
            return self.recorder.put_off(document, DocumentUnreadable(Reason.CORRUPT, detail))

    def _begin(self, document: DictRow) -> Fetched | DocumentOutcome:
        if is_rechunkable(document, self.settings):
            return self._rechunk(document)
        try:
            content = fetch(self.source, self.settings, document)
        except DocumentUnreadable as error:
            return self.recorder.put_off(document, error)
        except DocumentRejected as error:
            return self.recorder.reject(document, None, "fetch", error)
        fetched = Fetched(document, content, hashlib.sha256(content.data).digest())
        is_same = document["content_sha256"] == fetched.digest
        # An object may be copied onto itself with other metadata, which says for example whose it is.
        is_same = is_same and (document["object_metadata"] or {}) == dict(content.metadata)
        if is_same and self.is_current(document):
            return self.recorder.confirm(fetched)
        return fetched

    def _rechunk(self, document: DictRow) -> DocumentOutcome:
        text = self.recorder.stored_text(document)
        if text is None:
            return superseded(document)
        return self.recorder.rechunk(document, text, identified(document["document_id"], text, self.settings))

    def _conclude(self, fetched: Fetched, finding: Extracted | DocumentRejected) -> DocumentOutcome:
        if isinstance(finding, DocumentRejected):
            return self.recorder.reject(fetched.document, fetched, "extract", finding)
        chunks = identified(fetched.document["document_id"], finding, self.settings)
        if not chunks:
            empty = DocumentRejected(Reason.EMPTY_DOCUMENT, "The text has no visible character.")
            return self.recorder.reject(fetched.document, fetched, "chunk", empty)
        return self.recorder.accept(fetched, finding, chunks)


def is_rechunkable(document: DictRow, settings: Settings) -> bool:
    """Tell whether a document only waits for another chunker: its text is stored, and its object is as it was read."""
    return bool(
        document["status"] == "accepted"
        and document["is_intact"]
        and document["is_as_read"]
        and document["extractor_version"] == extractor_version(settings.extract)
        and document["chunker_version"] != chunker_version(settings.chunker)
    )


def fetch(source: Source, settings: Settings, document: DictRow) -> SourceContent:
    """Read a document's object.

    Raises:
        DocumentUnreadable: it cannot be read now.
        DocumentRejected: it will never be read in this state.
    """
    key = key_of(source.url, document["source_uri"])
    if key is None:
        raise DocumentUnreadable(Reason.NOT_FOUND, "It belongs to a source that is no longer configured.")
    return source.read(key, max(settings.extract.max_bytes, settings.extract.max_text_bytes))


def identified(document_id: UUID, extracted: Extracted, settings: Settings) -> list[Chunk]:
    """Cut what was read in a document into its chunks."""
    spans = chunk(extracted, settings.chunker)
    ids = chunk_ids(document_id, [span.text for span in spans])
    return [Chunk(chunk_id, digest, span) for (chunk_id, digest), span in zip(ids, spans, strict=True)]
