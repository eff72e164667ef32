"""Amazon Bedrock's embedding models, through its own client.

Here: the client, its credentials, and the threads that its calls need. Not here: what a model takes and how it answers
(`bedrock_models.py`), which failure an error means (`bedrock_errors.py`), retries (`retrying.py`; the client's own are
off), and secrets: credentials come by the AWS chain.
"""

import asyncio
import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import boto3
import botocore.session
import numpy as np
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, InvalidRegionError, NoRegionError
from numpy.typing import NDArray

from ingest_assets.embed import FOREIGN_TOKEN_RATIO
from ingest_assets.embed.answers import Answer
from ingest_assets.embed.bedrock_errors import EXPIRED, code_of, failure
from ingest_assets.embed.bedrock_models import Purpose, family_of, read_answer
from ingest_assets.embed.failures import BatchRejected
from ingest_assets.errors import ModelUnavailable, SettingsError
from ingest_assets.settings import ModelSettings

if TYPE_CHECKING:
    from mypy_boto3_bedrock_runtime import BedrockRuntimeClient

_JSON = "application/json"
_ARN_REGION = 3  # position in an ARN's parts


class BedrockProvider:
    """One model on Bedrock; at most `max_concurrency` calls run at the same time."""

    token_ratio = FOREIGN_TOKEN_RATIO

    def __init__(self, settings: ModelSettings) -> None:
        self._family = family_of(settings.model, settings.dimensions)
        self.version = settings.version
        self.dimensions = settings.dimensions
        self.limits = self._family.limits
        self._model = settings.model
        self._connection = _Connection(settings)
        region = self._connection.client.meta.region_name
        self._target = f"model {settings.model} in {region}"
        self.account = settings.account or f"bedrock {region} {settings.model}"
        self._threads = ThreadPoolExecutor(settings.max_concurrency, thread_name_prefix="embed-bedrock")

    def fingerprint(self) -> dict[str, str | int | float | bool]:
        """Return what decides a vector, the body's parameters among it; not the region, which changes none."""
        parameters = self._family.body([""], self.dimensions, "search_document")
        return {
            "provider": "bedrock",
            "model": self._model,
            "dimensions": self.dimensions,
            "library": "boto3",
            "library_version": boto3.__version__,
            "parameters": json.dumps(parameters, sort_keys=True),
        }

    async def embed(self, texts: Sequence[str]) -> Answer:
        """Return the answer, from as many calls in a row as the model needs; see `Provider.embed` for errors."""
        return await self._in_thread(texts, "search_document")

    async def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a question, which Cohere's models embed in another way than passages."""
        vectors = (await self._in_thread([text], "search_query")).vectors
        return vectors.reshape(self.dimensions)

    async def close(self) -> None:
        """Let go of the threads and connections; calls that are under way end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._connection.client.close()

    async def _in_thread(self, texts: Sequence[str], purpose: Purpose) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._embed, texts, purpose)

    def _embed(self, texts: Sequence[str], purpose: Purpose) -> Answer:
        size = self.limits.max_items or len(texts)
        answers = []
        for start in range(0, len(texts), size):
            try:
                answers.append(self._call(texts[start : start + size], purpose))
            except BatchRejected as refusal:
                item = 0 if size == 1 else refusal.item
                raise BatchRejected(
                    refusal.reason, refusal.detail, None if item is None else start + item
                ) from refusal.__cause__
        return _joined(answers)

    def _call(self, texts: Sequence[str], purpose: Purpose) -> Answer:
        body = json.dumps(self._family.body(texts, self.dimensions, purpose))
        try:
            data, headers = self._connection.invoke(self._model, body)
        except (ClientError, BotoCoreError) as error:
            raise failure(error, texts, self._target) from error
        return read_answer(data, headers, len(texts), self.dimensions)


def _joined(answers: Sequence[Answer]) -> Answer:
    if len(answers) == 1:
        return answers[0]
    billed = [answer.billed_tokens for answer in answers if answer.billed_tokens is not None]
    vectors = np.concatenate([answer.vectors for answer in answers])
    return Answer(vectors, sum(billed) if len(billed) == len(answers) else None)


class _Connection:
    """The client, made anew when its credentials have expired. Used by all threads."""

    def __init__(self, settings: ModelSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        session = botocore.session.Session()
        _require_credentials(settings, session)
        self.client = _open_client(settings, session)

    def invoke(self, model: str, body: str) -> tuple[bytes, dict[str, str]]:
        """Return an answer's body and headers; expired credentials are fetched anew once."""
        client = self.client
        try:
            return _invoke(client, model, body)
        except ClientError as error:
            if code_of(error) not in EXPIRED:
                raise
        return _invoke(self._renewed(client), model, body)

    def _renewed(self, stale: "BedrockRuntimeClient") -> "BedrockRuntimeClient":
        with self._lock:
            if self.client is stale:
                # A session remembers its credentials, so a new one asks the chain again.
                self.client = _open_client(self._settings, botocore.session.Session())
            return self.client


def _invoke(client: "BedrockRuntimeClient", model: str, body: str) -> tuple[bytes, dict[str, str]]:
    response = client.invoke_model(modelId=model, body=body, contentType=_JSON, accept=_JSON)
    return response["body"].read(), response["ResponseMetadata"]["HTTPHeaders"]


def _require_credentials(settings: ModelSettings, session: botocore.session.Session) -> None:
    """Refuse to open where the AWS chain ends with nothing; a key of Bedrock itself is as good."""
    try:
        # The stubs do not know yet that services have keys of their own.
        token = session.get_auth_token(signing_name="bedrock")  # type: ignore[call-arg]
        is_found, cause = token is not None or session.get_credentials() is not None, ""
    except BotoCoreError as error:
        is_found, cause = False, f" ({error})"
    if not is_found:
        raise ModelUnavailable(
            f"{settings.version} needs AWS credentials{cause}: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or run where a role gives them."
        )


def _open_client(settings: ModelSettings, session: botocore.session.Session) -> "BedrockRuntimeClient":
    config = Config(
        retries={"total_max_attempts": 1, "mode": "standard"},
        connect_timeout=settings.timeout_seconds,
        read_timeout=settings.timeout_seconds,
        max_pool_connections=settings.max_concurrency,
    )
    try:
        return boto3.Session(botocore_session=session).client(
            "bedrock-runtime", region_name=_region(settings), endpoint_url=settings.base_url, config=config
        )
    except NoRegionError as error:
        raise SettingsError(f"{settings.version} needs models.region, or AWS_DEFAULT_REGION.") from error
    except (InvalidRegionError, ValueError) as error:
        raise SettingsError(
            f"models.region or models.base_url of {settings.version} is not usable: {error}."
        ) from error


def _region(settings: ModelSettings) -> str | None:
    """Return the region of the settings or of the model's ARN, None where the AWS chain is to give it.

    Raises:
        SettingsError: the two differ.
    """
    parts = settings.model.split(":")
    of_model = parts[_ARN_REGION] if parts[0] == "arn" and len(parts) > _ARN_REGION else ""
    if of_model and settings.region not in (None, of_model):
        raise SettingsError(f"models.region {settings.region} is not that of the model, {settings.model}.")
    return settings.region or of_model or None
