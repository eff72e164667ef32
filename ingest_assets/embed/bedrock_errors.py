"""Which failure Amazon Bedrock means by the name of an error.

Here: the table of names, the words that tell kinds of refusals apart, and which text a refusal names. Not here: the
client and the renewal of credentials (`bedrock.py`), and what follows from a failure (`engine.py`).
"""

import re
from collections.abc import Sequence
from http import HTTPStatus

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,  # noqa: A004  # the base of everything that keeps a request from its endpoint
    CredentialRetrievalError,
    HTTPClientError,
    IncompleteReadError,
    NoAuthTokenError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    SSOError,
    TokenRetrievalError,
)
from botocore.parsers import ResponseParserError

from ingest_assets.embed.failures import BatchRejected, RateLimited, Unanswered, provider_words
from ingest_assets.embed.pacing import parse_retry_after
from ingest_assets.errors import EmbeddingFatal, IngestError, Reason

EXPIRED = frozenset({"ExpiredTokenException", "ExpiredToken", "TokenRefreshRequired"})
_RATE_LIMITED = frozenset({"ThrottlingException", "Throttling", "TooManyRequestsException"})
_UNANSWERED = frozenset(
    {
        "ServiceUnavailableException",
        "ServiceUnavailable",
        "ModelNotReadyException",
        "ModelTimeoutException",
        "ModelErrorException",
        "InternalServerException",
        "InternalFailure",
        "RequestTimeoutException",
    }
)
_FATAL = {
    "ServiceQuotaExceededException": Reason.QUOTA_EXHAUSTED,
    "AccessDeniedException": Reason.UNAUTHENTICATED,
    "UnrecognizedClientException": Reason.UNAUTHENTICATED,
    "InvalidClientTokenId": Reason.UNAUTHENTICATED,
    "InvalidSignatureException": Reason.UNAUTHENTICATED,
    "IncompleteSignatureException": Reason.UNAUTHENTICATED,
    "MissingAuthenticationTokenException": Reason.UNAUTHENTICATED,
    "OptInRequired": Reason.UNAUTHENTICATED,
    "ResourceNotFoundException": Reason.INVALID_REQUEST,
    "UnknownOperationException": Reason.INVALID_REQUEST,
} | dict.fromkeys(EXPIRED, Reason.UNAUTHENTICATED)
# Their words may quote the headers that were signed.
_QUOTING = EXPIRED | {
    "UnrecognizedClientException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "IncompleteSignatureException",
    "MissingAuthenticationTokenException",
}
_BY_STATUS: dict[int, Reason] = {
    HTTPStatus.UNAUTHORIZED: Reason.UNAUTHENTICATED,
    HTTPStatus.FORBIDDEN: Reason.UNAUTHENTICATED,
}
_NO_CREDENTIALS = (
    CredentialRetrievalError,
    NoAuthTokenError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    SSOError,
    TokenRetrievalError,
)
_NOT_DELIVERED = (ConnectionError, HTTPClientError, IncompleteReadError, ResponseParserError)
_REFUSALS = frozenset({"ValidationException", "RequestEntityTooLargeException"})
# Refusals of the model or of our parameters, which no text causes.
_MODEL_WORDS = re.compile(
    r"model identifier|on-demand throughput|inference profile|operation not allowed"
    r"|(required|extraneous) key|end of its life",
    re.IGNORECASE,
)
_LENGTH_WORDS = re.compile(r"too many input tokens|maxlength|too (long|large)|maximum.{0,30}tokens", re.IGNORECASE)
_NAMED_ITEM = re.compile(r"#/texts/(\d{1,6}):")


def failure(error: ClientError | BotoCoreError, texts: Sequence[str], target: str) -> IngestError:
    """Return the error of ours for what the client raised; `target` names the model and its region."""
    if isinstance(error, ClientError):
        return _from_answer(error, texts, target)
    if isinstance(error, _NO_CREDENTIALS):
        return _fatal(Reason.UNAUTHENTICATED, f"There are no usable AWS credentials ({error}).", target)
    if isinstance(error, _NOT_DELIVERED):
        return Unanswered(f"Bedrock did not answer ({type(error).__name__}: {error}).")
    return _fatal(Reason.INVALID_REQUEST, f"The request could not be made ({error}).", target)


def code_of(error: ClientError) -> str:
    """Return the name of an error that Bedrock answered."""
    return error.response.get("Error", {}).get("Code", "")


def _from_answer(error: ClientError, texts: Sequence[str], target: str) -> IngestError:
    code, message = code_of(error), str(error.response.get("Error", {}).get("Message") or "")
    answer = error.response.get("ResponseMetadata", {})
    status, headers = answer.get("HTTPStatusCode", 0), answer.get("HTTPHeaders", {})
    words = provider_words(message, texts)
    said = f"Bedrock answered {code}" + (f": {words}" if words else ".")
    if code in _REFUSALS or status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE or _is_refused_by_model(error):
        return _refusal(said, message, words, texts, target)
    if (reason := _FATAL.get(code)) is not None:
        return _fatal(reason, f"Bedrock answered {code}." if code in _QUOTING else said, target)
    retry_after = parse_retry_after(headers.get("retry-after"))
    if code in _UNANSWERED:
        return Unanswered(said, retry_after)
    if code in _RATE_LIMITED or status == HTTPStatus.TOO_MANY_REQUESTS:
        return RateLimited(said, retry_after)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Unanswered(said, retry_after)
    return _fatal(_BY_STATUS.get(status, Reason.INVALID_REQUEST), said, target)


def _is_refused_by_model(error: ClientError) -> bool:
    """Tell whether a model's own error is about its input; most are about the moment."""
    status = error.response.get("originalStatusCode")
    passing = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.FAILED_DEPENDENCY, HTTPStatus.TOO_MANY_REQUESTS)
    is_about_request = isinstance(status, int) and HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR
    return code_of(error) == "ModelErrorException" and is_about_request and status not in passing


def _refusal(said: str, message: str, words: str, texts: Sequence[str], target: str) -> IngestError:
    if _MODEL_WORDS.search(words):
        return _fatal(Reason.INVALID_REQUEST, said, target)
    named = {int(index) for index in _NAMED_ITEM.findall(words)}
    item = named.pop() if len(named) == 1 else None
    reason = Reason.OVER_LENGTH if _LENGTH_WORDS.search(message) else Reason.CONTENT_REJECTED
    return BatchRejected(reason, said, item if item is not None and item < len(texts) else None)


def _fatal(reason: Reason, said: str, target: str) -> EmbeddingFatal:
    advice = {
        Reason.QUOTA_EXHAUSTED: f"Raise the account's quota for {target}, then run again.",
        Reason.UNAUTHENTICATED: f"Check the AWS credentials, and that they may invoke {target}.",
    }.get(reason, f"Check models.model, models.dimensions and models.region: {target}.")
    return EmbeddingFatal(reason, f"{said} {advice}")
