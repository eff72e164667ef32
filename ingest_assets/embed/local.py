"""The model that ships with the platform: WordLlama's token vectors, averaged on this machine without any network.

Here: finding the model in the `wordllama` wheel, tokenising and pooling. Not here: the `wordllama` package's own
code, which pads batches (so a vector would depend on its neighbours), downloads, and configures logging on import.
Texts are never truncated; time and memory grow with a text's length only in the tokenizer.
"""

import asyncio
import hashlib
import importlib.util
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version as installed_version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load as load_tensors
from tokenizers import Tokenizer

from ingest_assets.embed import UNLIMITED
from ingest_assets.embed.answers import Answer
from ingest_assets.errors import ModelUnavailable, SettingsError
from ingest_assets.settings import ModelSettings

MODEL = "wordllama-l2-supercat"
DIMENSIONS = (64, 128, 256)  # the leading numbers of a vector are a smaller vector by training
_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_SLICE_TEXTS = 128  # texts tokenised together: bounds what the tokenizer's answers hold
_BLOCK_TOKENS = 4096  # token vectors gathered together: 4 MiB at 256 dimensions
_SPACE = "\u2581"  # how this tokenizer's vocabulary writes a space


class LocalProvider:
    """The average of a text's token vectors, normalised; equal bits for equal texts in any company."""

    token_ratio = 1.0  # nothing is truncated, so the chunker's own measure is the only one
    account = None
    limits = UNLIMITED

    def __init__(self, settings: ModelSettings) -> None:
        if settings.model != MODEL or settings.dimensions not in DIMENSIONS:
            raise SettingsError(
                f"The local provider has the model {MODEL} with 64, 128 or 256 dimensions; "
                f"{settings.version} asks for {settings.model} with {settings.dimensions}."
            )
        self.version = settings.version
        self.dimensions = settings.dimensions
        self._vectors, self._digest, self._tokenizer = _load(settings.dimensions)
        # One thread for all requests: computing, they would only compete for the cores.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embed-local")

    def fingerprint(self) -> dict[str, str | int | float | bool]:
        """Return what decides a vector: the weights' hash and the versions of the libraries that compute."""
        return {
            "provider": "local",
            "model": MODEL,
            "dimensions": self.dimensions,
            "library": "wordllama",
            "library_version": installed_version("wordllama"),
            "tokenizers_version": installed_version("tokenizers"),
            "weights_sha256": self._digest,
            "normalized": True,
        }

    async def embed(self, texts: Sequence[str]) -> Answer:
        """Return vectors of norm 1, zeros where a text is empty. Runs beside the event loop."""
        return Answer(await asyncio.get_running_loop().run_in_executor(self._thread, self._embed, texts))

    async def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a question, which is that of the same words in a passage."""
        vectors = (await self.embed([text])).vectors
        return vectors.reshape(self.dimensions)

    async def close(self) -> None:
        """End the worker thread."""
        self._thread.shutdown(wait=False)

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        sums = np.zeros((len(texts), self.dimensions), dtype=np.float64)
        for start in range(0, len(texts), _SLICE_TEXTS):
            written = [_as_written(text) for text in texts[start : start + _SLICE_TEXTS]]
            for row, encoding in enumerate(self._tokenizer.encode_batch_fast(written), start):
                sums[row] = self._sum(np.asarray(encoding.ids, dtype=np.intp))
        # A mean and a sum point the same way, and only the direction is left after normalising.
        norms = np.sqrt(np.square(sums).sum(axis=1, keepdims=True))
        return (sums / np.where(norms > 0, norms, 1)).astype(np.float32)

    def _sum(self, tokens: NDArray[np.intp]) -> NDArray[np.float64]:
        """Add up one text's token vectors, in an order that depends on this text alone."""
        total = np.zeros(self.dimensions, dtype=np.float64)
        for start in range(0, len(tokens), _BLOCK_TOKENS):
            total += self._vectors.take(tokens[start : start + _BLOCK_TOKENS], axis=0).sum(axis=0)
        return total


def _as_written(text: str) -> str:
    """Normalise as the tokenizer's own file says; measured 1.5 times as fast here as there."""
    return _SPACE + text.replace(" ", _SPACE) if text else ""


def _load(dimensions: int) -> tuple[NDArray[np.float32], str, Tokenizer]:
    """Return the token vectors [vocabulary, dimensions], the sha256 of their file, and the bare tokenizer."""
    package = importlib.util.find_spec("wordllama")
    if package is None or package.origin is None:
        raise ModelUnavailable("The local model comes with the package wordllama; install it: pip install wordllama.")
    folder = Path(package.origin).parent
    try:
        data = (folder / _WEIGHTS).read_bytes()
        table = load_tensors(data)["embedding.weight"][:, :dimensions]
        # The model alone, without added tokens: a document that quotes "</s>" means these four characters.
        tokenizer = Tokenizer(Tokenizer.from_file(str(folder / _TOKENIZER)).model)
    except Exception as error:  # the libraries raise bare Exception for broken files
        raise ModelUnavailable(
            f"The local model in {folder} cannot be read ({error}); "
            "reinstall it: pip install --force-reinstall --no-deps wordllama."
        ) from error
    return np.ascontiguousarray(table, dtype=np.float32), hashlib.sha256(data).hexdigest(), tokenizer
