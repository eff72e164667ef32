"""Opens an Office package (zip) safely: real sizes counted, XML without entities or network.

What does not belong here: what the parts mean (docx.py).
"""

import posixpath
import zipfile
from copy import copy
from io import BytesIO
from typing import IO
from urllib.parse import unquote

from lxml import etree

from ingest_assets.errors import DocumentRejected, Reason

PART_LIMIT_BYTES = 64 * 1024 * 1024
PACKAGE_LIMIT_BYTES = 96 * 1024 * 1024
TAG_LIMIT = 3_000_000  # "<" in one part: a tree costs far more memory than its text
_ENTRY_LIMIT = 20_000
_CHUNK_BYTES = 1024 * 1024
_RELATION = "{http://schemas.openxmlformats.org/package/2006/relationships}Relationship"


class Package:
    """The parts of one package, read on demand and within limits."""

    def __init__(self, data: bytes) -> None:
        """Open the package. Raises DocumentRejected: `corrupt`, `too_large`."""
        if data.count(b"PK\x01\x02") > _ENTRY_LIMIT:
            raise DocumentRejected(Reason.TOO_LARGE, "The package lists too many parts.")
        try:
            self._zip = zipfile.ZipFile(BytesIO(data))
        except (zipfile.BadZipFile, ValueError, EOFError, NotImplementedError) as error:
            raise _damaged() from error
        self._entries = {info.filename.replace("\\", "/").lstrip("/").lower(): info for info in self._zip.infolist()}
        self._budget_bytes = PACKAGE_LIMIT_BYTES

    def has(self, name: str) -> bool:
        """Tell whether the package lists this part."""
        return name.lower() in self._entries

    def names(self) -> list[str]:
        """Return the names of all parts, in lower case."""
        return list(self._entries)

    def xml(self, name: str) -> etree._Element | None:
        """Return the root of an XML part, or None where there is no such part.

        Raises DocumentRejected: `corrupt`, `too_large`, `encrypted`.
        """
        data = self.read(name)
        return None if data is None else _parse(data)

    def read(self, name: str) -> bytes | None:
        """Return the bytes of a part, or None where there is no such part.

        Raises DocumentRejected: `corrupt`, `too_large`, `encrypted`.
        """
        entry = self._entries.get(name.lower())
        return None if entry is None else self._read(entry)

    def related(self, name: str) -> dict[str, tuple[str, str]]:
        """Return the internal relations of a part ("" for the package): id -> (kind, part name)."""
        folder, base = posixpath.split(name)
        root = self.xml(posixpath.join(folder, "_rels", f"{base}.rels"))
        if root is None:
            return {}
        relations = {}
        for item in root.iter(_RELATION):
            if item.get("TargetMode") != "External":
                path = unquote(item.get("Target", "").partition("#")[0]).replace("\\", "/")
                target = posixpath.normpath(posixpath.join("/", folder, path))
                relations[item.get("Id", "")] = (item.get("Type", "").rpartition("/")[2], target.lstrip("/"))
        return relations

    def _read(self, entry: zipfile.ZipInfo) -> bytes:
        if entry.flag_bits & 1:
            raise DocumentRejected(Reason.ENCRYPTED, "The package is protected by a password.")
        limit = min(PART_LIMIT_BYTES, self._budget_bytes)
        # The declared size is a claim; with a larger one zipfile reads on to the true end.
        honest = copy(entry)
        honest.file_size = limit + 2 * _CHUNK_BYTES
        try:
            with self._zip.open(honest) as part:
                content = _bounded(part, limit)
        except DocumentRejected:
            raise
        except Exception as error:
            raise _damaged() from error
        self._budget_bytes -= len(content)
        return content


def _bounded(part: IO[bytes], limit: int) -> bytes:
    chunks: list[bytes] = []
    size = tags = 0
    while chunk := part.read(_CHUNK_BYTES):
        size, tags = size + len(chunk), tags + chunk.count(b"<")
        if size > limit or tags > TAG_LIMIT:
            raise DocumentRejected(Reason.TOO_LARGE, "A part of the package is larger than is allowed.")
        chunks.append(chunk)
    return b"".join(chunks)


def _parse(data: bytes) -> etree._Element:
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, dtd_validation=False, huge_tree=False,
        remove_comments=True, remove_pis=True,
    )  # fmt: skip
    try:
        root = etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        if "depth" in str(error) or "too long" in str(error) or "huge" in str(error).lower():
            raise DocumentRejected(
                Reason.TOO_LARGE, "A part of the package is deeper or longer than is allowed."
            ) from error
        raise DocumentRejected(Reason.CORRUPT, "A part of the package is not well-formed XML.") from error
    if root.getroottree().docinfo.internalDTD is not None:
        raise DocumentRejected(Reason.CORRUPT, "A part of the package declares a document type, which is forbidden.")
    return root


def _damaged() -> DocumentRejected:
    return DocumentRejected(Reason.CORRUPT, "The package (zip) is damaged or cut off.")
