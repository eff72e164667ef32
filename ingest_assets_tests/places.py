"""Places documents come from, as their owners use them: a folder, a bucket, a versioned bucket.

What does not belong here: our side of them. A place says itself what is in it, so a test needs no second bookkeeping.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ingest_assets.records import SourceContent, SourceObject
from ingest_assets.settings import SourceSettings
from ingest_assets.source import ListingPage, Source, open_source

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class Place(Protocol):
    """Objects by key."""

    def put(self, key: str, data: bytes) -> None:
        """Write an object."""

    def remove(self, key: str) -> None:
        """Delete an object, or nothing."""

    def rewind(self, key: str) -> None:
        """Take the newest version or delete marker of a key away, where there are versions."""

    def forget(self, key: str) -> None:
        """Delete a version of a key that is not the current one, where there is one."""

    def objects(self) -> dict[str, bytes]:
        """Return what is there now."""

    def open(self) -> Source:
        """Open it as the settings would."""


class FolderPlace:
    """A folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()

    def put(self, key: str, data: bytes) -> None:
        """Write a file."""
        (self.folder / key).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / key).write_bytes(data)

    def remove(self, key: str) -> None:
        """Delete a file."""
        (self.folder / key).unlink(missing_ok=True)

    def rewind(self, key: str) -> None:
        """Do nothing: a folder has no versions."""

    def forget(self, key: str) -> None:
        """Do nothing: a folder has no versions."""

    def objects(self) -> dict[str, bytes]:
        """Return all files."""
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return {path.relative_to(self.folder).as_posix(): path.read_bytes() for path in files}

    def open(self) -> Source:
        """Open the folder."""
        return open_source(SourceSettings(url=f"file://{self.folder}"))


class BucketPlace:
    """A prefix of a bucket."""

    def __init__(self, client: "S3Client", bucket: str, prefix: str) -> None:
        self.client, self.bucket, self.prefix = client, bucket, prefix

    def put(self, key: str, data: bytes) -> None:
        """Upload an object."""
        self.client.put_object(Bucket=self.bucket, Key=self.prefix + key, Body=data)

    def remove(self, key: str) -> None:
        """Delete an object; in a versioned bucket that is one more delete marker."""
        self.client.delete_object(Bucket=self.bucket, Key=self.prefix + key)

    def rewind(self, key: str) -> None:
        """Delete the current version or delete marker, so that the one before it is current again."""
        for version, is_current in self._versions(key):
            if is_current:
                self.client.delete_object(Bucket=self.bucket, Key=self.prefix + key, VersionId=version)

    def forget(self, key: str) -> None:
        """Delete one version that is not current."""
        old = [version for version, is_current in self._versions(key) if not is_current]
        if old:
            self.client.delete_object(Bucket=self.bucket, Key=self.prefix + key, VersionId=old[-1])

    def objects(self) -> dict[str, bytes]:
        """Return all current objects."""
        found = self.client.list_objects_v2(Bucket=self.bucket, Prefix=self.prefix).get("Contents", [])
        return {
            entry["Key"].removeprefix(self.prefix): self.client.get_object(Bucket=self.bucket, Key=entry["Key"])[
                "Body"
            ].read()
            for entry in found
        }

    def open(self) -> Source:
        """Open the prefix."""
        return open_source(SourceSettings(url=f"s3://{self.bucket}/{self.prefix}"), s3_client=self.client)

    def _versions(self, key: str) -> list[tuple[str, bool]]:
        """Return versions and delete markers of a key, none where the bucket keeps no versions."""
        found = self.client.list_object_versions(Bucket=self.bucket, Prefix=self.prefix + key)
        entries = [*found.get("Versions", []), *found.get("DeleteMarkers", [])]
        return [
            (entry["VersionId"], entry["IsLatest"])
            for entry in entries
            if entry["Key"] == self.prefix + key and entry["VersionId"] != "null"
        ]


class SmallPages:
    """A source whose pages are small, and around whose pages things happen."""

    def __init__(self, source: Source, size: int = 3, before: Callable[[int], object] = id) -> None:
        self.source, self.size, self.before = source, size, before
        self.url = source.url
        self.pages = 0

    def list(self, start_after: str | None = None) -> Iterator[ListingPage]:
        """Cut pages; `before` is called with the number of the page that is about to be made."""
        while True:
            self.before(self.pages)
            objects: list[SourceObject] = []
            for page in self.source.list(start_after):
                objects += page
                if len(objects) >= self.size:
                    break
            if not objects:
                return
            start_after = objects[: self.size][-1].key
            self.pages += 1
            yield ListingPage(objects[: self.size], start_after)

    def head(self, key: str) -> SourceObject | None:
        """Ask the source."""
        return self.source.head(key)

    def read(self, key: str, max_bytes: int) -> SourceContent:
        """Read from the source."""
        return self.source.read(key, max_bytes)
