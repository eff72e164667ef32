"""OpenAI's embeddings endpoint, and every server that speaks its language.

Here: the request, and which failure a status means. Not here: reading the answer's body (`openai_answer.py`),
retries (`retrying.py`; the client's own are off), and secrets: the client reads OPENAI_API_KEY itself.
"""

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import numpy as np
import openai
from numpy.typing import NDArray

from ingest_assets.embed.failures import BatchRejected, RateLimited, Unanswered, provider_words
from ingest_assets.embed.openai_answer import read_vectors
from ingest_assets.embed.pacing import parse_retry_after
from ingest_assets.errors import EmbeddingFatal, IngestError, ModelUnavailable, Reason, SettingsError
from ingest_assets.settings import ModelSettings

# Asked for by name: left out, this client asks for base64, which some servers ignore and others misread.
ENCODING_FORMAT = "float"
FOREIGN_TOKEN_RATIO = 1.25  # prose in the usual open models' tokenizers, against cl100k
_QUOTA_CODES = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}
_OUR_PARAMETERS = {"model", "dimensions", "encoding_format"}
_ABOUT_TEXT = {HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY}
_ABOUT_KEY = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
_ABOUT_NOW = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_EARLY}
_LENGTH_WORDS = re.compile(
    r"context.?length|too (long|many tokens)|less than \d+ tokens|max\w*.{0,20}tokens|token limit"
)


class OpenAIProvider:
    """One model behind an OpenAI-compatible server.

    `dimensions` is sent to text-embedding-3 models only: these shorten their vectors on request, and most other
    servers refuse the parameter. Whatever was asked for, the engine checks what came.
    """

    def __init__(self, settings: ModelSettings) -> None:
        self.version = settings.version
        self.dimensions = settings.dimensions
        self.token_ratio = 1.0 if "text-embedding-" in settings.model else FOREIGN_TOKEN_RATIO
        self._model = settings.model
        self._parameters: dict[str, Any] = {"encoding_format": ENCODING_FORMAT}
        if "text-embedding-3-" in settings.model:
            self._parameters["dimensions"] = settings.dimensions
        self._client = _open_client(settings)

    def fingerprint(self) -> dict[str, str | int | float | bool]:
        """Return what decides a vector; not the server's address, which may change while the model stays."""
        return {
            "provider": "openai",
            "model": self._model,
            "dimensions": self.dimensions,
            "library": "openai",
            "library_version": openai.__version__,
            "encoding_format": ENCODING_FORMAT,
            "sends_dimensions": "dimensions" in self._parameters,
        }

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return [len(texts), dimensions] as the server gave it; see `Provider.embed` for what it raises."""
        create = self._client.embeddings.with_raw_response.create
        try:
            response = await create(model=self._model, input=list(texts), **self._parameters)
        except openai.APIStatusError as error:
            raise self._failure(error, texts) from error
        except openai.APIConnectionError as error:
            cause = error.__cause__ or error
            raise Unanswered(f"The embedding server did not answer ({type(cause).__name__}: {cause}).") from error
        return read_vectors(response.content, len(texts), self.dimensions)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _failure(self, error: openai.APIStatusError, texts: Sequence[str]) -> IngestError:
        """Return the error of ours for an answer that is not a success."""
        status, words = error.status_code, _words(error)
        quoted = provider_words(words["message"], texts)
        said = f"The embedding server answered {status}" + (f": {quoted}" if quoted else ".")
        retry_after = parse_retry_after(error.response.headers.get("retry-after"))
        if status == HTTPStatus.PAYMENT_REQUIRED or _QUOTA_CODES & {words["code"], words["type"]}:
            return EmbeddingFatal(Reason.QUOTA_EXHAUSTED, f"{said} Raise the account's limit, then run again.")
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            return RateLimited(said, retry_after)
        if status in _ABOUT_KEY:
            # The server's words are left out: they may quote the key.
            return EmbeddingFatal(
                Reason.UNAUTHENTICATED,
                f"The embedding server answered {status}; check OPENAI_API_KEY and the account's rights.",
            )
        if status in _ABOUT_NOW or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return Unanswered(said, retry_after)
        if status in _ABOUT_TEXT and words["param"] not in _OUR_PARAMETERS:
            return BatchRejected(_reason(status, words), said)
        return EmbeddingFatal(
            Reason.INVALID_REQUEST, f"{said} Check model {self._model}, dimensions and base_url of {self.version}."
        )


def _words(error: openai.APIStatusError) -> dict[str, str]:
    """Return message, code, type and param of an error's body, empty where servers leave them out."""
    body = error.body if isinstance(error.body, Mapping) else {"message": error.body}
    return {name: str(body.get(name) or "") for name in ("message", "code", "type", "param")}


def _reason(status: int, words: Mapping[str, str]) -> Reason:
    """Return why a text is refused, should it turn out to be refused alone."""
    is_length = _LENGTH_WORDS.search(f"{words['code']} {words['message']}".lower())
    return Reason.OVER_LENGTH if is_length or status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE else Reason.CONTENT_REJECTED


def _open_client(settings: ModelSettings) -> openai.AsyncOpenAI:
    if settings.base_url is not None and not settings.base_url.startswith(("http://", "https://")):
        raise SettingsError(f"models.base_url {settings.base_url} must start with http:// or https://.")
    options: dict[str, Any] = {"base_url": settings.base_url, "max_retries": 0, "timeout": settings.timeout_seconds}
    try:
        return openai.AsyncOpenAI(**options)
    except openai.OpenAIError as error:
        if settings.base_url is None:
            raise ModelUnavailable(
                f"{settings.version} needs a key: set OPENAI_API_KEY, or models.base_url for a server without keys."
            ) from error
    # Servers on one's own machines ask for no key, but the client insists on one.
    return openai.AsyncOpenAI(api_key="none", **options)
