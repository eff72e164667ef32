"""What Bedrock's models are sent, what is read from their answers, and which failure each error is."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ingest_assets.embed import Provider, RequestLimits, open_provider
from ingest_assets.embed.answers import Answer
from ingest_assets.embed.failures import AnswerRefused, BatchRejected, NotEmbeddings, RateLimited, Unanswered
from ingest_assets.errors import EmbeddingFatal, IngestError, ModelUnavailable, Reason, SettingsError
from ingest_assets.settings import ModelSettings
from ingest_assets_tests import bedrock_server as replies
from ingest_assets_tests.bedrock_server import BedrockServer
from ingest_assets_tests.embedding_server import vector_of
from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.fixtures_s3 import CREDENTIALS
from ingest_assets_tests.texts import paragraphs

TITAN = "amazon.titan-embed-text-v2:0"
COHERE = "cohere.embed-english-v3"
COHERE_V4 = "us.cohere.embed-v4:0"
TEXTS = ["alpha", "bravo two", "charlie"]


def settings_of(server: BedrockServer, model: str = TITAN, dimensions: int = 1024, **changes: Any) -> ModelSettings:
    """Return settings of a model at this endpoint."""
    given = {"version": "v1", "provider": "bedrock", "model": model, "dimensions": dimensions, "base_url": server.url}
    return ModelSettings(**{**given, **changes})


def opened(settings: ModelSettings) -> Provider:
    """Open a provider that sends nothing, for what it says of itself."""
    provider = open_provider(settings)
    asyncio.run(provider.close())
    return provider


def embedded(settings: ModelSettings, texts: list[str] = TEXTS) -> Answer:
    """Open a provider, send one request, close it."""

    async def once() -> Answer:
        provider = open_provider(settings)
        try:
            return await provider.embed(texts)
        finally:
            await provider.close()

    return asyncio.run(once())


def expected(texts: list[str], dimensions: int) -> NDArray[np.float32]:
    """Return what the endpoint has for these texts."""
    return np.stack([vector_of(text, dimensions) for text in texts])


class OpenModel:
    """A model that is open already, beside the endpoint that it asks."""

    def __init__(self, server: BedrockServer, provider: Provider) -> None:
        self.server, self.provider = server, provider

    def embed(self, texts: list[str] = TEXTS) -> Answer:
        """Send one request."""
        return asyncio.run(self.provider.embed(texts))

    def failure(self, texts: list[str] = TEXTS[:1], *, reply: replies.Reply | None = None) -> IngestError:
        """Send one request, which is answered so, and return what it raises."""
        self.server.always = reply
        with pytest.raises(IngestError) as caught:
            self.embed(texts)
        return caught.value


OpenModels = Callable[..., OpenModel]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[tuple[BedrockServer, dict[tuple[str, int], Provider]]]:
    """An endpoint and the models that were opened at it: opening takes a fifth of a second."""
    providers: dict[tuple[str, int], Provider] = {}
    with pytest.MonkeyPatch.context() as environment, BedrockServer() as server:
        for name, value in CREDENTIALS.items():
            environment.setenv(name, value)
        yield server, providers
        for provider in providers.values():
            asyncio.run(provider.close())


@pytest.fixture
def open_model(endpoint: tuple[BedrockServer, dict[tuple[str, int], Provider]]) -> OpenModels:
    """Give an open model: `open_model(COHERE)`."""
    server, providers = endpoint
    server.always, server.requests, server.blocked = None, [], set()

    def find(model: str = TITAN, dimensions: int = 1024) -> OpenModel:
        if (model, dimensions) not in providers:
            providers[model, dimensions] = open_provider(settings_of(server, model, dimensions))
        return OpenModel(server, providers[model, dimensions])

    return find


def model_error(status: int) -> replies.Reply:
    """Answer with an error of the model behind Bedrock, which had this status."""
    body = json.dumps({"message": "model error", "originalStatusCode": status}).encode()
    return replies.Reply(424, body, {"x-amzn-ErrorType": "ModelErrorException"})


@pytest.fixture(autouse=True)
def _no_key_of_bedrock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)


# The request and the answer


@pytest.mark.parametrize("dimensions", [1024, 512, 256])
def test_titan_gets_one_text_and_its_dimensions_in_each_call(open_model: OpenModels, dimensions: int) -> None:
    """Scenario C10: a list in inputText would be refused, so several texts are several calls."""
    model = open_model(TITAN, dimensions)
    answer = model.embed()
    assert np.array_equal(answer.vectors, expected(TEXTS, dimensions))
    assert answer.billed_tokens == 4
    assert [request.body for request in model.server.requests] == [
        {"inputText": text, "dimensions": dimensions, "normalize": True} for text in TEXTS
    ]


def test_the_first_titan_gets_nothing_but_the_text(open_model: OpenModels) -> None:
    """It has one size and refuses parameters."""
    model = open_model("amazon.titan-embed-text-v1", 1536)
    assert np.array_equal(model.embed(TEXTS[:1]).vectors, expected(TEXTS[:1], 1536))
    assert model.server.requests[0].body == {"inputText": "alpha"}


@pytest.mark.parametrize("name", [COHERE, "cohere.embed-multilingual-v3"])
def test_cohere_gets_all_texts_as_documents_and_cuts_none(open_model: OpenModels, name: str) -> None:
    """Scenario C10: what is written to an index is a search_document, and is never truncated in silence."""
    model = open_model(name)
    answer = model.embed()
    assert np.array_equal(answer.vectors, expected(TEXTS, 1024))
    assert answer.billed_tokens == 4
    (request,) = model.server.requests
    assert request.body == {"texts": TEXTS, "input_type": "search_document", "truncate": "NONE"}


@pytest.mark.parametrize("dimensions", [256, 512, 1024, 1536])
def test_cohere_4_is_asked_for_its_dimensions_and_answers_by_type(open_model: OpenModels, dimensions: int) -> None:
    """Its vectors lie one level deeper."""
    model = open_model(COHERE_V4, dimensions)
    assert np.array_equal(model.embed().vectors, expected(TEXTS, dimensions))
    body = model.server.requests[0].body
    assert (body["output_dimension"], body["embedding_types"]) == (dimensions, ["float"])


def test_more_texts_than_cohere_takes_become_several_calls(open_model: OpenModels) -> None:
    """No caller has to know a model's limit to be answered."""
    texts = [f"text {number}" for number in range(200)]
    model = open_model(COHERE)
    answer = model.embed(texts)
    assert np.array_equal(answer.vectors, expected(texts, 1024))
    assert [len(request.texts) for request in model.server.requests] == [96, 96, 8]
    assert answer.billed_tokens == 400


def test_a_question_is_embedded_as_a_question_where_the_model_tells_them_apart(open_model: OpenModels) -> None:
    """Scenario C10: search_query in search; Titan has no such thing."""
    for name, vector in ((COHERE, vector_of("? why", 1024)), (TITAN, vector_of("why", 1024))):
        assert np.array_equal(asyncio.run(open_model(name).provider.embed_query("why")), vector)
    assert open_model().server.requests[0].body["input_type"] == "search_query"


@pytest.mark.parametrize(
    "name",
    [
        "us.cohere.embed-v4:0",
        "global.cohere.embed-v4:0",
        "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.cohere.embed-v4:0",
        "arn:aws:bedrock:us-east-1::foundation-model/amazon.titan-embed-text-v2:0",
    ],
)
def test_inference_profiles_and_arns_reach_the_endpoint_as_they_are(open_model: OpenModels, name: str) -> None:
    """The id goes into the path, where colons and slashes must survive."""
    model = open_model(name)
    model.embed(TEXTS[:1])
    assert model.server.requests[0].model == name


def test_calls_run_beside_each_other_up_to_the_settings_concurrency(bedrock_server: BedrockServer) -> None:
    """Titan takes one text a call, so throughput is concurrency."""
    bedrock_server.seconds = 0.2

    async def many() -> None:
        provider = open_provider(settings_of(bedrock_server, max_concurrency=4))
        await asyncio.gather(*[provider.embed([f"text {number}"]) for number in range(8)])
        await provider.close()

    asyncio.run(many())
    assert bedrock_server.most_at_once == 4


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        (TITAN, RequestLimits(max_items=1, max_input_tokens=8192, max_input_characters=50_000)),
        (COHERE, RequestLimits(max_items=96, max_input_characters=2048)),
        (COHERE_V4, RequestLimits(max_items=96, max_input_tokens=128_000)),
    ],
)
def test_a_model_says_what_one_request_may_hold(open_model: OpenModels, name: str, limits: RequestLimits) -> None:
    """Packing obeys the model, whatever the settings say."""
    assert open_model(name).provider.limits == limits


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (replies.Reply(200, b"<html>proxy</html>"), NotEmbeddings),
        (replies.answer(["no"]), NotEmbeddings),
        (replies.answer({"results": []}), NotEmbeddings),
        (replies.answer({"embeddings": {"int8": [[1]]}}), NotEmbeddings),
        (replies.answer({"embeddings": [[1.0] * 1024] * 2}), AnswerRefused),
        (replies.answer({"embeddings": [[1.0] * 1024, [1.0] * 1024, "no"]}), AnswerRefused),
        (replies.answer({"embeddings": [[1.0] * 3] * 3}), BatchRejected),
    ],
)
def test_an_answer_that_does_not_fit_its_request_is_refused_whole(
    open_model: OpenModels, reply: replies.Reply, kind: type[Exception]
) -> None:
    """Cohere's answers have no indexes: only an exact count says which vector belongs to which text."""
    assert type(open_model(COHERE).failure(TEXTS, reply=reply)) is kind


@pytest.mark.parametrize("said", ["", "-3", "many", "1.5"])
def test_a_token_count_that_is_no_count_is_unknown(open_model: OpenModels, said: str) -> None:
    """A bill is never made up."""
    body = replies.answer({"embeddings": [[1.0] * 1024] * 3}).body
    model = open_model(COHERE)
    model.server.always = replies.Reply(200, body, {"X-Amzn-Bedrock-Input-Token-Count": said})
    assert model.embed().billed_tokens is None


# Errors


@pytest.mark.parametrize(
    ("code", "message", "kind", "reason"),
    [
        ("ThrottlingException", "Too many requests", RateLimited, None),
        ("ServiceUnavailableException", "", Unanswered, None),
        ("ModelNotReadyException", "", Unanswered, None),
        ("ModelTimeoutException", "", Unanswered, None),
        ("InternalServerException", "", Unanswered, None),
        ("ServiceQuotaExceededException", "", EmbeddingFatal, Reason.QUOTA_EXHAUSTED),
        ("AccessDeniedException", "You don't have access", EmbeddingFatal, Reason.UNAUTHENTICATED),
        ("ResourceNotFoundException", "", EmbeddingFatal, Reason.INVALID_REQUEST),
        ("ValidationException", "Malformed input request", BatchRejected, Reason.CONTENT_REJECTED),
        ("ExpiredTokenException", "", EmbeddingFatal, Reason.UNAUTHENTICATED),
    ],
)
def test_errors_are_told_apart_by_their_names(
    open_model: OpenModels, code: str, message: str, kind: type[Exception], reason: Reason | None
) -> None:
    """Scenario C10's own table; a renewal of credentials is the only reason to send twice."""
    model = open_model()
    found = model.failure(reply=replies.error(400, code, message))
    assert (type(found), getattr(found, "reason", None)) == (kind, reason)
    assert len(model.server.requests) == (2 if code == "ExpiredTokenException" else 1)


@pytest.mark.parametrize(
    ("status", "code", "message", "reason"),
    [
        (403, "AccessDeniedException", "not authorized to perform bedrock:InvokeModel", Reason.UNAUTHENTICATED),
        (403, "UnrecognizedClientException", "The security token is invalid.", Reason.UNAUTHENTICATED),
        (403, "InvalidSignatureException", "The canonical string was token-secret", Reason.UNAUTHENTICATED),
        (403, "SomethingNewException", "", Reason.UNAUTHENTICATED),
        (400, "ServiceQuotaExceededException", "", Reason.QUOTA_EXHAUSTED),
        (404, "ResourceNotFoundException", "Could not resolve the foundation model", Reason.INVALID_REQUEST),
        (400, "ValidationException", "The provided model identifier is invalid.", Reason.INVALID_REQUEST),
        (
            400,
            "ValidationException",
            "Invocation of model ID cohere.embed-v4:0 with on-demand throughput isn't supported.",
            Reason.INVALID_REQUEST,
        ),
        (400, "ValidationException", "Malformed input request: #: extraneous key [x]", Reason.INVALID_REQUEST),
        (400, "SomethingNewException", "", Reason.INVALID_REQUEST),
    ],
)
def test_what_nobody_can_send_is_fatal_and_names_model_and_region(
    open_model: OpenModels, status: int, code: str, message: str, reason: Reason
) -> None:
    """The sentence says what to look at, without quoting what was signed."""
    found = open_model().failure(reply=replies.error(status, code, message))
    assert isinstance(found, EmbeddingFatal) and found.reason is reason
    assert f"{TITAN} in us-east-1" in found.detail
    assert "token-secret" not in found.detail


@pytest.mark.parametrize(
    ("reply", "kind", "retry_after"),
    [
        (replies.error(429, "ThrottlingException", "Too many requests", {"Retry-After": "7"}), RateLimited, 7),
        (replies.error(429, "ThrottlingException", "Too many requests"), RateLimited, None),
        (replies.error(503, "ServiceUnavailableException", "", {"Retry-After": "3"}), Unanswered, 3),
        (replies.error(429, "ModelNotReadyException"), Unanswered, None),
        (replies.error(408, "ModelTimeoutException"), Unanswered, None),
        (replies.error(424, "ModelErrorException"), Unanswered, None),
        (model_error(503), Unanswered, None),
        (model_error(429), Unanswered, None),
        (replies.error(500, "SomethingNewException"), Unanswered, None),
        (replies.error(429, "SomethingNewException"), RateLimited, None),
        (replies.Reply(502, b"<html>bad gateway</html>"), Unanswered, None),
        (replies.RESET, Unanswered, None),
    ],
)
def test_what_time_may_mend_is_raised_as_such_after_one_request(
    open_model: OpenModels, reply: replies.Reply, kind: type[Unanswered], retry_after: float | None
) -> None:
    """The client's own retries are off: the engine waits, and obeys the header where there is one."""
    model = open_model()
    found = model.failure(reply=reply)
    assert type(found) is kind
    assert isinstance(found, Unanswered) and found.retry_after == retry_after
    assert len(model.server.requests) == 1


def test_a_silent_endpoint_and_a_closed_port_are_unanswered(bedrock_server: BedrockServer) -> None:
    """Timeouts come from the settings, and are of the same class as refused connections."""
    bedrock_server.seconds = 0.5
    with pytest.raises(Unanswered, match="ReadTimeout"):
        embedded(settings_of(bedrock_server, timeout_seconds=0.05), TEXTS[:1])
    with pytest.raises(Unanswered, match="EndpointConnection"):
        embedded(settings_of(bedrock_server, base_url="http://127.0.0.1:9"))


@pytest.mark.parametrize(
    ("name", "texts", "item"),
    [
        (COHERE, ["short", "x" * 2049, "short too"], 1),
        (COHERE, [*(f"text {number}" for number in range(100)), "x" * 2049], 100),
        (TITAN, ["short", "word " * 8193], 1),
    ],
)
def test_a_text_over_the_models_length_is_named_in_the_refusal(
    open_model: OpenModels, name: str, texts: list[str], item: int
) -> None:
    """Cohere's gateway says which text is too long, so that no other is sent twice to find it."""
    refusal = open_model(name).failure(texts)
    assert isinstance(refusal, BatchRejected)
    assert (refusal.reason, refusal.item) == (Reason.OVER_LENGTH, item)


def test_a_refusal_of_content_names_no_text_it_does_not_name(open_model: OpenModels) -> None:
    """The engine has to find it by halving."""
    model = open_model(COHERE)
    model.server.blocked = {"bravo two"}
    refusal = model.failure(TEXTS)
    assert isinstance(refusal, BatchRejected)
    assert (refusal.reason, refusal.item) == (Reason.CONTENT_REJECTED, None)


def test_an_input_that_the_model_itself_refuses_rejects_the_batch(open_model: OpenModels) -> None:
    """The same name stands for a model that is out of order: the model's own status tells them apart."""
    refusal = open_model().failure(reply=model_error(400))
    assert isinstance(refusal, BatchRejected)
    assert refusal.reason is Reason.CONTENT_REJECTED


def test_an_empty_text_is_refused_for_its_content(open_model: OpenModels) -> None:
    """The words of that refusal speak of a length too, the least one."""
    refusal = open_model().failure([""])
    assert isinstance(refusal, BatchRejected)
    assert refusal.reason is Reason.CONTENT_REJECTED


# Credentials and settings


def write_credentials(path: Path, access_key: str | None) -> None:
    """Put a key into a shared credentials file, or nothing."""
    secrets = "aws_secret_access_key = s\naws_session_token = t\n"
    path.write_text(f"[default]\naws_access_key_id = {access_key}\n{secrets}" if access_key else "")


@pytest.fixture
def credentials_file(bedrock_server: BedrockServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A credentials file as `aws sso login` and its like leave behind, in place of variables."""
    assert bedrock_server
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    path = tmp_path / "credentials"
    write_credentials(path, "OLD")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(path))
    return path


def test_expired_credentials_are_fetched_anew_once_by_all_calls_together(
    bedrock_server: BedrockServer, credentials_file: Path
) -> None:
    """A run outlives its session token: the chain is asked again, and no text is lost."""

    async def across_the_expiry() -> Answer:
        provider = open_provider(settings_of(bedrock_server))
        await provider.embed(["before"])
        write_credentials(credentials_file, "NEW")
        bedrock_server.expired_keys = {"OLD"}
        await asyncio.gather(*[provider.embed([text]) for text in TEXTS])
        answer = await provider.embed(["after"])
        await provider.close()
        return answer

    assert np.array_equal(asyncio.run(across_the_expiry()).vectors, expected(["after"], 1024))
    keys = [request.access_key for request in bedrock_server.requests]
    assert keys[0] == "OLD" and keys.count("NEW") == 4
    assert keys[-1] == "NEW"


def test_credentials_that_stay_expired_stop_the_run(bedrock_server: BedrockServer, credentials_file: Path) -> None:
    """Asking a third time would not help."""
    assert credentials_file.exists()
    bedrock_server.expired_keys = {"OLD"}
    with pytest.raises(EmbeddingFatal) as caught:
        embedded(settings_of(bedrock_server), TEXTS[:1])
    assert caught.value.reason is Reason.UNAUTHENTICATED
    assert len(bedrock_server.requests) == 2


def test_without_credentials_nothing_is_opened(bedrock_server: BedrockServer, credentials_file: Path) -> None:
    """The sentence says how to give them, before a plan is made."""
    credentials_file.write_text("")
    with pytest.raises(ModelUnavailable, match="AWS_PROFILE"):
        open_provider(settings_of(bedrock_server))
    credentials_file.write_text("[default]\naws_access_key_id = OLD\n")
    with pytest.raises(ModelUnavailable, match="AWS_PROFILE"):
        open_provider(settings_of(bedrock_server))


def test_credentials_that_vanish_stop_the_run_with_what_to_do(
    bedrock_server: BedrockServer, credentials_file: Path
) -> None:
    """They were there when the run began."""

    async def across_the_loss() -> None:
        provider = open_provider(settings_of(bedrock_server))
        write_credentials(credentials_file, None)
        bedrock_server.expired_keys = {"OLD"}
        try:
            await provider.embed(["text"])
        finally:
            await provider.close()

    with pytest.raises(EmbeddingFatal, match="AWS credentials") as caught:
        asyncio.run(across_the_loss())
    assert caught.value.reason is Reason.UNAUTHENTICATED


def test_a_key_of_bedrock_itself_is_as_good_as_credentials(
    bedrock_server: BedrockServer, credentials_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The AWS chain knows such keys, so nothing of ours stands in their way."""
    credentials_file.write_text("")
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "bedrock-key")
    assert opened(settings_of(bedrock_server)).dimensions == 1024


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dimensions": 768}, "1024 or 512 or 256"),
        ({"model": "amazon.titan-embed-text-v1"}, "1536"),
        ({"model": COHERE, "dimensions": 384}, "1024"),
        ({"model": COHERE_V4, "dimensions": 1000}, "1536 or 1024 or 512 or 256"),
        ({"model": "amazon.titan-text-express-v1"}, "titan-embed-text-v2"),
        ({"base_url": "localhost:8000"}, "base_url"),
        ({"region": "not a region"}, "region"),
        (
            {"model": f"arn:aws:bedrock:eu-west-1::foundation-model/{TITAN}", "region": "us-east-1"},
            "is not that of the model",
        ),
    ],
)
def test_settings_that_contradict_the_model_are_refused_before_anything_is_sent(
    bedrock_server: BedrockServer, changes: dict[str, Any], words: str
) -> None:
    """The sentence says what there is."""
    given = {"model": TITAN, "dimensions": 1024, **changes}
    with pytest.raises(SettingsError, match=words):
        open_provider(settings_of(bedrock_server, **given))
    assert bedrock_server.requests == []


def test_the_region_comes_from_the_settings_the_arn_or_the_chain(
    bedrock_server: BedrockServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Limits are shared by region and model, and the account's name says so."""
    arn = f"arn:aws:bedrock:eu-west-1::foundation-model/{TITAN}"
    for model, asked_for, region in (
        (TITAN, None, "us-east-1"),
        (TITAN, "ap-south-1", "ap-south-1"),
        (arn, None, "eu-west-1"),
    ):
        given = settings_of(bedrock_server, model, region=asked_for)
        assert opened(given).account == f"bedrock {region} {given.model}"
    assert opened(settings_of(bedrock_server, account="team")).account == "team"
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(SettingsError, match=r"models\.region"):
        open_provider(settings_of(bedrock_server))


def test_the_fingerprint_holds_every_parameter_of_the_request(open_model: OpenModels) -> None:
    """Whatever could change a vector is in it, as plain values, and the texts and the address are not."""
    model = open_model(COHERE_V4, 512)
    found = model.provider.fingerprint()
    assert json.loads(json.dumps(found)) == found
    assert {"provider", "model", "dimensions", "library", "library_version"} <= found.keys()
    assert json.loads(str(found["parameters"]))["output_dimension"] == 512
    assert model.server.url not in found.values()


# The whole platform


def test_a_corpus_is_written_as_documents_and_searched_with_a_question(
    deployment: Deployment, bedrock_server: BedrockServer
) -> None:
    """Two models build the same index beside each other, each asked in its own way."""
    declared = "".join(
        f'[[models]]\nversion = "v{number}"\nprovider = "bedrock"\nmodel = "{model}"\ndimensions = 1024\n'
        f'base_url = "{bedrock_server.url}"\n'
        for number, model in enumerate((COHERE, TITAN))
    )
    deployment.configure(f'[source]\nurl = "inbox"\n[chunker]\nmax_tokens = 300\nmin_tokens = 75\n{declared}')
    for number in range(3):
        deployment.write(f"{number}.md", paragraphs(number, 12))
    deployment.command("run")
    assert all(check["passed"] for check in deployment.json("verify"))
    chunks = sorted(row["text"] for row in deployment.query("SELECT DISTINCT text FROM ingest.chunks"))
    requests = {model: [item for item in bedrock_server.requests if item.model == model] for model in (COHERE, TITAN)}
    for model, sent in requests.items():
        assert sorted(text for request in sent for text in request.texts) == chunks, model
    assert len(requests[TITAN]) == len(chunks) > len(requests[COHERE])
    assert {request.body["input_type"] for request in requests[COHERE]} == {"search_document"}
    assert deployment.json("search", "Where are the pumps?", "--model", "v0")
    assert bedrock_server.requests[-1].body["input_type"] == "search_query"
