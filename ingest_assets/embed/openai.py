"""OpenAI's embeddings endpoint, and every server that speaks its language.

Here: the client and the request. Not here: reading the answer's body (`openai_answer.py`), which failure a status
means (`openai_errors.py`), retries (`retrying.py`; the client's own are off), and secrets: the client reads
OPENAI_API_KEY itself, and `settings.py` the key of a gateway.
"""

from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import numpy as np
import openai
from numpy.typing import NDArray

from ingest_assets.embed import FOREIGN_TOKEN_RATIO, UNLIMITED, RequestLimits
from ingest_assets.embed.answers import Answer
from ingest_assets.embed.failures import Unanswered
from ingest_assets.embed.openai_answer import read_answer
from ingest_assets.embed.openai_errors import failure
from ingest_assets.errors import ModelUnavailable, SettingsError
from ingest_assets.settings import ModelSettings

# Asked for by name: left out, this client asks for base64, which some servers ignore and others misread.
ENCODING_FORMAT = "float"
OPENAI_HOST = "api.openai.com"
# From OpenAI's reference of this endpoint; other servers have limits of their own, which the settings name.
OPENAI_LIMITS = RequestLimits(max_items=2048, max_request_tokens=300_000, max_input_tokens=8192)


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
        self._advice = f"Check model {settings.model}, dimensions and base_url of {settings.version}."
        self._client = _open_client(settings)
        server = self._client.base_url
        self.account = settings.account or f"openai {server.netloc.decode()} {settings.model}"
        self.limits = OPENAI_LIMITS if server.host == OPENAI_HOST else UNLIMITED

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

    async def embed(self, texts: Sequence[str]) -> Answer:
        """Return the answer as the server gave it; see `Provider.embed` for what it raises."""
        create = self._client.embeddings.with_raw_response.create
        try:
            response = await create(model=self._model, input=list(texts), **self._parameters)
        except openai.APIStatusError as error:
            answer = error.response
            raise failure(answer.status_code, answer.headers, answer.content, texts, advice=self._advice) from error
        except openai.APIConnectionError as error:
            cause = error.__cause__ or error
            raise Unanswered(f"The embedding server did not answer ({type(cause).__name__}: {cause}).") from error
        return read_answer(response.content, len(texts), self.dimensions)

    async def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a question: this protocol does not tell questions from passages."""
        vectors = (await self.embed([text])).vectors
        return vectors.reshape(self.dimensions)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


def _open_client(settings: ModelSettings) -> openai.AsyncOpenAI:
    options = {"max_retries": 0, "timeout": settings.timeout_seconds, **_address(settings.base_url)}
    has_query = "default_query" in options
    if has_query:
        # The header with the key would go along to wherever a redirect leads.
        options["http_client"] = openai.DefaultAsyncHttpxClient(follow_redirects=False)
    try:
        client = openai.AsyncOpenAI(api_key=settings.gateway_key if has_query else None, **options)
    except openai.OpenAIError as error:
        if settings.base_url is None:
            raise ModelUnavailable(
                f"{settings.version} needs a key: set OPENAI_API_KEY, or models.base_url for a server without keys."
            ) from error
        # Servers on one's own machines ask for no key, but the client insists on one.
        client = openai.AsyncOpenAI(api_key="none", **options)
    return client.copy(default_headers={"api-key": client.api_key}) if has_query else client


def _address(base_url: str | None) -> dict[str, Any]:
    """Return the client's options for an address; a query, as gateways in Azure's style want it, goes along each time.

    Raises:
        SettingsError: the address does not begin with http:// or https://.
    """
    if base_url is None:
        return {"base_url": None}
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https"):
        raise SettingsError(f"models.base_url {base_url} must start with http:// or https://.")
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    address = urlunsplit(parts._replace(query="", fragment=""))
    return {"base_url": address, "default_query": query} if query else {"base_url": address}
