"""An answer and the judgement on its vectors: no number reaches a table unless it passed here.

Here: count, dimension, finiteness and norm, and a list of numbers read as a vector. Not here: the rest of a provider's
wire format, and what follows from a verdict (`engine.py`).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ingest_assets.embed.failures import AnswerRefused, BatchRejected
from ingest_assets.errors import Reason


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for the texts of one request."""

    vectors: NDArray[np.float32]  # [len(texts), dimensions], row i for text i; not yet judged
    billed_tokens: int | None = None  # what the provider says it counted; None where it does not say


@dataclass(frozen=True, slots=True)
class Checked:
    """The rows of one answer, told apart."""

    accepted: NDArray[np.intp]  # positions of the good rows, ascending
    rejected: dict[int, Reason]  # position -> why the row cannot be stored


def check_vectors(vectors: NDArray[np.float32], count: int, dimensions: int) -> Checked:
    """Judge an answer to a request of `count` texts.

    A wrong count or dimension casts doubt on every row and refuses the whole answer; a row with NaN or infinity, of
    norm zero, or with a norm that float32 cannot hold, is a verdict on that row alone.

    Raises:
        AnswerRefused: there is not exactly one row for each text.
        BatchRejected: rows do not have `dimensions` numbers (`dimension_mismatch`).
    """
    if vectors.shape[:1] != (count,):
        raise AnswerRefused(f"{count} texts were sent and the answer has the shape {list(vectors.shape)}.")
    if vectors.shape != (count, dimensions):
        raise dimension_mismatch(dimensions, vectors.size // count)
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("ij,ij->i", vectors, vectors)
    is_good = np.isfinite(squares) & (squares > 0)
    rejected = dict.fromkeys(np.flatnonzero(~is_good).tolist(), Reason.INVALID_VECTOR)
    return Checked(np.flatnonzero(is_good), rejected)


def read_vector(value: object, dimensions: int) -> NDArray[np.float32]:
    """Return the numbers of one vector as JSON has them; missing numbers (null) become NaN.

    Raises:
        AnswerRefused: not a list of numbers.
        BatchRejected: a list of another length (`dimension_mismatch`).
    """
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


def billed_count(value: object) -> int | None:
    """Return a provider's token count, None where it is no number of tokens."""
    return value if type(value) is int and value >= 0 else None


def dimension_mismatch(declared: int, found: int) -> BatchRejected:
    """Return the error for vectors of another dimension than the declared one."""
    return BatchRejected(
        Reason.DIMENSION_MISMATCH, f"The version declares {declared} dimensions and the model answered with {found}."
    )
