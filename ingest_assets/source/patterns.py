"""Which keys of a source are wanted: glob patterns, and a source narrowed by them.

What does not belong here: what kinds of document can be extracted, which is decided by content. Case matters.
`*.pdf` (no slash) matches the last part of a key, in any folder. A pattern with a slash matches the whole key:
`*` and `?` stay within one folder, `**` crosses folders, `reports/` means everything below it, `[a-c]` and `[!a-c]`
match one character.
"""

import re
from collections.abc import Iterable, Iterator

from ingest_assets.errors import DocumentUnreadable, Reason, SettingsError
from ingest_assets.records import SourceContent, SourceObject
from ingest_assets.source import ListingPage, Source

_TOKENS = re.compile(
    r"(?P<folders>\*\*/)|(?P<any>\*\*)|(?P<star>\*)|(?P<one>\?)|\[(?P<set>!?\]?[^\]]*)\]|(?P<text>.)", re.DOTALL
)
_MEANINGS = {"folders": "(?:.*/)?", "any": ".*", "star": "[^/]*", "one": "[^/]"}


class KeyPatterns:
    """Keys to take; no `include` takes everything, `exclude` wins."""

    def __init__(self, include: Iterable[str] = (), exclude: Iterable[str] = ()) -> None:
        self._include = [_compile(pattern) for pattern in include]
        self._exclude = [_compile(pattern) for pattern in exclude]

    def takes(self, key: str) -> bool:
        """Return whether a key is wanted."""
        is_included = not self._include or any(pattern.fullmatch(key) for pattern in self._include)
        return is_included and not any(pattern.fullmatch(key) for pattern in self._exclude)


class SelectedSource:
    """A source in which keys that are not wanted do not exist, for listings, hints and reads alike."""

    def __init__(self, source: Source, patterns: KeyPatterns) -> None:
        self._source = source
        self._patterns = patterns

    @property
    def url(self) -> str:
        """The absolute beginning of the uri of every object."""
        return self._source.url

    def list(self, start_after: str | None = None) -> Iterator[ListingPage]:
        """Yield the pages of the whole source with the wanted objects in them; some may be empty."""
        for page in self._source.list(start_after):
            yield ListingPage([found for found in page if self._patterns.takes(found.key)], page.last_key)

    def head(self, key: str) -> SourceObject | None:
        """Return a wanted object's state; None for others, so that excluding a document later retires it."""
        return self._source.head(key) if self._patterns.takes(key) else None

    def read(self, key: str, max_bytes: int) -> SourceContent:
        """Return a wanted object's bytes; others are `not_found`."""
        if not self._patterns.takes(key):
            raise DocumentUnreadable(Reason.NOT_FOUND, "source.include and source.exclude leave this key out")
        return self._source.read(key, max_bytes)


def _compile(pattern: str) -> re.Pattern[str]:
    if not pattern:
        raise SettingsError("An empty pattern in source.include or source.exclude; leave it out, or write **.")
    body = pattern.removeprefix("/") + ("**" if pattern.endswith("/") else "")
    start = "" if pattern.startswith("/") or "/" in body else "(?:.*/)?"
    try:
        return re.compile(start + "".join(_translate(token) for token in _TOKENS.finditer(body)), re.DOTALL)
    except re.error as error:
        message = f"The pattern {pattern!r} of source.include or source.exclude is wrong: {error}."
        raise SettingsError(message) from error


def _translate(token: re.Match[str]) -> str:
    if token["set"] is not None:
        is_negated = token["set"].startswith("!")
        characters = re.sub(r"([\\\[\]^&|~])", r"\\\1", token["set"].removeprefix("!"))
        return f"(?!/)[{'^' if is_negated else ''}{characters}]"
    return _MEANINGS.get(token.lastgroup or "") or re.escape(token[0])
