"""What every source offers, and the choice of one by its url.

What does not belong here: how a folder (`folder.py`) or a bucket (`s3.py`) is read, which keys are wanted
(`patterns.py`), and what a new, changed or missing object means for the index.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ingest_assets.errors import SettingsError
from ingest_assets.records import SourceContent, SourceObject
from ingest_assets.settings import SourceSettings

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

PAGE_SIZE = 1000  # objects in one page of a listing, at most


class ListingPage(list[SourceObject]):
    """Objects of one page in key order; may be empty where everything in it was left out."""

    def __init__(self, objects: list[SourceObject], last_key: str) -> None:
        super().__init__(objects)
        self.last_key = last_key  # the last key looked at, taken or not: `start_after` of whoever goes on from here


class Source(Protocol):
    """A place documents come from. Nothing is ever written to it."""

    @property
    def url(self) -> str:
        """The absolute beginning of the uri of every object."""

    def list(self, start_after: str | None = None) -> Iterator[ListingPage]:
        """Yield pages of at most `PAGE_SIZE` objects, ordered by the UTF-8 bytes of their keys.

        With `start_after` only keys after it are listed; it need not exist. A listing that ends without an error
        was complete. Errors come from the iteration, not from the call.

        Raises:
            SourceUnavailable: the listing cannot be made, or cannot be completed: nothing may be called missing.
        """

    def head(self, key: str) -> SourceObject | None:
        """Return the object's current state; None when it does not exist or is not part of this source.

        Raises:
            DocumentUnreadable: this object's state is not ours to see.
            SourceUnavailable: nothing can be said about any object.
        """

    def read(self, key: str, max_bytes: int) -> SourceContent:
        """Return the whole of one object together with the identity of exactly these bytes.

        Raises:
            DocumentRejected: `too_large`; its bytes were not read.
            DocumentUnreadable: `not_found`, `access_denied`, `archived`, or `timeout`: it could not be had whole and
                unchanged in three attempts, or the store failed on it.
            SourceUnavailable: no object can be read.
        """


def open_source(settings: SourceSettings, *, s3_client: "S3Client | None" = None) -> Source:
    """Return the source the settings name, narrowed to their patterns; nothing is contacted yet.

    `s3_client` is for callers that have one, as Dagster's `S3Resource` gives it; otherwise one is built.

    Raises:
        SettingsError: the url or a pattern cannot be understood.
        SourceUnavailable: no client can be built, for example because the profile does not exist.
    """
    from ingest_assets.source.patterns import KeyPatterns, SelectedSource

    source = _open_unfiltered(settings, s3_client)
    if not settings.include and not settings.exclude:
        return source
    return SelectedSource(source, KeyPatterns(settings.include, settings.exclude))


def _open_unfiltered(settings: SourceSettings, s3_client: "S3Client | None") -> Source:
    # Imported here, for only one of them is needed and botocore is slow to import.
    scheme, separator, rest = settings.url.partition("://")
    if separator and scheme == "s3":
        return _open_bucket(settings, rest, s3_client)
    if separator and scheme != "file":
        raise SettingsError(f"source.url {settings.url} is neither s3:// nor file:// nor a path.")
    from ingest_assets.source.folder import FolderSource

    # `load_settings` has decoded the url already: what follows file:// is the path itself.
    return FolderSource(Path(rest if separator else settings.url))


def _open_bucket(settings: SourceSettings, location: str, s3_client: "S3Client | None") -> Source:
    from ingest_assets.source.client import build_s3_client
    from ingest_assets.source.s3 import S3Source

    bucket, _, prefix = location.partition("/")
    if not bucket:
        raise SettingsError(f"source.url {settings.url} names no bucket; write s3://bucket/prefix.")
    return S3Source(bucket, prefix, s3_client or build_s3_client(settings))
