"""Which texts travel together: by items and by tokens, lazily, in order.

Here: packing, and the refusal of texts that no request may carry. Not here: sending (`engine.py`) and reading the
queue. Pure; holds no more than the batch being packed.
"""

import math
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from ingest_assets.embed import Provider
from ingest_assets.errors import Reason, UnitRejected
from ingest_assets.records import Unit
from ingest_assets.settings import ModelSettings

_INVISIBLE = ("Cc", "Cf", "Cs")  # control, format (zero-width space, byte order mark), surrogate


@dataclass(frozen=True, slots=True)
class Batch:
    """What one request carries, and what was refused while it was packed."""

    units: tuple[Unit, ...]  # in the order they came; empty when only refusals are left
    rejections: Mapping[bytes, UnitRejected]  # text_sha256 -> why it is never sent


@dataclass(frozen=True, slots=True)
class Shape:
    """What one request may hold."""

    max_items: int
    max_tokens: int  # at the model, of all texts together
    max_input_tokens: int  # at the model, of one text
    max_input_characters: int | None = None  # of one text, in code points
    token_ratio: float = 1.0  # the provider's: most tokens of the model for one of ours
    paced_tokens: int | None = None  # of ours, that the rate budget likes in one request; one text may exceed it

    @classmethod
    def of(cls, settings: ModelSettings, provider: Provider, paced_tokens: int | None = None) -> Self:
        """Return the stricter of what the settings and the provider allow."""
        limits = provider.limits
        return cls(
            max_items=_least(settings.max_batch_items, limits.max_items),
            max_tokens=_least(settings.max_batch_tokens, limits.max_request_tokens),
            max_input_tokens=_least(settings.max_input_tokens, limits.max_input_tokens),
            max_input_characters=limits.max_input_characters,
            token_ratio=provider.token_ratio,
            paced_tokens=paced_tokens,
        )


def _least(declared: int, known: int | None) -> int:
    return declared if known is None else min(declared, known)


def batches(units: Iterable[Unit], shape: Shape) -> Iterator[Batch]:
    """Pack units into batches, reading no further than the batch being made.

    Every unit comes out exactly once, in a batch or as a rejection: `over_length` where it cannot be shown to fit,
    `content_rejected` where it has nothing to read.
    """
    packer = Packer(shape)
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

    def __init__(self, shape: Shape) -> None:
        self.max_items = shape.max_items  # may be lowered while packing
        self._shape = shape
        self._longest = min(shape.max_input_tokens, shape.max_tokens)
        self._units: list[Unit] = []
        self._rejections: dict[bytes, UnitRejected] = {}
        self._tokens = 0  # of the units packed so far, at the model
        self._paced_tokens = 0  # the same, in ours

    def add(self, unit: Unit) -> Batch | None:
        """Take one unit; returns a batch when one is full, which need not hold this unit yet."""
        tokens = self._bound(unit)
        if (rejection := self._refusal(unit, tokens)) is not None:
            self._rejections[unit.text_sha256] = rejection
            return self.flush() if len(self._rejections) >= self.max_items else None
        full = self.flush() if self._units and not self._has_room(unit, tokens) else None
        self._units.append(unit)
        self._tokens += tokens
        self._paced_tokens += unit.token_count
        return full

    def _has_room(self, unit: Unit, tokens: int) -> bool:
        paced = self._shape.paced_tokens
        return (
            len(self._units) < self.max_items
            and self._tokens + tokens <= self._shape.max_tokens
            and (paced is None or self._paced_tokens + unit.token_count <= paced)
        )

    def flush(self) -> Batch | None:
        """Return what is packed so far, or None where that is nothing."""
        if not self._units and not self._rejections:
            return None
        batch = Batch(tuple(self._units), self._rejections)
        self._units, self._rejections, self._tokens, self._paced_tokens = [], {}, 0, 0
        return batch

    def _bound(self, unit: Unit) -> int:
        """Return the most tokens this text is taken to have at the model."""
        size = len(unit.text.encode("utf-8", "surrogatepass"))
        return min(size, math.ceil(unit.token_count * self._shape.token_ratio))

    def _refusal(self, unit: Unit, tokens: int) -> UnitRejected | None:
        characters = self._shape.max_input_characters
        if characters is not None and len(unit.text) > characters:
            size = len(unit.text)
            detail = f"The text has {size} characters and the model takes {characters}; lower chunker.max_tokens."
            return UnitRejected(Reason.OVER_LENGTH, detail)
        if tokens > self._longest:
            detail = (
                f"The text may have {tokens} tokens at this model, which takes {self._longest}; "
                f"lower chunker.max_tokens to {int(self._longest / self._shape.token_ratio)}."
            )
            return UnitRejected(Reason.OVER_LENGTH, detail)
        if not _has_visible(unit.text):
            return UnitRejected(
                Reason.CONTENT_REJECTED, "The text has no visible character, and blanks are never sent."
            )
        return None


def _has_visible(text: str) -> bool:
    return any(not character.isspace() and unicodedata.category(character) not in _INVISIBLE for character in text)
