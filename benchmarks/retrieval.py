"""Are the right passages found: recall@5 and MRR on real documentation, for several ways to cut it into chunks.

    .venv/bin/python benchmarks/retrieval.py [--pages 500] [--questions 400] [--seed N] [--write]

A question is a heading, or the first sentence below one; its answer is the section. A passage answers when it lies in
that section with at least half of itself, or holds at least half of the section: sizes of passages do not decide. What
does not belong here: speed (`serving.py`), and how many chunks an edit costs (`chunk_locality.py`).
"""

import argparse
import random
import re
import secrets
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

from chunk_locality import fixed_window, greedy
from documentation import Manual, manuals
from embedding_section import Section
from pgvector import Vector
from serving_corpus import embed

from ingest_assets.chunk import chunk, count_tokens
from ingest_assets.database import Database
from ingest_assets.embedded import database_urls
from ingest_assets.models import ModelVersion, declare_models, ensure_ann_index
from ingest_assets.records import Extracted
from ingest_assets.settings import LOCAL_MODEL, ChunkerSettings, DatabaseSettings, Settings

SHOWN = 5
RANKS = 10  # a first hit further down counts nothing for MRR
LEAST_WORDS = {"heading": 3, "sentence": 8}
SENTENCE = re.compile(r"[^.!?]{30,300}[.!?](?=\s)")
NUMBERING = re.compile(r"^[\d.]+\s+|[¶#]")
WAYS = {
    "vector": "query_vector => %(vector)s",
    "exact": "query_vector => %(vector)s, is_exact => true",
    "keyword": "query_text => %(text)s",
    "hybrid": "query_vector => %(vector)s, query_text => %(text)s",
}
COLUMNS = "chunk_id, document_id, generation, chunk_index, source_key, text, heading, metadata, embedding"
Spans = Iterable[tuple[int, int]]


def anchored(min_tokens: int) -> Callable[[Extracted], Spans]:
    """Return the platform's chunker at a smallest size."""
    settings = ChunkerSettings(min_tokens=min_tokens)
    return lambda document: [(span.char_start, span.char_end) for span in chunk(document, settings)]


def windows(document: Extracted) -> Spans:
    """Cut windows of about 500 tokens that begin every 450."""
    return [(index * 1800, index * 1800 + len(text)) for index, text in enumerate(fixed_window(document))]


def small_windows(document: Extracted) -> Spans:
    """Cut windows as long as the anchored chunks are on average."""
    return [(start, min(start + 1260, len(document.text))) for start in range(0, len(document.text), 1130)]


def packed(document: Extracted) -> Spans:
    """Pack paragraphs until 500 tokens are full."""
    found, end = [], 0
    for text in greedy(document):
        found.append((end, min(end + len(text), len(document.text))))
        end += len(text)
    return found


CHUNKERS: dict[str, Callable[[Extracted], Spans]] = {
    "anchored, 125-500": anchored(125),
    "anchored, 150-500": anchored(150),
    "anchored, 250-500": anchored(250),
    "fixed window, 500/50": windows,
    "fixed window, 315/32": small_windows,
    "greedy packing, 500": packed,
}


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and the section that answers."""

    kind: str
    text: str
    manual: int
    start: int
    end: int


@dataclass
class Found:
    """What came of one way to cut."""

    chunks: int
    tokens: float
    hits: dict[tuple[str, str], list[int]] = field(default_factory=dict)  # (way, kind): ranks of first hits, 0 for none

    def recall(self, way: str, kind: str = "") -> float:
        """Return the share of questions that the shown passages answer."""
        return mean(0 < rank <= SHOWN for rank in self._ranks(way, kind))

    def mrr(self, way: str, kind: str = "") -> float:
        """Return the mean of 1 / rank of the first answer."""
        return mean(1 / rank if rank else 0.0 for rank in self._ranks(way, kind))

    def _ranks(self, way: str, kind: str) -> list[int]:
        return [
            rank for (one, other), ranks in self.hits.items() if one == way and kind in ("", other) for rank in ranks
        ]


def questions(pages: list[Manual], count: int, seed: int) -> list[Question]:
    """Draw as many questions of each kind; a text that stands in two sections asks for neither."""
    found = [question for number, page in enumerate(pages) for question in _questions(number, page.extracted)]
    often = Counter(question.text.lower() for question in found)
    chance, chosen = random.Random(seed), []
    for kind, least in LEAST_WORDS.items():
        fit = [
            question
            for question in found
            if question.kind == kind and often[question.text.lower()] == 1 and len(question.text.split()) >= least
        ]
        chosen += chance.sample(fit, min(count, len(fit)))
    return chosen


def _questions(number: int, document: Extracted) -> Iterator[Question]:
    ends = [*(heading.char_start for heading in document.headings[1:]), len(document.text)]
    for heading, end in zip(document.headings, ends, strict=True):
        title = NUMBERING.sub("", heading.title).strip()
        body = document.text[heading.char_start : end].partition("\n")[2]
        if len(body) < 200:
            continue
        yield Question("heading", title, number, heading.char_start, end)
        sentence = SENTENCE.search(body)
        if sentence is not None:
            yield Question("sentence", " ".join(sentence.group().split()), number, heading.char_start, end)


def measure(database: Database, model: ModelVersion, chunker: Callable[[Extracted], Spans], pages: list[Manual],
            asked: list[tuple[Question, Vector]]) -> Found:  # fmt: skip
    """Serve the pages in one way to cut them, and ask every question in every way."""
    spans = [(number, *span) for number, page in enumerate(pages) for span in chunker(page.extracted)]
    spans = [(number, start, end) for number, start, end in spans if pages[number].extracted.text[start:end].strip()]
    texts = [pages[number].extracted.text[start:end] for number, start, end in spans]
    places = dict(zip((uuid.uuid4() for _ in spans), spans, strict=True))
    with database.connection() as connection:
        with (
            connection.cursor() as cursor,
            cursor.copy(f"COPY {model.serving_name} ({COLUMNS}) FROM STDIN".encode()) as copy,
        ):
            for chunk_id, text, vector in zip(places, texts, embed(texts), strict=True):
                number = places[chunk_id][0]
                copy.write_row(
                    (chunk_id, uuid.UUID(int=number), 1, 0, pages[number].key, text, [], "{}", Vector(vector))
                )
        ensure_ann_index(database, model)
        connection.execute(f"VACUUM ANALYZE {model.serving_name}".encode())
        found = Found(len(spans), mean(map(count_tokens, texts)))
        for way, arguments in WAYS.items():
            statement = f"SELECT chunk_id FROM serving.search({arguments}, k => {RANKS}, model_version => %(version)s)"
            for question, vector in asked:
                parameters = {"vector": vector, "text": question.text, "version": model.version}
                rows = connection.execute(statement.encode(), parameters)
                ranks = (rank for rank, row in enumerate(rows, 1) if answers(places[row["chunk_id"]], question))
                found.hits.setdefault((way, question.kind), []).append(next(ranks, 0))
    return found


def answers(place: tuple[int, int, int], question: Question) -> bool:
    """Tell whether a passage answers a question."""
    number, start, end = place
    common = min(end, question.end) - max(start, question.start)
    return number == question.manual and common >= 0.5 * min(end - start, question.end - question.start)


def main() -> None:
    """Measure, print, and write where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=500)
    parser.add_argument("--questions", type=int, default=400, help="of each kind")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="drawn at run time by default")
    parser.add_argument("--write", action="store_true", help="replace this section of results.md")
    given = parser.parse_args()
    pages = manuals(given.pages, given.seed)
    chosen = questions(pages, given.questions, given.seed)
    asked = list(zip(chosen, map(Vector, embed([question.text for question in chosen])), strict=True))
    section = Section(
        "chunkers", f"{len(pages)} pages, {len(asked)} questions (seed {given.seed})",
        "Headings and first sentences as questions, their sections as answers; recall@5, MRR of the first ten. The "
        "local model; `serving.search` in its modes, HNSW at the default settings beside exact search.",
        ("chunker", "chunks, tokens each", "vector", "vector, exact", "keyword", "hybrid", "headings, vector",
         "sentences, vector"),
        subject="Retrieval",
    )  # fmt: skip
    versions = [LOCAL_MODEL.model_copy(update={"version": f"cut-{number}"}) for number in range(len(CHUNKERS))]
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(database=DatabaseSettings(data_dir=Path(folder)))
        with database_urls(settings) as urls, Database.connect(urls.ingest) as database:
            for model, (name, chunker) in zip(declare_models(database, versions), CHUNKERS.items(), strict=True):
                found = measure(database, model, chunker, pages, asked)
                cells = [(way, "") for way in WAYS] + [("vector", kind) for kind in LEAST_WORDS]
                section.add(
                    name, f"{found.chunks:,}, {found.tokens:.0f}",
                    *(f"{found.recall(*cell):.3f}, {found.mrr(*cell):.3f}" for cell in cells),
                )  # fmt: skip
    if given.write:
        section.write()


if __name__ == "__main__":
    main()
