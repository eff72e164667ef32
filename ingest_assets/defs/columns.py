"""The columns of the tables behind the assets, as the UI shows them.

What does not belong here: the tables themselves (`sql/migrations/`); a test holds these against them.
"""

import dagster as dg

Columns = tuple[tuple[str, str, str], ...]

DOCUMENTS: Columns = (
    ("document_id", "uuid", "from the sha256 of the source URI"),
    ("source_uri", "text", "where the object is"),
    ("partition_key", "text", "the document's partition"),
    ("etag", "text", "state of the object that was last decided on; an identity, no hash of the content"),
    ("size_bytes", "bigint", "of the object"),
    ("content_sha256", "bytea", "of the object's bytes"),
    ("media_type", "text", "recognised by content, not by name"),
    ("text", "text", "normalised once: NFC, no NUL, no lone surrogates"),
    ("pages", "jsonb", "where pages begin in the text"),
    ("headings", "jsonb", "where headings stand in the text"),
    ("metadata", "jsonb", "of the object and of the document"),
    ("generation", "bigint", "counts accepted chunk sets; fences late writers"),
    ("status", "text", "discovered, accepted, rejected or deleted"),
)
CHUNKS: Columns = (
    ("chunk_id", "uuid", "from document, text and occurrence: a chunk that moves keeps it"),
    ("document_id", "uuid", "its document"),
    ("generation", "bigint", "it last belonged to; current when it is its document's"),
    ("chunk_index", "integer", "place in the document"),
    ("text", "text", "what is embedded"),
    ("text_sha256", "bytea", "of the text; equal texts share a vector"),
    ("token_count", "integer", "in the chunker's measure"),
    ("char_start", "integer", "in the document's text"),
    ("char_end", "integer", "in the document's text"),
    ("page_start", "integer", "first page, where there are pages"),
    ("heading", "ARRAY", "path of headings above it"),
)
CHUNK_VECTORS: Columns = (
    ("chunk_id", "uuid", "its chunk"),
    ("embedding_model_version", "text", "the version it was made at"),
    ("text_sha256", "bytea", "of the bytes that were sent"),
    ("embedding", "USER-DEFINED", "vector of the version's dimensions"),
    ("embedded_at", "timestamp with time zone", "when it was paid for"),
    ("run_id", "text", "the run that paid for it"),
)
DEAD_LETTERS: Columns = (
    ("document_id", "uuid", "its document"),
    ("chunk_id", "uuid", "its chunk, after embedding"),
    ("embedding_model_version", "text", "the version, after embedding"),
    ("stage", "text", "fetch, extract, chunk or embed"),
    ("reason", "text", "from the closed list of reasons"),
    ("detail", "text", "one sentence; never content"),
    ("attempts", "integer", "that failed"),
    ("run_id", "text", "the run that gave up"),
    ("resolved_at", "timestamp with time zone", "when it was closed"),
    ("resolution", "text", "how it was closed"),
)
PUBLICATIONS: Columns = (
    ("document_id", "uuid", "its document"),
    ("embedding_model_version", "text", "the version that serves it"),
    ("generation", "bigint", "that readers see"),
    ("chunk_ids", "ARRAY", "served, in order"),
    ("run_id", "text", "the run that published it"),
    ("published_at", "timestamp with time zone", "when readers got it"),
)
TABLES = {
    "documents": ("ingest.documents", DOCUMENTS),
    "chunks": ("ingest.chunks", CHUNKS),
    "chunk_vectors": ("ingest.chunk_vectors", CHUNK_VECTORS),
    "dead_letters": ("ingest.dead_letters", DEAD_LETTERS),
    "retrieval_index": ("serving.publications", PUBLICATIONS),
}
SHOWN_TYPES = {"USER-DEFINED": "vector", "ARRAY": "list", "timestamp with time zone": "timestamptz"}


def table_metadata(asset: str) -> dict[str, object]:
    """Return what the UI shows of the table behind an asset."""
    table, columns = TABLES[asset]
    schema = dg.TableSchema(
        [dg.TableColumn(name, SHOWN_TYPES.get(kind, kind), description=meaning) for name, kind, meaning in columns]
    )
    return {"dagster/column_schema": schema, "dagster/table_name": table}
