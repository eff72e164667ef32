-- Embedding model versions and their tables.

-- name: select_models
-- Every version known, in the order of declaration.
SELECT version, number, provider, model, dimensions, fingerprint, status, declared_at, activated_at
FROM ingest.embedding_models ORDER BY number

-- name: count_published_documents
-- Documents in the retrieval index of each version that has any.
SELECT embedding_model_version AS version, count(*) AS documents FROM serving.publications
GROUP BY embedding_model_version

-- name: select_indexed_models
-- Every version that has a retrieval index, retired or not, in the order of declaration.
SELECT version, number, dimensions, fingerprint, status FROM ingest.embedding_models
WHERE to_regclass(format('serving.index_%%s', number)) IS NOT NULL ORDER BY number

-- name: insert_model
-- Declare a version; one row when it is new.
INSERT INTO ingest.embedding_models (version, provider, model, dimensions, fingerprint)
VALUES (%(version)s, %(provider)s, %(model)s, %(dimensions)s, %(fingerprint)s)
ON CONFLICT DO NOTHING RETURNING number

-- name: lock_models
-- One declaration at a time.
LOCK TABLE ingest.embedding_models IN SHARE ROW EXCLUSIVE MODE

-- name: create_vector_partition
-- The partition of a version, made beside the parent: attaching it asks for less of a lock than creating it in place.
CREATE TABLE {vectors} (LIKE ingest.chunk_vectors INCLUDING DEFAULTS INCLUDING STORAGE,
    CONSTRAINT version_is_this CHECK (embedding_model_version = {version}),
    CONSTRAINT dimensions_are_right CHECK (vector_dims(embedding) = {dimensions}))

-- name: attach_vector_partition
-- Make the partition part of chunk_vectors.
ALTER TABLE ingest.chunk_vectors ATTACH PARTITION {vectors} FOR VALUES IN ({version})

-- name: create_serving_table
-- The table that serves a version.
CREATE TABLE {serving} (
    chunk_id uuid PRIMARY KEY,
    document_id uuid NOT NULL,
    generation bigint NOT NULL,
    chunk_index integer NOT NULL,
    source_key text NOT NULL,
    text text NOT NULL,
    heading text[] NOT NULL,
    page_start integer,
    page_end integer,
    metadata jsonb NOT NULL,
    media_type text,
    tsv tsvector GENERATED ALWAYS AS (to_tsvector('simple', text)) STORED,
    embedding {embedding_type}({dimensions}) NOT NULL
)

-- name: compress_serving_texts
-- Use the faster compression where the server has it.
SELECT ingest.prefer_lz4(%(serving)s::regclass, 'text')

-- name: index_serving_documents
-- Find a document's rows.
CREATE INDEX ON {serving} (document_id)

-- name: index_serving_keywords
-- Find words. A pending list makes writing cheap, and every search of a word reads it from end to end: a short one.
CREATE INDEX ON {serving} USING gin (tsv) WITH (gin_pending_list_limit = 64)

-- name: index_serving_keys
-- Find documents by key, and by the beginning of a key.
CREATE INDEX ON {serving} (source_key text_pattern_ops)

-- name: index_serving_metadata
-- Find documents by their properties.
CREATE INDEX ON {serving} USING gin (metadata jsonb_path_ops) WITH (gin_pending_list_limit = 64)

-- name: activate_first_model
-- The first declared version serves from its first publication, unless another does.
UPDATE ingest.embedding_models m SET status = 'active', activated_at = now()
WHERE m.version = %(version)s AND m.status = 'building'
  AND NOT EXISTS (SELECT FROM ingest.embedding_models a WHERE a.status = 'active')

-- name: has_ann_index
-- One row when the serving table of a version has its HNSW index.
SELECT 1 AS found FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
WHERE i.indrelid = %(serving)s::regclass AND a.amname = 'hnsw'

-- name: count_serving_rows
-- One row: rows that serve a version.
SELECT count(*) AS found FROM {serving}

-- name: create_ann_index
-- Build the HNSW index of a version over the rows that are there.
CREATE INDEX ON {serving} USING hnsw (embedding {operator_class})

-- name: raise_maintenance_memory
-- An HNSW build that does not fit into memory is many times slower.
SET LOCAL maintenance_work_mem = '512MB'

-- name: build_alone
-- A build without parallel workers uses no shared memory.
SET LOCAL max_parallel_maintenance_workers = 0

-- name: record_fingerprint
-- Note what client a version is embedded with.
UPDATE ingest.embedding_models SET fingerprint = %(fingerprint)s WHERE version = %(version)s

-- name: record_canary
-- Fix the sample of a version, once it has one to give: the texts with the smallest hashes, by hash. Their vectors stay
-- where they are, so that a deleted document leaves nothing behind here.
UPDATE ingest.embedding_models m SET canary = sample.texts
FROM (
    SELECT jsonb_agg(encode(text_sha256, 'hex') ORDER BY text_sha256) AS texts FROM (
        SELECT DISTINCT text_sha256 FROM ingest.chunk_vectors WHERE embedding_model_version = %(version)s
        ORDER BY text_sha256 LIMIT %(sample_size)s
    ) s
) sample
WHERE m.version = %(version)s AND m.canary = '[]' AND sample.texts IS NOT NULL

-- name: sample_vectors
-- The version's sample with its vectors, topped up where documents of it are gone; one row per text.
SELECT candidate.text_sha256, (array_agg(c.text))[1] AS text, max(c.token_count) AS token_count,
    (array_agg(v.embedding))[1] AS embedding
FROM (
    (SELECT DISTINCT v.text_sha256, 0 AS rank FROM ingest.embedding_models m
     CROSS JOIN LATERAL jsonb_array_elements_text(m.canary) AS canary (hash)
     JOIN ingest.chunk_vectors v
       ON v.embedding_model_version = m.version AND v.text_sha256 = decode(canary.hash, 'hex')
     WHERE m.version = %(version)s)
    UNION ALL
    (SELECT DISTINCT v.text_sha256, 1 FROM ingest.chunk_vectors v
     WHERE v.embedding_model_version = %(version)s ORDER BY v.text_sha256 LIMIT 2 * %(sample_size)s)
) candidate
JOIN ingest.chunk_vectors v
  ON v.embedding_model_version = %(version)s AND v.text_sha256 = candidate.text_sha256
JOIN ingest.chunks c ON c.chunk_id = v.chunk_id AND c.text_sha256 = v.text_sha256
GROUP BY candidate.text_sha256
ORDER BY min(candidate.rank), candidate.text_sha256 LIMIT %(sample_size)s
