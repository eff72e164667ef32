"""An ingested corpus without Dagster: the plain functions in their order, for tests of what comes after."""

from dataclasses import dataclass
from pathlib import Path

from ingest_assets.chunk import chunker_version
from ingest_assets.database import Database, rows
from ingest_assets.discovery import discover, pending_documents
from ingest_assets.embedding import embed_documents
from ingest_assets.extract import extractor_version
from ingest_assets.ingest import ingest_documents
from ingest_assets.leases import Lease
from ingest_assets.models import declare_models
from ingest_assets.settings import LOCAL_MODEL, Settings, SourceSettings
from ingest_assets.source import open_source


@dataclass(frozen=True)
class IngestedCorpus:
    """Where the documents are, and the name of the database that holds them."""

    folder: Path
    database: str


def ingest_corpus(url: str, folder: Path) -> None:
    """Bring a database up to date with a folder, as one pass does."""
    settings = Settings(source=SourceSettings(url=f"file://{folder}"))
    source = open_source(settings.source)
    with Database.connect(url) as database:
        [model] = declare_models(database, [LOCAL_MODEL])
        discover(database, source, settings.source)
        keys = pending_documents(database, extractor_version(settings.extract), chunker_version(settings.chunker))
        list(ingest_documents(database, source, settings, keys, "ingest-run"))
        with database.connection() as connection:
            ids = [item["document_id"] for item in rows(connection, "select_documents", partition_keys=keys)]
        embed_documents(database, model, LOCAL_MODEL, settings.limits, ids, held=Lease("embed-run"))
