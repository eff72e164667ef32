"""Every error this project raises on purpose, and the closed list of reason codes.

What does not belong here: catching and translating errors of libraries, which happens at the edge
that meets the library (the source, a parser, a provider, the database).

IngestError
├── EnvironmentProblem         the surroundings are wrong: exit code 2, nothing was changed
│   ├── SettingsError          a setting is unknown, missing or contradicts another
│   ├── DatabaseUnavailable    Postgres cannot be reached, or cannot do what is needed
│   ├── SourceUnavailable      the bucket or folder cannot be listed at all
│   └── ModelUnavailable       an embedding model cannot be loaded or reached
├── Refused                    a rule of ours says no: exit code 1, nothing was changed
├── DocumentRejected           permanent, for one document: becomes a dead letter
├── DocumentUnreadable         this document cannot be read now, and may heal: retried later
├── UnitRejected               permanent, for one text at one version: becomes a dead letter
├── EmbeddingTransient         the provider may answer later: nothing dead-lettered, retried
└── EmbeddingFatal             the run stops: nothing dead-lettered, what was done is kept
"""

from collections.abc import Iterator
from enum import StrEnum


class Reason(StrEnum):
    """Why a unit was given up on, or why a run stopped. The list is closed: add here first."""

    ENCRYPTED = "encrypted"
    NO_TEXT_LAYER = "no_text_layer"
    EMPTY_DOCUMENT = "empty_document"
    UNSUPPORTED_TYPE = "unsupported_type"
    CORRUPT = "corrupt"
    TOO_LARGE = "too_large"
    TIMEOUT = "timeout"
    GARBLED_TEXT = "garbled_text"
    ARCHIVED = "archived"
    ACCESS_DENIED = "access_denied"
    NOT_FOUND = "not_found"
    OVER_LENGTH = "over_length"
    CONTENT_REJECTED = "content_rejected"
    INVALID_REQUEST = "invalid_request"
    INVALID_VECTOR = "invalid_vector"
    DIMENSION_MISMATCH = "dimension_mismatch"
    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    # The next four only stop a run; no dead letter has them.
    QUOTA_EXHAUSTED = "quota_exhausted"
    UNAUTHENTICATED = "unauthenticated"
    FINGERPRINT_CHANGED = "fingerprint_changed"
    OVER_BUDGET = "over_budget"


FATAL_REASONS = frozenset(
    {Reason.QUOTA_EXHAUSTED, Reason.UNAUTHENTICATED, Reason.FINGERPRINT_CHANGED, Reason.OVER_BUDGET}
)


class IngestError(Exception):
    """Base of all errors of this project; the message is a sentence that says what to do next."""


class EnvironmentProblem(IngestError):
    """The surroundings are not as they must be."""


class SettingsError(EnvironmentProblem):
    """A setting is unknown, missing or contradicts another."""


class DatabaseUnavailable(EnvironmentProblem):
    """Postgres cannot be reached, or lacks what the platform needs."""


class SourceUnavailable(EnvironmentProblem):
    """The bucket or folder cannot be listed."""


class ModelUnavailable(EnvironmentProblem):
    """An embedding model cannot be loaded or reached."""


class Refused(IngestError):
    """A rule of the platform forbids this; the message says how to approve or avoid it."""


class _Reasoned(IngestError):
    """An error that carries a reason code and one sentence of ours about the case."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail

    def __reduce__(self) -> tuple[type, tuple[Reason, str]]:
        # Exceptions with their own __init__ do not cross a process boundary otherwise.
        return type(self), (self.reason, self.detail)


class DocumentRejected(_Reasoned):
    """A document can never be indexed in its present state; becomes a dead letter."""


class DocumentUnreadable(_Reasoned):
    """A document cannot be read now (permission, archive, network) and may heal by itself."""


class UnitRejected(_Reasoned):
    """One text can never be embedded at one version; becomes a dead letter."""


class EmbeddingTransient(IngestError):
    """The provider failed in a way that time may mend; the run stops and comes back."""


class EmbeddingFatal(_Reasoned):
    """The provider or a rule refuses everything; the run stops at once."""


def all_kinds(kind: type[IngestError]) -> Iterator[type[IngestError]]:
    """Yield a kind of error and every kind of it."""
    yield kind
    for narrower in kind.__subclasses__():
        yield from all_kinds(narrower)
