"""What a process works with: the settings, the database and the source, opened once and closed together.

What does not belong here: Dagster, and any step's own work.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ingest_assets.database import Database
from ingest_assets.embedded import DatabaseUrls, database_urls
from ingest_assets.errors import SourceUnavailable
from ingest_assets.models import declare_models
from ingest_assets.settings import Settings, load_settings
from ingest_assets.source import Source, open_source
from ingest_assets.tenants import protect_tenants


@dataclass(frozen=True, slots=True)
class Platform:
    """One deployment, as this process sees it."""

    settings: Settings
    urls: DatabaseUrls
    database: Database
    source: Source


@contextmanager
def open_platform(config: Path | None = None) -> Iterator[Platform]:
    """Open everything; the database is migrated and the declared versions are recorded.

    Raises:
        EnvironmentProblem: something that must be there is not; the message says what to do.
    """
    settings = load_settings(config)
    _refuse_loop(settings)
    with database_urls(settings) as urls, Database.connect(urls.ingest) as database:
        protect_tenants(database, settings.readers.tenant_key)
        declare_models(database, settings.models)
        yield Platform(settings, urls, database, open_source(settings.source))


def _refuse_loop(settings: Settings) -> None:
    """Refuse to keep our own files inside the folder that is ingested: every run would find new documents."""
    if not settings.source.url.startswith("file://"):
        return
    folder = Path(settings.source.url.removeprefix("file://"))
    if settings.data_dir == folder or folder in settings.data_dir.parents:
        raise SourceUnavailable(
            f"database.data_dir {settings.data_dir} lies inside the source {folder}; set it to a folder outside."
        )
