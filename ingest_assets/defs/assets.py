"""The five assets: `documents` and `chunks` by document, the rest by document and embedding model version.

What does not belong here: the work (`ingest.py`, `embedding.py`) and when it is due (`sensors.py`).
Each body always does all of its step; where only some of its assets are selected, only these are recorded.
"""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from ingest_assets import chunk, extract
from ingest_assets.defs.columns import table_metadata
from ingest_assets.defs.embedding_report import run_embedding
from ingest_assets.defs.ingest_report import run_ingest
from ingest_assets.defs.keys import DocumentsConfig, EmbeddingConfig
from ingest_assets.defs.partitions import document_versions, documents
from ingest_assets.defs.resources import PlatformResource

GROUP = "ingest"
OWNERS = ["team:data-platform"]
DOCUMENTS_PER_RUN = 500

CODE_VERSION = f"extractor {extract.EXTRACTOR_VERSION}, chunker {chunk.CHUNKER_VERSION}"
PUBLICATION_VERSION = "1"


def _spec(name: str, description: str, kinds: set[str], deps: list[str], **details: Any) -> dg.AssetSpec:
    return dg.AssetSpec(
        name,
        description=description,
        metadata=table_metadata(name),
        kinds=kinds,
        deps=deps,
        group_name=GROUP,
        owners=OWNERS,
        skippable=True,
        **details,
    )


@dg.multi_asset(
    name="ingest_documents",
    specs=[
        _spec(
            "documents",
            "The text of each source object, with its pages, headings and properties. One partition a document; a red "
            "one was given up, and its observation says why.",
            {"postgres", "file"},
            [],
            partitions_def=documents,
            code_version=CODE_VERSION,
        ),
        _spec(
            "chunks",
            "Spans of each document's text, cut where the content says. Made together with `documents`.",
            {"postgres"},
            ["documents"],
            partitions_def=documents,
            code_version=CODE_VERSION,
        ),
    ],
    can_subset=True,
    backfill_policy=dg.BackfillPolicy.multi_run(DOCUMENTS_PER_RUN),
)
def ingest_documents(
    context: dg.AssetExecutionContext, config: DocumentsConfig, platform: PlatformResource
) -> Iterator[Any]:
    """Fetch, extract and chunk the documents of this run."""
    run_ingest(context, config, platform.get(), CODE_VERSION)
    yield from ()


@dg.multi_asset(
    name="embed_documents",
    specs=[
        _spec(
            "chunk_vectors",
            "One vector for each current chunk at one embedding model version. Materialize it together with "
            "`dead_letters` and `retrieval_index`; texts that have a vector are not sent again.",
            {"postgres", "pgvector"},
            ["chunks"],
            partitions_def=document_versions,
            code_version=PUBLICATION_VERSION,
        ),
        _spec(
            "dead_letters",
            "What was given up on, with a reason: no content, only references. Mend the cause and materialize the "
            "partition again, or `ingest-assets dead-letters resolve DOCUMENT`.",
            {"postgres"},
            ["chunks"],
            partitions_def=document_versions,
            code_version=PUBLICATION_VERSION,
        ),
        _spec(
            "retrieval_index",
            "What readers search through `serving.search`: each document's last complete generation, one table a "
            "version. A document is replaced in one transaction.",
            {"postgres", "pgvector"},
            ["chunk_vectors"],
            partitions_def=document_versions,
            code_version=PUBLICATION_VERSION,
        ),
    ],
    can_subset=True,
    backfill_policy=dg.BackfillPolicy.multi_run(DOCUMENTS_PER_RUN),
)
def embed_documents(
    context: dg.AssetExecutionContext, config: EmbeddingConfig, platform: PlatformResource
) -> Iterator[Any]:
    """Plan, reuse, embed and publish the documents of this run."""
    run_embedding(context, config, platform.get(), PUBLICATION_VERSION)
    yield from ()
