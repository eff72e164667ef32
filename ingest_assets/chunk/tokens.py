"""The measure of a text's length: tokens of cl100k, counted offline.

What does not belong here: limits, and what is done about a text that is too long. Every model counts in its own way;
this measure is the chunker's, the same for all of them, so that a new model does not move a single cut.
"""

from collections.abc import Callable
from functools import cache, lru_cache

_SHORT = 16  # characters: short lines are often the same, and asking costs more than remembering


def count_tokens(text: str) -> int:
    """Return the number of cl100k tokens of a text of any length, in linear time.

    Names of special tokens (`<|endoftext|>`) are ordinary text, and a lone surrogate counts as U+FFFD.
    """
    if len(text) <= _SHORT:
        return _count_short(text)
    return _count(text)


def _count(text: str) -> int:
    try:
        return _counter()(text)
    except UnicodeEncodeError:
        return _counter()(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


_count_short = lru_cache(maxsize=1 << 15)(_count)


@cache
def _counter() -> Callable[[str], int]:
    # Not the package's Encoding: it refuses a million characters, builds a list to be measured and takes twice as long.
    from bpe_openai._bindings import tokenizer_for_encoding  # noqa: PLC0415  # loads 70 MB: only where text is chunked

    counter: Callable[[str], int] = tokenizer_for_encoding("cl100k_base").count
    return counter
