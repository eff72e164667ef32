"""The body of an OpenAI-compatible answer, read without trust.

Here: JSON, index, count and number format. Not here: whether the numbers are usable (`answers.py`). The client's own
reading is not used: it returns short and reordered answers as they come, and takes 8 doubles for 16 floats.
"""

import base64
import binascii
from typing import Any

import jiter
import numpy as np
from numpy.typing import NDArray

from ingest_assets.embed.answers import Answer, billed_count, dimension_mismatch, read_vector
from ingest_assets.embed.failures import AnswerRefused, NotEmbeddings, Unanswered

_FLOAT_BYTES = 4


def read_answer(body: bytes, count: int, dimensions: int) -> Answer:
    """Return the answer, row i being the vector whose index is i; missing numbers (null) become NaN.

    Raises:
        NotEmbeddings: not an embeddings answer at all, for example a gateway's HTML.
        Unanswered: an error with a status of success.
        AnswerRefused: not exactly one vector for each index, or a vector that is neither numbers nor base64.
        BatchRejected: a vector of another dimension (`dimension_mismatch`).
    """
    answer = _answer(body)
    vectors = np.empty((count, dimensions), dtype=np.float32)
    is_missing = np.ones(count, dtype=bool)
    for item in answer["data"]:
        index = item.get("index") if isinstance(item, dict) else None
        if type(index) is not int or not 0 <= index < count or not is_missing[index]:
            raise AnswerRefused(f"The answer to {count} texts has a vector with the index {index!r}.")
        value = item.get("embedding")
        vectors[index] = _decoded(value, dimensions) if isinstance(value, str) else read_vector(value, dimensions)
        is_missing[index] = False
    if is_missing.any():
        raise AnswerRefused(f"The answer to {count} texts lacks the vectors of {int(is_missing.sum())}.")
    return Answer(vectors, _billed_tokens(answer))


def _answer(body: bytes) -> dict[str, Any]:
    """Return an answer whose `data` is a list."""
    try:
        answer = jiter.from_json(body)
    except ValueError as error:
        raise NotEmbeddings("The embedding server answered something that is not JSON; check base_url.") from error
    if isinstance(answer, dict) and isinstance(answer.get("data"), list):
        return answer
    if isinstance(answer, dict) and (answer.get("error") or answer.get("object") == "error"):
        raise Unanswered("The embedding server answered an error with a status of success.")
    raise NotEmbeddings("The embedding server answered JSON without embeddings; check base_url.")


def _billed_tokens(answer: dict[str, Any]) -> int | None:
    usage = answer.get("usage")
    if not isinstance(usage, dict):
        return None
    counts = (billed_count(usage.get(name)) for name in ("prompt_tokens", "total_tokens"))
    return next((count for count in counts if count is not None), None)


def _decoded(value: str, dimensions: int) -> NDArray[np.float32]:
    """Return the numbers of a base64 vector, which is little-endian float32 and nothing else."""
    try:
        data = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise AnswerRefused("The answer has a vector that is neither a list nor base64.") from error
    if len(data) != dimensions * _FLOAT_BYTES:
        raise dimension_mismatch(dimensions, len(data) // _FLOAT_BYTES)
    return np.frombuffer(data, dtype="<f4")
