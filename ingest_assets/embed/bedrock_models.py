"""The embedding models of Amazon Bedrock: what they take, how they are asked, and how they answer.

Here: one entry for each family of models, request bodies and answer bodies. Not here: the client (`bedrock.py`) and
errors (`bedrock_errors.py`). Sizes and limits are those of Amazon's pages on the parameters of each model.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jiter
import numpy as np
from numpy.typing import NDArray

from ingest_assets.embed import RequestLimits
from ingest_assets.embed.answers import Answer, billed_count, read_vector
from ingest_assets.embed.failures import AnswerRefused, NotEmbeddings
from ingest_assets.errors import SettingsError

_COUNT_HEADER = "x-amzn-bedrock-input-token-count"

Purpose = Literal["search_document", "search_query"]  # Cohere's own words; Titan makes no difference
Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Family:
    """Models that are asked in the same way."""

    marker: str  # what every id, inference profile and ARN of its models contains
    dimensions: tuple[int, ...]
    limits: RequestLimits
    body: Callable[[Sequence[str], int, Purpose], Body]  # texts, dimensions, purpose


def _titan_v2(texts: Sequence[str], dimensions: int, _purpose: Purpose) -> Body:
    return {"inputText": texts[0], "dimensions": dimensions, "normalize": True}


def _titan_v1(texts: Sequence[str], _dimensions: int, _purpose: Purpose) -> Body:
    return {"inputText": texts[0]}


def _cohere_v3(texts: Sequence[str], _dimensions: int, purpose: Purpose) -> Body:
    return {"texts": list(texts), "input_type": purpose, "truncate": "NONE"}


def _cohere_v4(texts: Sequence[str], dimensions: int, purpose: Purpose) -> Body:
    body = _cohere_v3(texts, dimensions, purpose)
    return body | {"output_dimension": dimensions, "embedding_types": ["float"]}


_TITAN_LIMITS = RequestLimits(max_items=1, max_input_tokens=8192, max_input_characters=50_000)
# Longer texts are refused by the gateway, before `truncate` is looked at.
_COHERE_V3_LIMITS = RequestLimits(max_items=96, max_input_characters=2048)
_COHERE_V4_LIMITS = RequestLimits(max_items=96, max_input_tokens=128_000)

FAMILIES = (
    Family("titan-embed-text-v2", (1024, 512, 256), _TITAN_LIMITS, _titan_v2),
    Family("titan-embed-text-v1", (1536,), _TITAN_LIMITS, _titan_v1),
    Family("cohere.embed-english-v3", (1024,), _COHERE_V3_LIMITS, _cohere_v3),
    Family("cohere.embed-multilingual-v3", (1024,), _COHERE_V3_LIMITS, _cohere_v3),
    Family("cohere.embed-v4", (1536, 1024, 512, 256), _COHERE_V4_LIMITS, _cohere_v4),
)


def family_of(model: str, dimensions: int) -> Family:
    """Return the family of a model id, an inference profile's id or an ARN that contains one.

    Raises:
        SettingsError: the model is of no family here, or does not have these dimensions.
    """
    family = next((family for family in FAMILIES if family.marker in model), None)
    if family is None:
        known = ", ".join(family.marker for family in FAMILIES)
        raise SettingsError(f"models.model {model} is no embedding model that is known on Bedrock; these are: {known}.")
    if dimensions not in family.dimensions:
        sizes = " or ".join(str(size) for size in family.dimensions)
        raise SettingsError(f"models.dimensions {dimensions} is not what {model} has; it has {sizes}.")
    return family


def read_answer(body: bytes, headers: Mapping[str, str], count: int, dimensions: int) -> Answer:
    """Return the answer to `count` texts, whose vectors come in the order of the texts.

    Raises:
        NotEmbeddings: not an embeddings answer at all.
        AnswerRefused: not exactly one vector for each text, or one that is not a list of numbers.
        BatchRejected: a vector of another dimension (`dimension_mismatch`).
    """
    try:
        content = jiter.from_json(body)
    except ValueError as error:
        raise NotEmbeddings("Bedrock answered something that is not JSON; check models.base_url.") from error
    found = _vectors(content)
    if found is None:
        raise NotEmbeddings("Bedrock answered JSON without embeddings; check models.model and models.base_url.")
    if len(found) != count:
        raise AnswerRefused(f"The answer to {count} texts has {len(found)} vectors.")
    vectors: NDArray[np.float32] = np.empty((count, dimensions), dtype=np.float32)
    for row, value in enumerate(found):
        vectors[row] = read_vector(value, dimensions)
    return Answer(vectors, _billed_tokens(content, headers))


def _vectors(content: object) -> list[Any] | None:
    """Return the vectors of an answer: Titan's one, Cohere's list, or Cohere's lists by type."""
    if not isinstance(content, dict):
        return None
    if "embedding" in content:
        return [content["embedding"]]
    found = content.get("embeddings")
    if isinstance(found, dict):
        found = found.get("float")
    return found if isinstance(found, list) else None


def _billed_tokens(content: Mapping[str, Any], headers: Mapping[str, str]) -> int | None:
    counted = billed_count(content.get("inputTextTokenCount"))
    said = headers.get(_COUNT_HEADER, "")
    return counted if counted is not None or not (said.isascii() and said.isdecimal()) else int(said)
