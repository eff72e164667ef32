"""What the local and the OpenAI-compatible provider answer, and which failure they make of what goes wrong."""

import asyncio
import copy
import importlib.util
import json
import random
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ingest_assets.embed import UNLIMITED, Provider, RequestLimits, open_provider
from ingest_assets.embed.answers import Answer, check_vectors
from ingest_assets.embed.failures import (
    AnswerRefused,
    BatchRejected,
    NotEmbeddings,
    RateLimited,
    Unanswered,
    provider_words,
)
from ingest_assets.embed.openai_answer import read_answer
from ingest_assets.embed.pacing import Pacing, parse_retry_after
from ingest_assets.errors import EmbeddingFatal, IngestError, ModelUnavailable, Reason, SettingsError
from ingest_assets.settings import LOCAL_MODEL, ModelSettings
from ingest_assets_tests import embedding_server as faults
from ingest_assets_tests.embedding_server import EmbeddingServer, vector_of
from ingest_assets_tests.rate_limits import RateLimits
from ingest_assets_tests.texts import paragraphs

TEXTS = ["alpha", "bravo", "charlie", "delta"]


def openai_settings(server: EmbeddingServer, **changes: Any) -> ModelSettings:
    """Return settings of a model on this server."""
    given = {"version": "test-v1", "provider": "openai", "model": "m", "dimensions": 8, "base_url": server.url}
    return ModelSettings(**{**given, **changes})


def answered(settings: ModelSettings, texts: list[str] = TEXTS) -> Answer:
    """Open a provider, send one request, close it."""

    async def once() -> Answer:
        provider = open_provider(settings)
        try:
            return await provider.embed(texts)
        finally:
            await provider.close()

    return asyncio.run(once())


def embedded(settings: ModelSettings, texts: list[str] = TEXTS) -> NDArray[np.float32]:
    """Return the vectors of one request."""
    return answered(settings, texts).vectors


def described(settings: ModelSettings) -> Provider:
    """Open a provider and close it, for what it says of itself."""
    provider = open_provider(settings)
    asyncio.run(provider.close())
    return provider


def expected(texts: list[str] = TEXTS, dimensions: int = 8) -> NDArray[np.float32]:
    """Return what the test server has for these texts."""
    return np.stack([vector_of(text, dimensions) for text in texts])


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "AZURE_OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


# The local model


@pytest.fixture(scope="module")
def local() -> Provider:
    """The model in the wheel, opened once."""
    return open_provider(LOCAL_MODEL)


@pytest.fixture(scope="module")
def passages() -> list[str]:
    """Texts of very different length and script."""
    chance = random.Random(4)
    odd = ["a", "日本語の文章です。", "a" * 3000, "</s> and <unk>", "x\n\n  y\t▁z", "🙂👩‍👩‍👧", " led by a blank"]
    return odd + [paragraphs(seed, chance.randint(1, 12)) for seed in range(150)]


def test_a_local_vector_does_not_depend_on_its_company(local: Provider, passages: list[str]) -> None:
    """Bit for bit the same alone, in any order and in any batch size: re-embedding finds nothing changed."""

    async def all_ways() -> None:
        whole = (await local.embed(passages)).vectors
        alone = [(await local.embed([text])).vectors for text in passages]
        assert np.array_equal(np.concatenate(alone), whole)
        order = random.Random(5).sample(range(len(passages)), len(passages))
        assert np.array_equal((await local.embed([passages[index] for index in order])).vectors, whole[order])
        assert whole.dtype == np.float32 and whole.shape == (len(passages), 256)
        assert np.allclose(np.linalg.norm(whole, axis=1), 1, atol=1e-6)

    asyncio.run(all_ways())


def test_local_vectors_are_those_of_wordllama(local: Provider, passages: list[str]) -> None:
    """Our pooling is the package's own arithmetic; only quoted special tokens are read as what they are."""
    from wordllama import WordLlama  # noqa: PLC0415  # it configures logging when imported

    folder = Path(str(importlib.util.find_spec("wordllama").origin)).parent  # type: ignore[union-attr]
    theirs = WordLlama.load(cache_dir=folder, disable_download=True)
    ordinary = [text for text in passages if "</s>" not in text]
    ours = asyncio.run(local.embed(ordinary)).vectors
    assert np.allclose(ours, theirs.embed(ordinary, norm=True), atol=1e-6)


def test_a_long_text_is_embedded_to_its_end(local: Provider) -> None:
    """There is no truncation: what stands at the far end moves the vector."""

    async def both() -> NDArray[np.float32]:
        body = "the pump runs. " * 20_000
        return (await local.embed([body, body + "volcano " * 5000])).vectors

    first, second = asyncio.run(both())
    assert float(first @ second) < 0.99


def test_an_empty_text_has_a_zero_vector_and_the_check_names_it(local: Provider) -> None:
    """No filler vector reaches a table."""
    vectors = asyncio.run(local.embed(["", "text"])).vectors
    checked = check_vectors(vectors, 2, 256)
    assert checked.rejected == {0: Reason.INVALID_VECTOR}
    assert checked.accepted.tolist() == [1]


def test_smaller_local_dimensions_are_the_leading_numbers(local: Provider) -> None:
    """128 and 64 dimensions are the same model cut short, normalised again."""
    small = embedded(LOCAL_MODEL.model_copy(update={"dimensions": 64}), ["the pump runs"])
    large = asyncio.run(local.embed(["the pump runs"])).vectors[:, :64]
    assert np.allclose(small, large / np.linalg.norm(large), atol=1e-6)


def test_the_local_model_leaves_the_event_loop_alive(local: Provider, passages: list[str]) -> None:
    """Leases are renewed and sinks run while vectors are computed."""

    async def ticks() -> int:
        embedding = asyncio.ensure_future(local.embed(passages * 3))
        count = 0
        while not embedding.done():
            await asyncio.sleep(0)
            count += 1
        return count

    assert asyncio.run(ticks()) > 10


def test_other_local_dimensions_and_names_are_refused() -> None:
    """The sentence says what there is."""
    for change in ({"dimensions": 512}, {"model": "llama"}):
        with pytest.raises(SettingsError, match="64, 128 or 256"):
            open_provider(LOCAL_MODEL.model_copy(update=change))


@pytest.mark.parametrize("damage", ["missing", "broken"])
def test_a_missing_or_broken_local_model_says_what_to_do(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wheel without its files is an environment problem with a way out."""
    package = tmp_path / "wordllama"
    (package / "weights").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    if damage == "broken":
        (package / "weights" / "l2_supercat_256.safetensors").write_bytes(b"\x00" * 64)
    monkeypatch.delitem(sys.modules, "wordllama", raising=False)  # it would be found there first
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModelUnavailable, match="reinstall it: pip install"):
        open_provider(LOCAL_MODEL)


def test_opening_the_local_model_imports_neither_client_nor_downloader() -> None:
    """Only who uses a slow package pays for it, and what is not imported cannot reach the network."""
    code = (
        "import sys; from ingest_assets.embed import open_provider; from ingest_assets.settings import LOCAL_MODEL;"
        "open_provider(LOCAL_MODEL); print([n for n in ('wordllama', 'openai', 'requests') if n in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


# OpenAI: the request


def test_the_request_asks_for_floats_and_works_without_a_key(embedding_server: EmbeddingServer) -> None:
    """Scenario C08: left alone, the client would ask for base64."""
    assert np.array_equal(embedded(openai_settings(embedding_server)), expected())
    (request,) = embedding_server.requests
    assert request.parameters == {"model": "m", "encoding_format": "float"}


def test_dimensions_are_sent_to_models_that_shorten_vectors(embedding_server: EmbeddingServer) -> None:
    """Other servers refuse the parameter, so they do not get it."""
    vectors = embedded(openai_settings(embedding_server, model="text-embedding-3-small", dimensions=5))
    assert np.array_equal(vectors, expected(dimensions=5))
    assert embedding_server.requests[0].parameters["dimensions"] == 5


def test_the_key_comes_from_the_environment(embedding_server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ecosystem's own variable, and nothing of ours."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    embedded(openai_settings(embedding_server))
    assert embedding_server.requests[0].authorization == "Bearer sk-test"


def test_without_key_and_server_the_sentence_names_both(embedding_server: EmbeddingServer) -> None:
    """Before anything is sent."""
    with pytest.raises(ModelUnavailable, match="set OPENAI_API_KEY"):
        open_provider(openai_settings(embedding_server, base_url=None))


def test_an_address_without_a_scheme_is_refused_at_once(embedding_server: EmbeddingServer) -> None:
    """Otherwise it would look like a server that is down."""
    with pytest.raises(SettingsError, match="http://"):
        open_provider(openai_settings(embedding_server, base_url="localhost:8000/v1"))


def test_the_fingerprint_names_what_decides_a_vector(embedding_server: EmbeddingServer, local: Provider) -> None:
    """Plain values that survive JSON; an address is not among them."""
    for provider in (open_provider(openai_settings(embedding_server)), local):
        found = provider.fingerprint()
        assert json.loads(json.dumps(found)) == found
        assert {"provider", "model", "dimensions", "library", "library_version"} <= found.keys()
        assert embedding_server.url not in found.values()


@pytest.mark.parametrize("ending", ["", "/"])
def test_an_address_may_end_in_a_slash(embedding_server: EmbeddingServer, ending: str) -> None:
    """Both spellings are what people copy."""
    assert np.array_equal(
        embedded(openai_settings(embedding_server, base_url=embedding_server.url + ending)), expected()
    )


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_that_keeps_the_request_is_followed(embedding_server: EmbeddingServer, status: int) -> None:
    """Gateways move endpoints; the request arrives whole at the new place."""
    moved = faults.scripted(status, "moved", {"Location": f"{embedding_server.url}/new/embeddings"})
    embedding_server.next(moved)
    assert np.array_equal(embedded(openai_settings(embedding_server)), expected())
    assert len(embedding_server.requests) == 2


def test_a_redirect_to_a_page_is_no_embeddings_answer(embedding_server: EmbeddingServer) -> None:
    """A sign-in page is a success of another kind."""
    embedding_server.next(faults.scripted(302, "moved", {"Location": f"{embedding_server.url}/login"}))
    with pytest.raises(NotEmbeddings):
        embedded(openai_settings(embedding_server))


@pytest.mark.parametrize(
    ("environment", "key"),
    [
        ({"AZURE_OPENAI_API_KEY": "azure", "OPENAI_API_KEY": "openai"}, "azure"),
        ({"AZURE_OPENAI_API_KEY": "", "OPENAI_API_KEY": "openai"}, "openai"),
        ({}, "none"),
    ],
)
def test_a_gateway_in_azures_style_gets_its_query_and_its_key_header(
    embedding_server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], key: str
) -> None:
    """The version of such an interface is part of every address, and the key has a header of its own."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    base_url = f"{embedding_server.url}/openai/deployments/small/?api-version=2024-10-21"
    assert np.array_equal(embedded(openai_settings(embedding_server, base_url=base_url)), expected())
    (request,) = embedding_server.requests
    assert (request.query, request.api_key, request.authorization) == ("api-version=2024-10-21", key, f"Bearer {key}")


def test_only_a_gateway_in_azures_style_gets_azures_key(
    embedding_server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key is shown to nobody else."""
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "azure")
    embedded(openai_settings(embedding_server))
    assert (embedding_server.requests[0].api_key, embedding_server.requests[0].authorization) == (None, "Bearer none")


def test_a_key_header_is_not_carried_along_a_redirect(
    embedding_server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new place may be anybody's, and the client drops only the header that it knows."""
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "azure")
    embedding_server.next(faults.scripted(307, "moved", {"Location": f"{embedding_server.url}/new/embeddings"}))
    with pytest.raises(EmbeddingFatal, match="base_url") as caught:
        embedded(openai_settings(embedding_server, base_url=f"{embedding_server.url}?api-version=1"))
    assert caught.value.reason is Reason.INVALID_REQUEST
    assert len(embedding_server.requests) == 1


def test_an_account_is_named_without_secrets(embedding_server: EmbeddingServer, local: Provider) -> None:
    """Whoever shares server and model shares their limits; the settings may say otherwise."""
    given = openai_settings(embedding_server, base_url="https://user:pass@gateway.example:8443/v1?key=secret")
    assert described(given).account == "openai gateway.example:8443 m"
    assert described(given.model_copy(update={"account": "team"})).account == "team"
    assert local.account is None


def test_only_openai_itself_has_limits_of_requests_that_are_known(
    embedding_server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch, local: Provider
) -> None:
    """Other servers' limits are whatever the settings say."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    assert described(openai_settings(embedding_server, base_url=None)).limits == RequestLimits(2048, 300_000, 8192)
    assert described(openai_settings(embedding_server)).limits == local.limits == UNLIMITED


def test_a_question_is_embedded_like_a_passage(embedding_server: EmbeddingServer, local: Provider) -> None:
    """Neither of these models tells them apart."""

    async def asked(provider: Provider) -> NDArray[np.float32]:
        try:
            return await provider.embed_query("alpha")
        finally:
            await provider.close()

    assert np.array_equal(asyncio.run(asked(open_provider(openai_settings(embedding_server)))), vector_of("alpha", 8))
    passage = asyncio.run(local.embed(["alpha"])).vectors[0]
    assert np.array_equal(asyncio.run(asked(open_provider(LOCAL_MODEL))), passage)


# OpenAI: the answer


@pytest.mark.parametrize("encoding", ["float", "base64"])
def test_either_number_format_is_read(embedding_server: EmbeddingServer, encoding: Any) -> None:
    """Scenario C08: servers ignore what they were asked for."""
    embedding_server.encoding = encoding
    assert np.array_equal(embedded(openai_settings(embedding_server)), expected())


@pytest.mark.parametrize("spoil", [faults.SHORT, faults.DUPLICATED])
def test_an_answer_that_does_not_match_its_request_is_refused_whole(
    embedding_server: EmbeddingServer, spoil: faults.Fault
) -> None:
    """Scenario C06: a vector is never stored with another text."""
    embedding_server.next(spoil)
    with pytest.raises(AnswerRefused):
        embedded(openai_settings(embedding_server))


def test_a_reordered_answer_is_put_in_order_by_index(embedding_server: EmbeddingServer) -> None:
    """Scenario C06, first variant."""
    embedding_server.next(faults.REORDERED)
    assert np.array_equal(embedded(openai_settings(embedding_server)), expected())


@pytest.mark.parametrize(
    "data",
    [
        [],
        [{"index": 0, "embedding": [1, 2]}, {"index": 2, "embedding": [1, 2]}],
        [{"index": 0, "embedding": [1, 2]}, {"index": -1, "embedding": [1, 2]}],
        [{"index": 0, "embedding": [1, 2]}, {"index": True, "embedding": [1, 2]}],
        [{"index": 0, "embedding": [1, 2]}, {"embedding": [1, 2]}],
        [{"index": 0, "embedding": [1, 2]}, {"index": 1, "embedding": None}],
        [{"index": 0, "embedding": [1, 2]}, {"index": 1, "embedding": [[1], [2]]}],
        [{"index": 0, "embedding": [1, 2]}, {"index": 1, "embedding": "!!"}],
        [{"index": 0, "embedding": [1, 2]}, {"index": 1, "embedding": ["a", "b"]}],
        [{"index": index, "embedding": [1, 2]} for index in (0, 1, 2)],
        [{"index": index, "embedding": [1, 2]} for index in (0, 1, 1)],
        ["text", "text"],
    ],
)
def test_malformed_items_refuse_the_answer(data: list[Any]) -> None:
    """Gap, negative, boolean or missing index, too many, and what is not a list of numbers."""
    with pytest.raises(AnswerRefused):
        read_answer(json.dumps({"data": data}).encode(), 2, 2)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", NotEmbeddings),
        (b"<html>gateway</html>", NotEmbeddings),
        (b"[]", NotEmbeddings),
        (b'{"data": 3}', NotEmbeddings),
        (b'{"error": {"code": 502}}', Unanswered),
        (b'{"error": "loading model"}', Unanswered),
        (b'{"object": "error", "message": "no"}', Unanswered),
    ],
)
def test_what_is_no_embeddings_answer_is_asked_again(body: bytes, kind: type[Unanswered]) -> None:
    """Scenario C06: a page may be a wrong address, an error with status 200 is somebody else's trouble."""
    with pytest.raises(Unanswered) as caught:
        read_answer(body, 2, 2)
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("usage", "billed"),
    [
        ({"prompt_tokens": 7, "total_tokens": 9}, 7),
        ({"prompt_tokens": 0, "total_tokens": 9}, 0),
        ({"total_tokens": 9}, 9),
        ({"prompt_tokens": -1, "total_tokens": 9}, 9),
        ({"prompt_tokens": 7.5}, None),
        ({"prompt_tokens": "7"}, None),
        ({"prompt_tokens": True}, None),
        ({}, None),
        (None, None),
        ("many", None),
    ],
)
def test_what_is_billed_is_what_the_server_counted(usage: object, billed: int | None) -> None:
    """Nonsense is no count: a bill is never made up."""
    body = {"data": [{"index": 0, "embedding": [1, 2]}], "usage": usage}
    assert read_answer(json.dumps(body).encode(), 1, 2).billed_tokens == billed


@pytest.mark.parametrize(("encoding", "dimensions"), [("doubles", 8), ("float", 2), ("base64", 16)])
def test_another_dimension_is_named_before_anything_is_written(
    embedding_server: EmbeddingServer, encoding: Any, dimensions: int
) -> None:
    """Scenario C08: 8 doubles are not 16 floats, and 2 numbers are not 8."""
    embedding_server.encoding, embedding_server.dimensions = encoding, dimensions
    with pytest.raises(BatchRejected) as caught:
        embedded(openai_settings(embedding_server))
    assert caught.value.reason is Reason.DIMENSION_MISMATCH


def test_null_infinite_and_huge_numbers_are_verdicts_on_their_row() -> None:
    """The neighbours of a bad vector are good."""
    rows = [[1.0, 0.5], [None, 1.0], [1e300, 1.0], [0.0, 0.0], [1e38, 1e38]]
    body = json.dumps({"data": [{"index": index, "embedding": row} for index, row in enumerate(rows)]}).encode()
    checked = check_vectors(read_answer(body, 5, 2).vectors, 5, 2)
    assert checked.accepted.tolist() == [0]
    assert checked.rejected == dict.fromkeys((1, 2, 3, 4), Reason.INVALID_VECTOR)


def test_a_wrong_shape_refuses_every_row() -> None:
    """For providers that hand over arrays of their own."""
    with pytest.raises(AnswerRefused):
        check_vectors(np.ones((3, 2), dtype=np.float32), 4, 2)
    with pytest.raises(BatchRejected):
        check_vectors(np.ones((4, 3), dtype=np.float32), 4, 2)


# OpenAI: failures by class


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (faults.INSUFFICIENT_QUOTA, Reason.QUOTA_EXHAUSTED),
        (faults.error(402), Reason.QUOTA_EXHAUSTED),
        (faults.error(401, "Incorrect API key sk-secret"), Reason.UNAUTHENTICATED),
        (faults.error(403), Reason.UNAUTHENTICATED),
        (faults.error(404, "no such model", code="model_not_found"), Reason.INVALID_REQUEST),
        (faults.error(400, "unknown model", param="model"), Reason.INVALID_REQUEST),
        (faults.error(405), Reason.INVALID_REQUEST),
    ],
)
def test_what_nobody_can_send_is_fatal_after_one_request(
    embedding_server: EmbeddingServer, fault: faults.Fault, reason: Reason
) -> None:
    """Scenario C01: no request is repeated, and no key is quoted."""
    embedding_server.next(fault)
    with pytest.raises(EmbeddingFatal) as caught:
        embedded(openai_settings(embedding_server))
    assert caught.value.reason is reason
    assert len(embedding_server.requests) == 1
    assert "sk-secret" not in caught.value.detail


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (faults.rate_limited("7"), RateLimited),
        (faults.error(503, retry_after="7"), Unanswered),
        (faults.error(500), Unanswered),
        (faults.scripted(502, "<html>bad gateway</html>"), Unanswered),
        (faults.error(408), Unanswered),
        (faults.reset, Unanswered),
        (faults.HTML, NotEmbeddings),
    ],
)
def test_what_time_may_mend_is_raised_as_such(
    embedding_server: EmbeddingServer, fault: faults.Fault, kind: type[Unanswered]
) -> None:
    """The provider itself sends once and leaves retries to the engine."""
    embedding_server.next(fault)
    with pytest.raises(Unanswered) as caught:
        embedded(openai_settings(embedding_server))
    assert type(caught.value) is kind
    assert len(embedding_server.requests) == 1


def test_a_silent_server_and_a_closed_port_are_unanswered(embedding_server: EmbeddingServer) -> None:
    """Timeouts and refused connections are of the same class."""
    embedding_server.seconds = 0.5
    with pytest.raises(Unanswered, match="Timeout"):
        embedded(openai_settings(embedding_server, timeout_seconds=0.05))
    with pytest.raises(Unanswered):
        embedded(openai_settings(embedding_server, base_url="http://127.0.0.1:9/v1"))


@pytest.mark.parametrize(
    ("status", "message", "reason"),
    [
        (400, "The input is not allowed here.", Reason.CONTENT_REJECTED),
        (422, "Unprocessable", Reason.CONTENT_REJECTED),
        (413, "Payload too large", Reason.OVER_LENGTH),
        (400, "This model's maximum context length is 8192 tokens", Reason.OVER_LENGTH),
        (422, "Input validation error: `inputs` must have less than 512 tokens. Given: 640", Reason.OVER_LENGTH),
        (400, "the input length exceeds the context length", Reason.OVER_LENGTH),
    ],
)
def test_what_content_causes_rejects_the_batch(
    embedding_server: EmbeddingServer, status: int, message: str, reason: Reason
) -> None:
    """The reason is what a single text would get."""
    embedding_server.next(faults.error(status, message))
    with pytest.raises(BatchRejected) as caught:
        embedded(openai_settings(embedding_server))
    assert caught.value.reason is reason
    assert message in caught.value.detail


TEI_LENGTH = "Input validation error: `inputs` must have less than 512 tokens. Given: 640"
VLLM_LENGTH = "This model's maximum context length is 512 tokens. However, you requested 640 tokens in the input."


@pytest.mark.parametrize(
    ("status", "body", "kind", "reason"),
    [
        # text-embeddings-inference, on both of its paths
        (413, {"error": TEI_LENGTH, "error_type": "Validation"}, BatchRejected, Reason.OVER_LENGTH),
        (413, {"message": TEI_LENGTH, "type": "Validation", "code": 413}, BatchRejected, Reason.OVER_LENGTH),
        (422, {"error": "tokenizer error", "error_type": "Tokenizer"}, BatchRejected, Reason.CONTENT_REJECTED),
        (424, {"error": "Backend error: out of memory", "error_type": "Backend"}, Unanswered, None),
        (429, {"error": "Model is overloaded", "error_type": "Overloaded"}, RateLimited, None),
        # vLLM, before and after its errors got an object of their own
        (400, {"object": "error", "message": VLLM_LENGTH, "code": 400}, BatchRejected, Reason.OVER_LENGTH),
        (400, {"error": {"message": VLLM_LENGTH, "code": 400}}, BatchRejected, Reason.OVER_LENGTH),
        (404, {"object": "error", "message": "no such model", "code": 404}, EmbeddingFatal, Reason.INVALID_REQUEST),
        # Ollama and llama.cpp, which fail on long texts with 500 too
        (400, {"error": "the input length exceeds the context length"}, BatchRejected, Reason.OVER_LENGTH),
        (500, {"error": "the input length exceeds the context length"}, BatchRejected, Reason.OVER_LENGTH),
        (500, {"error": {"code": 500, "message": "input is too large to process"}}, BatchRejected, Reason.OVER_LENGTH),
        (500, {"error": "llama runner process has terminated"}, Unanswered, None),
        (404, {"error": 'model "m" not found, try pulling it first'}, EmbeddingFatal, Reason.INVALID_REQUEST),
        # Azure and other gateways
        (401, {"error": {"code": "401", "message": "Access denied"}}, EmbeddingFatal, Reason.UNAUTHENTICATED),
        (403, {"error": {"message": "Out of call volume quota."}}, EmbeddingFatal, Reason.QUOTA_EXHAUSTED),
        (404, {"error": {"code": "DeploymentNotFound"}}, EmbeddingFatal, Reason.INVALID_REQUEST),
        (400, {"error": {"code": "content_filter", "message": "filtered"}}, BatchRejected, Reason.CONTENT_REJECTED),
        (400, {"error": {"type": "budget_exceeded", "message": "Budget"}}, EmbeddingFatal, Reason.QUOTA_EXHAUSTED),
        (422, {"detail": "no"}, BatchRejected, Reason.CONTENT_REJECTED),
        (503, {"detail": [{"msg": "warming up"}]}, Unanswered, None),
        # no shape at all
        (400, "bad request", BatchRejected, Reason.CONTENT_REJECTED),
        (500, None, Unanswered, None),
        (400, ["no"], BatchRejected, Reason.CONTENT_REJECTED),
        (400, {"error": None, "message": None}, BatchRejected, Reason.CONTENT_REJECTED),
    ],
)
def test_every_servers_own_errors_are_understood(
    embedding_server: EmbeddingServer, status: int, body: object, kind: type[Exception], reason: Reason | None
) -> None:
    """Servers that speak this language differ most in how they refuse."""
    embedding_server.next(faults.scripted(status, body))
    with pytest.raises(IngestError) as caught:
        embedded(openai_settings(embedding_server))
    assert (type(caught.value), getattr(caught.value, "reason", None)) == (kind, reason)
    assert len(embedding_server.requests) == 1


@pytest.mark.parametrize(
    ("param", "message", "item"),
    [
        ("input[3]", "no", 3),
        ("inputs[3]", "no", 3),
        ("input.3", "no", 3),
        ("$.input[3]", "no", 3),
        ("input[3].text", "no", 3),
        ("input.list[str].3", "no", 3),
        ("input[0]", "'$.input[2]' is invalid", 0),
        ("input", "'$.input[2]' is invalid", 2),
        (None, "Invalid 'input[2]': string too long.", 2),
        (None, "input[2] and again input[2] are empty", 2),
        (None, "The input at index 3 is too long", 3),
        (None, "'input.1' must not be empty", 1),
        # an index that the cut to 200 characters would shorten
        (None, "so it goes, " * 15 + "and input at index 2", 2),
        (None, "so it goes, " * 15 + "and input at index 25", None),
        # numbers that are no index, or not one of this request
        (None, "This model's maximum context length is 2 tokens", None),
        (None, "The input of 3 tokens is too long", None),
        (None, "input 3 tokens", None),
        (None, "input.3 tokens", None),
        (None, "limit at index 3", None),
        (None, "input at index 3.5", None),
        (None, "input[-1] is invalid", None),
        (None, "myinput[2] is invalid", None),
        (None, "input[1] repeats input[0]", None),
        (None, "input[4] is invalid", None),
        (None, "input[9999999] is invalid", None),
        ("input[4]", "no", None),
        ("input", "no", None),
        ("inputs", "3", None),
        ("dimensions.3", "no", None),
        # a text that is quoted
        (None, "not allowed: see input[1] there", None),
    ],
)
def test_a_text_that_an_error_names_is_known_by_its_position(
    embedding_server: EmbeddingServer, param: str | None, message: str, item: int | None
) -> None:
    """It spares the halving; a number that only looks like an index would accuse the wrong text."""
    embedding_server.next(faults.error(400, message, param=param))
    with pytest.raises(BatchRejected) as caught:
        embedded(openai_settings(embedding_server), ["alpha", "bravo", "charlie", "see input[1] there"])
    assert caught.value.item == item
    assert copy.copy(caught.value).item == item


@pytest.mark.parametrize(
    ("places", "item"),
    [
        ([["body", "input", 1]], 1),
        ([["body", "input", "list[str]", 1], ["body", "input", "list[str]", 1]], 1),
        ([["body", "input", 1], ["body", "input", 2]], None),
        ([["body", "input"]], None),
        ([None], None),
    ],
)
def test_the_place_of_a_complaint_is_a_position(
    embedding_server: EmbeddingServer, places: list[Any], item: int | None
) -> None:
    """Servers built on FastAPI say where in the body something is wrong."""
    embedding_server.next(faults.scripted(422, {"detail": [{"loc": place, "msg": "bad"} for place in places]}))
    with pytest.raises(BatchRejected) as caught:
        embedded(openai_settings(embedding_server))
    assert caught.value.item == item


def test_a_poison_text_may_be_named_by_the_server(embedding_server: EmbeddingServer) -> None:
    """As OpenAI does, by the parameter of the error."""
    embedding_server.poison, embedding_server.names_poison = {"charlie"}, True
    with pytest.raises(BatchRejected) as caught:
        embedded(openai_settings(embedding_server))
    assert caught.value.item == 2


def test_milliseconds_to_wait_are_understood(embedding_server: EmbeddingServer) -> None:
    """OpenAI and Azure say so more exactly beside the ordinary header."""
    headers = {"retry-after-ms": "1250", "retry-after": "2"}
    embedding_server.next(faults.scripted(429, {"error": {"message": "slow"}}, headers))
    with pytest.raises(RateLimited) as caught:
        embedded(openai_settings(embedding_server))
    assert caught.value.retry_after == 1.25


# What is billed and what is limited


def test_lost_work_is_billed_and_refused_work_is_not(embedding_server: EmbeddingServer) -> None:
    """The answer says what was counted, as long as it arrives."""
    texts = ["one two", "three"]
    answer = answered(openai_settings(embedding_server), texts)
    assert answer.billed_tokens == 3
    embedding_server.next(faults.lost, faults.reset)
    embedding_server.toxic = {"three"}
    for _ in range(3):
        with pytest.raises(Unanswered):
            answered(openai_settings(embedding_server), texts)
    assert (embedding_server.billed_items, embedding_server.billed_tokens) == (4, 6)


@pytest.mark.parametrize("says", [True, False])
def test_a_limiter_answers_429_and_says_when_to_come_back(embedding_server: EmbeddingServer, says: bool) -> None:
    """The bucket lets in one request that is larger than it, and the next has to wait for both."""
    embedding_server.tokens_per_minute, embedding_server.says_retry_after = 60, says
    answered(openai_settings(embedding_server), ["word " * 60])
    with pytest.raises(RateLimited) as caught:
        answered(openai_settings(embedding_server), ["word"])
    assert embedding_server.answered_429 == 1
    retry_after = caught.value.retry_after
    assert (retry_after is not None and 50 < retry_after <= 60) if says else retry_after is None


def test_a_bucket_refills_all_the_time_and_never_beyond_its_size() -> None:
    """Each of several limits must have room, and a refusal takes from none."""
    now = [0.0]
    limits = RateLimits(lambda: now[0])
    rates = {"requests": 60.0, "tokens": 600.0, "items": None}

    def admit(tokens: float) -> float:
        return limits.admit(rates, {"requests": 1, "tokens": tokens, "items": 9}, burst_seconds=2)

    assert [admit(15), admit(5), admit(1)] == [0, 0, 1]
    now[0] = 1.0
    assert [admit(10), admit(1)] == [0, 1]
    now[0] = 100.0
    assert [admit(50), admit(1)] == [0, pytest.approx(3.1)]
    now[0] = 103.1
    assert admit(1) == 0


def test_a_providers_words_are_cut_and_never_quote_the_text() -> None:
    """Dead letters hold references, not content."""
    assert provider_words("No.\n  Try  again.", ["something else"]) == "No. Try again."
    assert len(provider_words("why " * 200, ["something else"])) == 200
    text = "The patient was seen on Monday morning."
    assert provider_words("cannot embed 'The patient was seen on'", [text]) == ""
    assert provider_words("cannot embed secret", ["secret"]) == ""


# Retry-After


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        ("0.493", 0.493),
        ("Fri, 03 May 2024 10:00:20 GMT", 20.0),
        ("Fri, 03 May 2024 10:00:20 -0000", 20.0),
        ("Fri, 03 May 2024 09:00:00 GMT", 0.0),
        ("-3", 0.0),
        ("86400", 86400.0),
        ("soon", None),
        ("", None),
        ("nan", None),
        ("1e999", None),
        ("Fri, 99 May 99999999999 10:00:20 GMT", None),
        (None, None),
    ],
)
def test_retry_after_is_read_in_all_its_forms(value: str | None, seconds: float | None) -> None:
    """Scenario C02: seconds, fractions, dates, and nonsense that raises nothing."""
    assert parse_retry_after(value, datetime(2024, 5, 3, 10, tzinfo=UTC)) == seconds


@pytest.mark.parametrize(
    ("retry_after", "least", "most"), [(7.0, 7.0, 9.0), (20.0, 20.0, 23.0), (0.493, 0.4, 3.0), (0.0, 0.0, 3.0)]
)
def test_a_servers_own_number_is_obeyed_and_hardly_exceeded(retry_after: float, least: float, most: float) -> None:
    """Scenario C02's windows, at both ends of chance."""
    for chance in (0.0, 0.999):
        wait = Pacing(chance=lambda chance=chance: chance).wait(RateLimited("", retry_after), 1)  # type: ignore[misc]
        assert wait is not None and least <= wait <= most


def test_a_day_long_wait_is_left_to_the_next_run() -> None:
    """Ten minutes is the most a run waits because a server says so."""
    assert Pacing().wait(RateLimited("", 86_400.0), 1) is None
    assert Pacing().wait(RateLimited("", 599.0), 1) is not None


def test_waits_double_to_a_cap_and_then_end() -> None:
    """Six attempts from 4 s for a rate limit, four from 2 s for the rest, full jitter below."""
    longest = Pacing(chance=lambda: 1.0)
    assert [longest.wait(RateLimited(""), attempt) for attempt in range(1, 7)] == [4, 8, 16, 32, 64, None]
    assert [longest.wait(Unanswered(""), attempt) for attempt in range(1, 5)] == [2, 4, 8, None]
    assert Pacing(chance=lambda: 0.0).wait(RateLimited(""), 3) == 0
    assert longest.rate_limited.longest_wait(9) == 120
