"""Names that never change: document ids, chunk ids and partition keys, as pure functions.

What does not belong here: deciding what a document or a chunk is, and storing any of these.
The rules are part of every stored row: changing one orphans what was written under it.
"""

import re
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from urllib.parse import quote, unquote
from uuid import UUID

MAX_PARTITION_KEY_BYTES = 512
_SHORTENED = "%7E"  # an ordinary key writes "~" as itself, so this marks a shortened one beyond doubt
_DIGEST_CHARACTERS = 64
_CUT_ESCAPE = re.compile(r"%(?:[0-9A-F]?|u[0-9A-F]{0,3})\Z")


def document_id(source_uri: str) -> UUID:
    """Return the id of the document at this absolute URI, for ever."""
    return _uuid(sha256(source_uri.encode("utf-8", "surrogatepass")).digest())


def text_sha256(text: str) -> bytes:
    """Return the 32 bytes that stand for a text wherever it turns up."""
    return sha256(text.encode("utf-8")).digest()


def chunk_ids(document_id: UUID, texts: Sequence[str]) -> list[tuple[UUID, bytes]]:
    """Return `(chunk_id, text_sha256)` for each text of one document, in order.

    An id depends on the document, the text and how often that text came before, not on the position: a chunk that
    moves keeps its id.
    """
    seen: Counter[bytes] = Counter()
    ids = []
    for text in texts:
        digest = text_sha256(text)
        occurrence = seen[digest].to_bytes(4, "big")
        seen[digest] += 1
        ids.append((_uuid(sha256(document_id.bytes + digest + occurrence).digest()), digest))
    return ids


def partition_key(key: str) -> str:
    """Return the Dagster partition key of a source key: readable ASCII, at most 512 bytes, never shared by two keys.

    Everything outside ``A-Za-z0-9/._-~ `` is percent-encoded, as are a dot after a dot and blanks at either end. A
    byte of a file name that is not UTF-8 is encoded as that byte. The way back is the column
    `documents.partition_key`, never decoding.

    Raises:
        ValueError: the key is empty.
    """
    if not key:
        raise ValueError("An empty key has no partition key.")
    encoded = re.sub(r"(?<=\.)\.", "%2E", _percent_encode(key))
    encoded = re.sub(r"\A +| +\Z", lambda blanks: "%20" * len(blanks[0]), encoded)
    return encoded if len(encoded) <= MAX_PARTITION_KEY_BYTES else _shorten(encoded)


def _percent_encode(key: str) -> str:
    try:
        raw = key.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raw = b""
    if raw.decode("utf-8", "surrogateescape") == key:
        return quote(raw, safe="/ ")
    # No file system and no S3 store spells such a key; a form of its own keeps it from meeting one that they do.
    return "".join(f"%u{ord(c):04X}" if "\ud800" <= c <= "\udfff" else quote(c, safe="/ ") for c in key)


def _shorten(encoded: str) -> str:
    head = encoded[: MAX_PARTITION_KEY_BYTES - len(_SHORTENED) - _DIGEST_CHARACTERS]
    return _CUT_ESCAPE.sub("", head) + _SHORTENED + sha256(encoded.encode("ascii")).hexdigest()


def _uuid(digest: bytes) -> UUID:
    return UUID(bytes=digest[:16])


def object_uri(source_url: str, key: str) -> str:
    """Return the uri of an object of a bucket; a NUL, which Postgres cannot hold, is escaped so that no two meet."""
    return source_url + key.replace("\uffff", "\uffff1").replace("\0", "\uffff0")


def key_of(source_url: str, source_uri: str) -> str | None:
    """Return the key by which a source reads the object of a uri; None when the uri is not of this source."""
    if not source_uri.startswith(source_url):
        return None
    rest = source_uri[len(source_url) :]
    if source_url.startswith("file://"):
        return unquote(rest, errors="surrogateescape")
    return rest.replace("\uffff0", "\0").replace("\uffff1", "\uffff")


def readable_key(key: str) -> str:
    """Return a key as Postgres and people can hold it: what is not text is written as an escape."""
    return key.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace").replace("\0", "\\x00")
