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

from ingest_assets.embed.answers import dimension_mismatch
from ingest_assets.embed.failures import AnswerRefused, Unanswered

_FLOAT_BYTES = 4


def read_vectors(body: bytes, count: int, dimensions: int) -> NDArray[np.float32]:
    """Return [count, dimensions], row i being the vector whose index is i; missing numbers (null) become NaN.

    Raises:
        Unanswered: not an embeddings answer at all, for example a gateway's HTML or an error with status 200.
        AnswerRefused: not exactly one vector for each index, or a vector that is neither numbers nor base64.
        BatchRejected: a vector of another dimension (`dimension_mismatch`).
    """
    vectors = np.empty((count, dimensions), dtype=np.float32)
    is_missing = np.ones(count, dtype=bool)
    for item in _items(body):
        index = item.get("index") if isinstance(item, dict) else None
        if type(index) is not int or not 0 <= index < count or not is_missing[index]:
            raise AnswerRefused(f"The answer to {count} texts has a vector with the index {index!r}.")
        vectors[index] = _numbers(item.get("embedding"), dimensions)
        is_missing[index] = False
    if is_missing.any():
        raise AnswerRefused(f"The answer to {count} texts lacks the vectors of {int(is_missing.sum())}.")
    return vectors


def _items(body: bytes) -> list[Any]:
    try:
        answer = jiter.from_json(body)
    except ValueError as error:
        raise Unanswered("The embedding server answered something that is not JSON; check base_url.") from error
    items = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(items, list):
        raise Unanswered("The embedding server answered JSON without embeddings.")
    return items


def _numbers(value: object, dimensions: int) -> NDArray[np.float32]:
    if isinstance(value, str):
        return _decoded(value, dimensions)
    try:
        with np.errstate(over="ignore"):
            numbers = np.asarray(value, dtype=np.float32)
    except (ValueError, TypeError) as error:
        raise AnswerRefused("The answer has a vector that is not a list of numbers.") from error
    if numbers.ndim != 1:
        raise AnswerRefused("The answer has a vector that is not a list of numbers.")
    if len(numbers) != dimensions:
        raise dimension_mismatch(dimensions, len(numbers))
    return numbers


def _decoded(value: str, dimensions: int) -> NDArray[np.float32]:
    """Return the numbers of a base64 vector, which is little-endian float32 and nothing else."""
    try:
        data = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise AnswerRefused("The answer has a vector that is neither a list nor base64.") from error
    if len(data) != dimensions * _FLOAT_BYTES:
        raise dimension_mismatch(dimensions, len(data) // _FLOAT_BYTES)
    return np.frombuffer(data, dtype="<f4")
