"""Which texts travel together: by items and by tokens, lazily, in order.

Here: packing, and the refusal of texts that no request may carry. Not here: sending (`engine.py`) and reading the
queue. Pure; holds no more than the batch being packed.
"""

import math
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ingest_assets.errors import Reason, UnitRejected
from ingest_assets.records import Unit

_INVISIBLE = ("Cc", "Cf", "Cs")  # control, format (zero-width space, byte order mark), surrogate


@dataclass(frozen=True, slots=True)
class Batch:
    """What one request carries, and what was refused while it was packed."""

    units: tuple[Unit, ...]  # in the order they came; empty when only refusals are left
    rejections: Mapping[bytes, UnitRejected]  # text_sha256 -> why it is never sent


def batches(
    units: Iterable[Unit], *, max_items: int, max_tokens: int, max_input_tokens: int, token_ratio: float = 1.0
) -> Iterator[Batch]:
    """Pack units into batches, reading no further than the batch being made.

    Every unit comes out exactly once, in a batch or as a rejection: `over_length` where it cannot be shown to fit,
    `content_rejected` where it has nothing to read. `token_ratio` is the provider's (see `Packer`).
    """
    packer = Packer(max_items, max_tokens, max_input_tokens, token_ratio)
    for unit in units:
        if (full := packer.add(unit)) is not None:
            yield full
    if (rest := packer.flush()) is not None:
        yield rest


class Packer:
    """Packs a stream whose units arrive one by one.

    Lengths are judged without the model's tokenizer. Proof, and free: a text has at most as many tokens as UTF-8
    bytes. Otherwise its cl100k count, times `token_ratio` for models with another tokenizer: a bound for prose in
    the languages a model was made for, not a proof. What still turns out too long is refused by the server and
    found by halving, so keep `max_input_tokens` below the model's true limit where a server truncates silently.
    """

    def __init__(self, max_items: int, max_tokens: int, max_input_tokens: int, token_ratio: float = 1.0) -> None:
        self._max_items = max_items
        self._max_tokens = max_tokens
        self._longest = min(max_input_tokens, max_tokens)
        self._ratio = token_ratio
        self._units: list[Unit] = []
        self._rejections: dict[bytes, UnitRejected] = {}
        self._tokens = 0

    def add(self, unit: Unit) -> Batch | None:
        """Take one unit; returns a batch when one is full, which need not hold this unit yet."""
        tokens = self._bound(unit)
        if (rejection := self._refusal(unit, tokens)) is not None:
            self._rejections[unit.text_sha256] = rejection
            return self.flush() if len(self._rejections) >= self._max_items else None
        is_full = self._units and (len(self._units) >= self._max_items or self._tokens + tokens > self._max_tokens)
        full = self.flush() if is_full else None
        self._units.append(unit)
        self._tokens += tokens
        return full

    def flush(self) -> Batch | None:
        """Return what is packed so far, or None where that is nothing."""
        if not self._units and not self._rejections:
            return None
        batch = Batch(tuple(self._units), self._rejections)
        self._units, self._rejections, self._tokens = [], {}, 0
        return batch

    def _bound(self, unit: Unit) -> int:
        """Return the most tokens this text is taken to have at the model."""
        size = len(unit.text.encode("utf-8", "surrogatepass"))
        return min(size, math.ceil(unit.token_count * self._ratio))

    def _refusal(self, unit: Unit, tokens: int) -> UnitRejected | None:
        if tokens > self._longest:
            detail = (
                f"The text may have {tokens} tokens at this model, which takes {self._longest}; "
                f"lower chunker.max_tokens to {int(self._longest / self._ratio)}."
            )
            return UnitRejected(Reason.OVER_LENGTH, detail)
        if not _has_visible(unit.text):
            return UnitRejected(
                Reason.CONTENT_REJECTED, "The text has no visible character, and blanks are never sent."
            )
        return None


def _has_visible(text: str) -> bool:
    return any(not character.isspace() and unicodedata.category(character) not in _INVISIBLE for character in text)
