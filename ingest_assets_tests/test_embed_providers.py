"""What the two providers answer, and which failure they make of what goes wrong."""

import asyncio
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

from ingest_assets.embed import Provider, open_provider
from ingest_assets.embed.answers import check_vectors
from ingest_assets.embed.failures import AnswerRefused, BatchRejected, RateLimited, Unanswered, provider_words
from ingest_assets.embed.openai_answer import read_vectors
from ingest_assets.embed.pacing import Pacing, parse_retry_after
from ingest_assets.errors import EmbeddingFatal, ModelUnavailable, Reason, SettingsError
from ingest_assets.settings import LOCAL_MODEL, ModelSettings
from ingest_assets_tests import embedding_server as faults
from ingest_assets_tests.embedding_server import EmbeddingServer, vector_of
from ingest_assets_tests.texts import paragraphs

TEXTS = ["alpha", "bravo", "charlie", "delta"]


def openai_settings(server: EmbeddingServer, **changes: Any) -> ModelSettings:
    """Return settings of a model on this server."""
    given = {"version": "test-v1", "provider": "openai", "model": "m", "dimensions": 8, "base_url": server.url}
    return ModelSettings(**{**given, **changes})


def embedded(settings: ModelSettings, texts: list[str] = TEXTS) -> NDArray[np.float32]:
    """Open a provider, send one request, close it."""

    async def once() -> NDArray[np.float32]:
        provider = open_provider(settings)
        try:
            return await provider.embed(texts)
        finally:
            await provider.close()

    return asyncio.run(once())


def expected(texts: list[str] = TEXTS, dimensions: int = 8) -> NDArray[np.float32]:
    """Return what the test server has for these texts."""
    return np.stack([vector_of(text, dimensions) for text in texts])


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
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
        whole = await local.embed(passages)
        alone = [await local.embed([text]) for text in passages]
        assert np.array_equal(np.concatenate(alone), whole)
        order = random.Random(5).sample(range(len(passages)), len(passages))
        assert np.array_equal(await local.embed([passages[index] for index in order]), whole[order])
        assert whole.dtype == np.float32 and whole.shape == (len(passages), 256)
        assert np.allclose(np.linalg.norm(whole, axis=1), 1, atol=1e-6)

    asyncio.run(all_ways())


def test_local_vectors_are_those_of_wordllama(local: Provider, passages: list[str]) -> None:
    """Our pooling is the package's own arithmetic; only quoted special tokens are read as what they are."""
    from wordllama import WordLlama  # noqa: PLC0415  # it configures logging when imported

    folder = Path(str(importlib.util.find_spec("wordllama").origin)).parent  # type: ignore[union-attr]
    theirs = WordLlama.load(cache_dir=folder, disable_download=True)
    ordinary = [text for text in passages if "</s>" not in text]
    ours = asyncio.run(local.embed(ordinary))
    assert np.allclose(ours, theirs.embed(ordinary, norm=True), atol=1e-6)


def test_a_long_text_is_embedded_to_its_end(local: Provider) -> None:
    """There is no truncation: what stands at the far end moves the vector."""

    async def both() -> NDArray[np.float32]:
        body = "the pump runs. " * 20_000
        return await local.embed([body, body + "volcano " * 5000])

    first, second = asyncio.run(both())
    assert float(first @ second) < 0.99


def test_an_empty_text_has_a_zero_vector_and_the_check_names_it(local: Provider) -> None:
    """No filler vector reaches a table."""
    vectors = asyncio.run(local.embed(["", "text"]))
    checked = check_vectors(vectors, 2, 256)
    assert checked.rejected == {0: Reason.INVALID_VECTOR}
    assert checked.accepted.tolist() == [1]


def test_smaller_local_dimensions_are_the_leading_numbers(local: Provider) -> None:
    """128 and 64 dimensions are the same model cut short, normalised again."""
    small = embedded(LOCAL_MODEL.model_copy(update={"dimensions": 64}), ["the pump runs"])
    large = asyncio.run(local.embed(["the pump runs"]))[:, :64]
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
        read_vectors(json.dumps({"data": data}).encode(), 2, 2)


@pytest.mark.parametrize("body", [b"", b"<html>gateway</html>", b"[]", b'{"error": {"code": 502}}', b'{"data": 3}'])
def test_what_is_no_embeddings_answer_is_asked_again(body: bytes) -> None:
    """Scenario C06: a gateway's page and an error with status 200 are somebody else's trouble."""
    with pytest.raises(Unanswered):
        read_vectors(body, 2, 2)


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
    checked = check_vectors(read_vectors(body, 5, 2), 5, 2)
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
        (faults.HTML, Unanswered),
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
