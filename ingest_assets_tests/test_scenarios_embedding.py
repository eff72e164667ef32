"""Scenarios C of the public reports: what embedding servers do, and what becomes of documents and money.

Each scenario file holds its script and its expectation. Waits are written down instead of slept, by `Pacing`.
"""

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from typing import Any

import numpy as np
import pytest

from ingest_assets.database import Database
from ingest_assets.embed.pacing import parse_retry_after
from ingest_assets.errors import EmbeddingFatal, EmbeddingTransient, IngestError, Reason
from ingest_assets.letters import open_letters
from ingest_assets.records import Unit
from ingest_assets_tests import bedrock_server as bedrock
from ingest_assets_tests.bedrock_server import BedrockServer
from ingest_assets_tests.embedding_queue import Queue, texts
from ingest_assets_tests.embedding_server import EmbeddingServer, Fault, scripted, vector_of
from ingest_assets_tests.fixtures_deployment import Deployment
from ingest_assets_tests.scenario_scripts import Stored, fault, scenario, unit
from ingest_assets_tests.texts import paragraphs


def openai(server: EmbeddingServer, **changes: Any) -> dict[str, Any]:
    """Return settings of a model on an OpenAI-compatible server."""
    return {"provider": "openai", "model": "m", "dimensions": server.dimensions, "base_url": server.url, **changes}


@pytest.fixture
def metered(deployment: Deployment, embedding_server: EmbeddingServer) -> Deployment:
    """A deployment whose only model is the server, with one document to embed."""
    deployment.configure(
        f'[source]\nurl = "inbox"\n[[models]]\nversion = "v1"\nprovider = "openai"\nmodel = "m"\ndimensions = 8\n'
        f'base_url = "{embedding_server.url}"\n'
    )
    deployment.write("pumps.md", paragraphs(1, 6))
    return deployment


def test_c01_an_exhausted_quota_costs_one_request_and_the_document_waits(
    metered: Deployment, embedding_server: EmbeddingServer
) -> None:
    """Nothing is given up on; with quota again, a run completes the document."""
    case = scenario("C01")
    embedding_server.always = fault(case["script"][0])
    result = metered.json("run", code=1)
    assert case["expected"]["reason"] in result["failed_runs"][0]["message"]
    assert len(embedding_server.requests) == case["expected"]["requests_made"]
    status = metered.json("status")
    assert (status["documents"]["pending"], status["dead_letters"]["open"]) == (1, 0)
    embedding_server.always = None
    metered.command("run")
    assert metered.json("status")["documents"]["complete"] == 1


def moved_to_now(step: Mapping[str, Any], now: str) -> Fault:
    """Return a step whose date lies as far from this moment as it lies from the scenario's `now`."""

    def answer(server: EmbeddingServer, request: Any) -> Any:
        headers = dict(step["headers"])
        for name, value in headers.items():
            if value.endswith("GMT"):
                shift = parsedate_to_datetime(value) - datetime.fromisoformat(now)
                moment = datetime.now(UTC) + timedelta(seconds=1) + shift
                headers[name] = format_datetime(moment.replace(microsecond=0), usegmt=True)
        return scripted(step["status"], step["body"], headers)(server, request)

    return answer


@pytest.mark.parametrize("variant", scenario("C02")["variants"], ids=lambda item: str(item["script"][0]["headers"]))
def test_c02_a_retry_after_is_obeyed_in_every_form(embedding_server: EmbeddingServer, variant: dict[str, Any]) -> None:
    """Seconds, fractions and dates are waited for; nonsense gives way to our own backoff; a day is not slept."""
    case, stored = scenario("C02"), Stored()
    embedding_server.dimensions = 4
    first, *then = variant["script"]
    embedding_server.next(moved_to_now(first, case["now"]), *map(fault, then))
    units = [unit(text) for text in case["inputs"]]
    if not then:
        with pytest.raises(EmbeddingTransient):
            stored.embed(units, **openai(embedding_server))
        assert stored.waits == [] and len(embedding_server.requests) == 1
        stored.embed(units, **openai(embedding_server))
    else:
        stored.embed(units, **openai(embedding_server))
        least, most = variant.get("expected_wait_s", (0, 2))  # the first step of our own backoff is two seconds
        [wait] = stored.waits
        assert least <= wait <= most
    assert stored.vectors.keys() == {item.text_sha256 for item in units}


def test_c02_dates_are_read_against_the_clock() -> None:
    """To the second, and never below zero."""
    case = scenario("C02")
    now = datetime.fromisoformat(case["now"])
    values = [value for item in case["variants"] for value in item["script"][0]["headers"].values()]
    assert [parse_retry_after(value, now) for value in values] == [7.0, 20.0, 0.493, 0.0, None, 86_400.0]


def passages(count: int, words: int) -> list[Unit]:
    """Return distinct texts of so many tokens, none over 2,048 characters."""
    return [
        unit(" ".join(f"{(number * words + word) % 9973}" for word in range(words)), words) for number in range(count)
    ]


def test_c03_no_request_passes_a_limit_of_an_openai_server(embedding_server: EmbeddingServer) -> None:
    """By items and by tokens; a server that limits answers every request, so none was over."""
    openai_limits, tei_limits, *_ = scenario("C03")["limits"]
    units = passages(5000, 400)
    for limits in (openai_limits, tei_limits):
        embedding_server.max_items, embedding_server.max_tokens = limits["items"], limits.get("tokens")
        embedding_server.requests.clear()
        stored = Stored()
        tokens = {"max_batch_tokens": limits["tokens"]} if "tokens" in limits else {}
        stored.embed(
            units, **openai(embedding_server, max_batch_items=limits["items"], model="text-embedding-3-small", **tokens)
        )
        least = max(len(units) / limits["items"], 400 * len(units) / limits.get("tokens", math.inf))
        assert len(embedding_server.requests) == math.ceil(least)
        assert len(embedding_server.texts) == len(units)
        assert stored.vectors.keys() == {item.text_sha256 for item in units}
        for item in units[::50]:
            assert np.array_equal(stored.vectors[item.text_sha256], vector_of(item.text, 8))


# What scenario C10 says of the bodies: one text for Titan, whose lists are refused, and Cohere is told what it reads.
SHAPES: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "bedrock-titan-v2": lambda body: isinstance(body["inputText"], str),
    "bedrock-cohere": lambda body: body["input_type"] == "search_document",
}


@pytest.mark.parametrize(
    ("provider", "model", "dimensions", "count"),
    [
        ("bedrock-cohere", "cohere.embed-english-v3", 1024, 500),
        ("bedrock-titan-v2", "amazon.titan-embed-text-v2:0", 256, 100),
        pytest.param("bedrock-cohere", "cohere.embed-english-v3", 1024, 5000, marks=pytest.mark.soak),
        pytest.param("bedrock-titan-v2", "amazon.titan-embed-text-v2:0", 256, 5000, marks=pytest.mark.soak),
    ],
)
def test_c03_no_request_passes_a_limit_of_a_bedrock_model(
    bedrock_server: BedrockServer, provider: str, model: str, dimensions: int, count: int
) -> None:
    """By items, characters and tokens; what no request may carry is told and not sent."""
    [limits] = [item for item in scenario("C03")["limits"] if item["provider"] == provider]
    units, long = passages(count, 400), unit("word " * 9000, 9000)
    stored = Stored()
    stored.embed(
        [*units, long],
        provider="bedrock",
        model=model,
        dimensions=dimensions,
        base_url=bedrock_server.url,
        max_input_tokens=10_000,
    )
    assert len(bedrock_server.requests) == math.ceil(count / limits["items"])
    assert sum(len(request.texts) for request in bedrock_server.requests) == count
    assert all(SHAPES[provider](request.body) for request in bedrock_server.requests)
    assert stored.reasons == {long.text_sha256: Reason.OVER_LENGTH}
    assert stored.vectors.keys() == {item.text_sha256 for item in units}
    for item in units[::20]:
        assert np.array_equal(stored.vectors[item.text_sha256], vector_of(item.text, dimensions))


def test_c05_blank_chunks_are_never_sent(database: Database, embedding_server: EmbeddingServer) -> None:
    """They may lie in a database that an older chunker filled; no filler vector stands for them."""
    case, queue = scenario("C05"), Queue(database, embedding_server)
    queue.add("a.md", case["chunks_from"])
    embedding_server.always = fault(case["script_rule"]["then"])
    embedding_server.next(lambda server, request: server.answer(server.items(request)))
    outcome = queue.run()
    assert [request.texts for request in embedding_server.requests] == case["expected"]["requests_inputs"]
    assert (outcome.embedded, outcome.dead_lettered) == (case["expected"]["chunks_stored"], 4)
    [stored] = queue.query("SELECT count(*) AS vectors FROM ingest.chunk_vectors")
    assert stored["vectors"] == case["expected"]["chunks_stored"]
    assert {letter["reason"] for letter in open_letters(database)} == {Reason.CONTENT_REJECTED}


@pytest.mark.parametrize("variant", scenario("C06")["variants"], ids=lambda item: item["expected"])
def test_c06_an_answer_that_does_not_fit_is_never_stored(
    embedding_server: EmbeddingServer, variant: dict[str, Any]
) -> None:
    """Numbers go by index; what does not fit is asked for again, and refused as a whole when it never fits."""
    embedding_server.dimensions = 4
    units = [unit(text) for text in scenario("C06")["inputs"]]
    answer, once, always = fault(variant["script"][0]), Stored(), Stored()
    embedding_server.next(answer)
    once.embed(units, **openai(embedding_server))
    if variant["expected"] == "reordered by index":
        assert [round(float(once.vectors[item.text_sha256][0]), 3) for item in units] == [0.1, 0.2, 0.3, 0.4]
        assert len(embedding_server.requests) == 1
        return
    assert all(np.array_equal(once.vectors[item.text_sha256], vector_of(item.text, 4)) for item in units)
    assert len(embedding_server.requests) == 2 and len(once.waits) == 1
    embedding_server.always = answer
    with pytest.raises((EmbeddingFatal, EmbeddingTransient)):
        always.embed(units, **openai(embedding_server))
    assert not always.vectors and not always.reasons
    assert len(always.waits) >= 3


def test_c08_a_vector_of_another_size_is_refused_before_any_write(
    database: Database, embedding_server: EmbeddingServer
) -> None:
    """Numbers that were decoded wrongly have another length: a typed error, no row, no dead letter."""
    queue = Queue(database, embedding_server)
    queue.add("a.md", texts(6))
    for size in (item["server_vector_len"] for item in scenario("C08")["variants"] if "server_vector_len" in item):
        embedding_server.dimensions = size
        failure = queue.run().failure
        assert isinstance(failure, EmbeddingFatal) and failure.reason is Reason.DIMENSION_MISMATCH
        assert queue.query("SELECT 1 FROM ingest.chunk_vectors") == open_letters(database) == []


def test_c08_floats_are_asked_for_and_base64_is_understood(embedding_server: EmbeddingServer) -> None:
    """`dimensions` is sent to models that know it only."""
    asked, encoded, refused = (scenario("C08")["variants"][place] for place in (0, 1, 4))
    stored, vector = Stored(), [{"object": "embedding", "index": 0, "embedding": encoded["server_sends_base64"]}]
    embedding_server.refused_parameters = {refused["server_rejects_param"]}
    embedding_server.next(scripted(200, {"object": "list", "data": vector}))
    stored.embed([unit("alpha")], **openai(embedding_server))
    assert stored.vectors[unit("alpha").text_sha256].tolist() == pytest.approx([0.1] * 8)
    stored.embed([unit("bravo")], **openai(embedding_server))
    assert asked["request_must_have"].items() <= embedding_server.requests[-1].parameters.items()
    embedding_server.refused_parameters = set()
    stored.embed([unit("charlie")], **openai(embedding_server, model="text-embedding-3-small"))
    assert embedding_server.requests[-1].parameters["dimensions"] == 8


class RefusingServer(BedrockServer):
    """An endpoint that answers every request with one error where a text is in it, and else as it should."""

    def __init__(self, text: str, reply: bedrock.Reply) -> None:
        super().__init__()
        self._text, self._error = text, reply

    def respond(self, request: bedrock.Invocation) -> bedrock.Reply:
        """Count a request and answer it."""
        answer = super().respond(request)
        return self._error if self._text in request.texts else answer


@pytest.mark.parametrize("code", [item[0] for item in scenario("C10")["bedrock_errors"]])
def test_c10_an_error_of_bedrock_is_retried_or_not_by_its_name(aws_environment: None, code: str) -> None:
    """Throttling waits, a wrong account stops the run, a refused text costs itself."""
    [(_, message, expected)] = [item for item in scenario("C10")["bedrock_errors"] if item[0] == code]
    status = {"retry": 503, "retry with backoff": 429}.get(expected, 400)
    stored, caught = Stored(), None
    with RefusingServer("bad", bedrock.error(status, code, message)) as server:
        settings = {"provider": "bedrock", "model": "amazon.titan-embed-text-v2:0", "dimensions": 256}
        try:
            stored.embed([unit("bad")], base_url=server.url, **settings)
        except IngestError as failure:
            caught = failure
        asked = [request.texts[0] for request in server.requests].count("bad")
    assert not stored.vectors
    if expected.startswith("retry"):
        assert isinstance(caught, EmbeddingTransient)
        assert asked == len(stored.waits) + 1 == (6 if expected == "retry with backoff" else 4)
    elif expected == "permanent for the input":
        assert caught is None and stored.reasons == {unit("bad").text_sha256: Reason.CONTENT_REJECTED}
    else:
        assert isinstance(caught, EmbeddingFatal) and not stored.reasons and not stored.waits
        is_quota = "quota_exhausted" in expected
        assert (caught.reason is Reason.QUOTA_EXHAUSTED) is is_quota
        assert asked == (2 if "refresh" in expected else 1)
