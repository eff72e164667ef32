"""A folder of the local machine as a source.

What does not belong here: watching for changes, and reading formats. Regular files only. Left out: names that begin
with "." (and folders so named), Office's lock files (`~$…`) and `Thumbs.db`; links to folders, whose files are
listed where they are; links to files outside the folder. The folder itself may be a link.
"""

import errno
import os
import stat
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from ingest_assets.errors import DocumentRejected, DocumentUnreadable, Reason, SourceUnavailable
from ingest_assets.records import SourceContent, SourceObject
from ingest_assets.source import PAGE_SIZE, ListingPage

READ_ATTEMPTS = 3
CLOCK_GRAIN_NS = 20_000_000  # longer than the step of any kernel's file clock
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MISSING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
_DENIED = frozenset({errno.EACCES, errno.EPERM})


class FolderSource:
    """Every document below one folder; keys are paths relative to it, with "/" between their parts."""

    def __init__(self, folder: Path) -> None:
        self._root = os.fsencode(os.path.abspath(folder)).rstrip(b"/")
        self.url = f"file://{quote(self._root)}/"

    def list(self, start_after: str | None = None) -> Iterator[ListingPage]:
        """Yield pages in key order; memory holds the names of one path of folders, not of the whole tree."""
        root = self._require_root()
        objects: list[SourceObject] = []
        for found in self._walk((start_after or "").encode("utf-8", "surrogateescape")):
            objects.append(found)
            if len(objects) == PAGE_SIZE:
                yield ListingPage(objects, found.key)
                objects = []
        if self._require_root() != root:
            # An unmounted disk leaves an empty folder behind, which must not look like deletions.
            raise SourceUnavailable(f"The folder {self._name()} was replaced while it was listed; run again.")
        if objects:
            yield ListingPage(objects, objects[-1].key)

    def head(self, key: str) -> SourceObject | None:
        """Return the file's current state, or None where the listing would not show it."""
        self._require_root()
        path = _path_of(key)
        try:
            status = self._status(path) if path is not None and self._is_real_folder(path) else None
        except OSError as error:
            failure = _failure(error)
            if failure.reason is Reason.NOT_FOUND:
                return None
            raise failure from error
        return self._describe(path, status) if path is not None and status is not None else None

    def read(self, key: str, max_bytes: int) -> SourceContent:
        """Return the file's bytes, read while nobody changed it, and its identity as of this read."""
        path = _path_of(key)
        for _ in range(READ_ATTEMPTS):
            content = self._read_once(path, max_bytes)
            if content is not None:
                return content
        detail = f"the file changed during each of {READ_ATTEMPTS} attempts to read it"
        raise DocumentUnreadable(Reason.TIMEOUT, detail)

    def _walk(self, after: bytes) -> Iterator[SourceObject]:
        open_folders = [self._entries(b"")]
        while open_folders:
            path = next(open_folders[-1], None)
            if path is None:
                open_folders.pop()
            elif path.endswith(b"/"):
                if path > after or after.startswith(path):
                    open_folders.append(self._entries(path))
            elif path > after and (found := self._listed(path)) is not None:
                yield found

    def _entries(self, folder: bytes) -> Iterator[bytes]:
        """Return the paths in one folder, those of folders with "/" at the end: so they sort as whole keys do."""
        try:
            with os.scandir(self._full(folder)) as entries:
                paths = sorted(
                    folder + entry.name + (b"/" if entry.is_dir(follow_symlinks=False) else b"")
                    for entry in entries
                    if not _is_hidden(entry.name)
                )
            return iter(paths)
        except OSError as error:
            if folder and error.errno in _MISSING:
                return iter(())
            raise self._unlistable(folder, error) from error

    def _listed(self, path: bytes) -> SourceObject | None:
        try:
            status = self._status(path)
        except OSError as error:
            if error.errno in _MISSING:
                return None
            raise self._unlistable(os.path.dirname(path), error) from error
        return self._describe(path, status) if status is not None else None

    def _status(self, path: bytes) -> os.stat_result | None:
        """Return the state of a regular file of this source, None for anything else."""
        full = self._full(path)
        status = os.lstat(full)
        if stat.S_ISLNK(status.st_mode):
            if not os.path.realpath(full).startswith(self._real_root() + b"/"):
                return None
            status = os.stat(full)
        return status if stat.S_ISREG(status.st_mode) else None

    def _is_real_folder(self, path: bytes) -> bool:
        """Return whether no part of the path but the last leads through a link."""
        folder = os.path.dirname(path)
        return os.path.realpath(self._full(folder)).rstrip(b"/") == (self._real_root() + b"/" + folder).rstrip(b"/")

    def _read_once(self, path: bytes | None, max_bytes: int) -> SourceContent | None:
        """Return the content, or None when the file changed meanwhile."""
        try:
            with self._open(path) as file:
                before = os.fstat(file.fileno())
                if before.st_size > max_bytes:
                    detail = f"{before.st_size} bytes, and at most {max_bytes} are read"
                    raise DocumentRejected(Reason.TOO_LARGE, detail)
                _let_age(before)
                data = file.read(before.st_size + 1)
                after = os.fstat(file.fileno())
        except OSError as error:
            self._require_root()
            raise _failure(error) from error
        is_whole = len(data) == before.st_size and _etag(before) == _etag(after)
        return SourceContent(self._describe(path or b"", after), data) if is_whole else None

    def _open(self, path: bytes | None) -> BinaryIO:
        if path is None or not self._is_real_folder(path) or self._status(path) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        # Not to be held up by a pipe, nor led astray by a link, that has taken the file's place since.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return os.fdopen(os.open(os.path.realpath(self._full(path)), flags), "rb")

    def _describe(self, path: bytes, status: os.stat_result) -> SourceObject:
        return SourceObject(
            key=path.decode("utf-8", "surrogateescape"),
            uri=self.url + quote(path),
            etag=_etag(status),
            size_bytes=status.st_size,
            last_modified=_modified(status),
        )

    def _full(self, path: bytes) -> bytes:
        return (self._root + b"/" + path).rstrip(b"/") or b"/"

    def _real_root(self) -> bytes:
        return os.path.realpath(self._full(b"")).rstrip(b"/")

    def _name(self, path: bytes = b"") -> str:
        return self._full(path).decode("utf-8", "backslashreplace")

    def _require_root(self) -> tuple[int, int]:
        """Return what tells this folder from another at the same place."""
        try:
            status = os.stat(self._full(b""))
        except OSError as error:
            raise self._unlistable(b"", error) from error
        if not stat.S_ISDIR(status.st_mode):
            raise SourceUnavailable(f"{self._name()} is not a folder; correct source.url.")
        return status.st_dev, status.st_ino

    def _unlistable(self, folder: bytes, error: OSError) -> SourceUnavailable:
        name = self._name(folder)
        if error.errno in _MISSING:
            return SourceUnavailable(f"The folder {name} does not exist; create it or correct source.url.")
        if error.errno in _DENIED:
            return SourceUnavailable(f"The folder {name} may not be read; allow it, then run again.")
        return SourceUnavailable(f"The folder {name} cannot be read: {error.strerror}. Mend that, then run again.")


def _path_of(key: str) -> bytes | None:
    """Return the path a listing would show for this key, None for keys it never shows."""
    try:
        path = key.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return None
    is_odd = b"\0" in path or any(not part or _is_hidden(part) for part in path.split(b"/"))
    return None if is_odd else path


def _is_hidden(name: bytes) -> bool:
    return name.startswith((b".", b"~$")) or name == b"Thumbs.db"


def _etag(status: os.stat_result) -> str:
    # The change time is in it because a copy can put an old modification time back; the inode, because a rename can.
    return f"{status.st_mtime_ns:x}-{status.st_ctime_ns:x}-{status.st_size:x}-{status.st_ino:x}"


def _modified(status: os.stat_result) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=status.st_mtime_ns // 1000)
    except OverflowError:
        return _EPOCH


def _let_age(status: os.stat_result) -> None:
    """Wait until a later change must carry another time: two within one tick of the file clock look like one."""
    age_ns = time.time_ns() - status.st_ctime_ns
    if age_ns < CLOCK_GRAIN_NS:
        time.sleep(min(CLOCK_GRAIN_NS - age_ns, CLOCK_GRAIN_NS) / 1e9)


def _failure(error: OSError) -> DocumentUnreadable:
    if error.errno in _MISSING:
        return DocumentUnreadable(Reason.NOT_FOUND, "the file is not in the folder any more")
    if error.errno in _DENIED:
        return DocumentUnreadable(Reason.ACCESS_DENIED, "the file may not be read; allow reading it")
    return DocumentUnreadable(Reason.TIMEOUT, f"the file system did not deliver the file: {error.strerror}")
