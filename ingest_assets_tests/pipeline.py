"""The plain functions of a pass in their order, without Dagster, over any source: fast enough for long histories.

What does not belong here: how objects get into the source, and what must be true afterwards.
"""

import itertools
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field

from ingest_assets.chunk import chunker_version
from ingest_assets.database import Database, rows
from ingest_assets.deletion import DeletionOutcome, delete_documents
from ingest_assets.discovery import Discovery, deletable_documents, discover, overdue_deletions, pending_documents
from ingest_assets.embedding import embed_documents, uncovered_documents
from ingest_assets.extract import extractor_version
from ingest_assets.ingest import ingest_documents
from ingest_assets.leases import lease
from ingest_assets.models import declare_models
from ingest_assets.outcomes import DocumentOutcome
from ingest_assets.settings import LOCAL_MODEL, ExtractSettings, ModelSettings, Settings, SourceSettings
from ingest_assets.source import Source


@dataclass
class Pipeline:
    """One deployment's steps; each may be left out, repeated, or broken off after some documents."""

    database: Database
    source: Source
    models: list[ModelSettings] = field(default_factory=lambda: [LOCAL_MODEL])
    settings: Settings = field(
        default_factory=lambda: Settings(
            source=SourceSettings(deletion_grace_seconds=900), extract=ExtractSettings(min_characters=1)
        )
    )

    def discover(self, *, approved: bool = False) -> Discovery:
        """List the source."""
        return discover(self.database, self.source, self.settings.source, are_deletions_approved=approved)

    def pending(self) -> list[str]:
        """Return what must be read."""
        settings = self.settings
        return pending_documents(self.database, extractor_version(settings.extract), chunker_version(settings.chunker))

    def ingest(self, keys: Iterable[str] | None = None, *, most: int | None = None) -> list[DocumentOutcome]:
        """Ingest what is pending, or some documents; with `most` the run dies after so many."""
        named = self.pending() if keys is None else list(keys)
        outcomes = ingest_documents(self.database, self.source, self.settings, named, uuid.uuid4().hex)
        return list(itertools.islice(outcomes, most))

    def embed(self) -> None:
        """Embed and publish at every version what is not covered."""
        for model, settings in zip(declare_models(self.database, self.models), self.models, strict=True):
            keys = uncovered_documents(self.database, model.version)
            with self.database.connection() as connection:
                ids = [item["document_id"] for item in rows(connection, "select_documents", partition_keys=keys)]
            with lease(self.database, uuid.uuid4().hex) as held:
                embed_documents(self.database, model, settings, self.settings.limits, ids, held=held)

    def delete(self, *, most: int | None = None) -> list[DeletionOutcome]:
        """Delete what is gone as the sensors do: after what came with it, or when the grace is over."""
        models = declare_models(self.database, self.models)
        is_waiting = self.pending() or any(uncovered_documents(self.database, model.version) for model in models)
        keys = (
            overdue_deletions(self.database, self.settings.source) if is_waiting else deletable_documents(self.database)
        )
        return list(itertools.islice(delete_documents(self.database, self.source, keys, uuid.uuid4().hex), most))

    def run(self) -> None:
        """Make one whole pass."""
        self.discover()
        self.ingest()
        self.embed()
        self.delete()
