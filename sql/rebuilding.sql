-- The retrieval index of a version made anew from vectors that exist, beside the one that serves.

-- name: hold_rebuild
-- One row: whether nobody else rebuilds this version now.
SELECT pg_try_advisory_lock(hashtext('rebuild-index'), %(number)s) AS is_held

-- name: release_rebuild
-- Let others rebuild this version.
SELECT pg_advisory_unlock(hashtext('rebuild-index'), %(number)s)

-- name: create_publication_staging
-- Make this session's note of what was published when its rebuild began.
CREATE TEMPORARY TABLE IF NOT EXISTS publication_staging (document_id uuid PRIMARY KEY, generation bigint,
    published_at timestamptz)

-- name: clear_publication_staging
-- Forget an earlier note.
TRUNCATE publication_staging

-- name: note_publications
-- Note what a version has published.
INSERT INTO publication_staging SELECT document_id, generation, published_at FROM serving.publications
WHERE embedding_model_version = %(version)s

-- name: published_passages
-- What is published of some documents, or all, from chunks and vectors that exist.
SELECT c.chunk_id, d.document_id, p.generation, (place.position ->> 'index')::integer, d.source_key, c.text,
    ARRAY(SELECT jsonb_array_elements_text(place.position -> 'heading')), (place.position ->> 'page_start')::integer,
    (place.position ->> 'page_end')::integer, d.metadata, d.media_type, v.embedding::{embedding_type}
FROM serving.publications p
JOIN ingest.documents d USING (document_id)
CROSS JOIN LATERAL ROWS FROM (unnest(p.chunk_ids), jsonb_array_elements(p.positions)) AS place (chunk_id, position)
JOIN ingest.chunks c ON c.chunk_id = place.chunk_id
JOIN ingest.chunk_vectors v ON v.chunk_id = c.chunk_id AND v.embedding_model_version = %(version)s
WHERE p.embedding_model_version = %(version)s
  AND (%(document_ids)s::uuid[] IS NULL OR p.document_id = ANY (%(document_ids)s::uuid[]))

-- name: read_passages
-- The rows of a query, for another table.
COPY ({query}) TO STDOUT (FORMAT binary)

-- name: load_passages
-- Fill a table that this transaction made. Frozen rows are seen by transactions that began before it, too: they would find
-- the table that takes the other's place empty.
COPY {serving} (chunk_id, document_id, generation, chunk_index, source_key, text, heading, page_start, page_end, metadata,
    media_type, embedding) FROM STDIN (FORMAT binary, FREEZE)

-- name: add_passages
-- Add the rows of a query to a table.
INSERT INTO {serving} (chunk_id, document_id, generation, chunk_index, source_key, text, heading, page_start, page_end,
    metadata, media_type, embedding) {query}

-- name: analyze_serving_table
-- Let the planner know a table before anybody asks it.
ANALYZE {serving}

-- name: lock_serving_writers
-- Nobody publishes at this version until the end of the transaction; readers go on.
LOCK TABLE {serving} IN SHARE ROW EXCLUSIVE MODE

-- name: republished_documents
-- Documents that were published or taken away since the note.
SELECT coalesce(s.document_id, p.document_id) AS document_id
FROM publication_staging s
FULL JOIN (SELECT * FROM serving.publications WHERE embedding_model_version = %(version)s) p USING (document_id)
WHERE (s.generation, s.published_at) IS DISTINCT FROM (p.generation, p.published_at)

-- name: has_serving_table
-- One row while the table exists.
SELECT 1 AS found WHERE to_regclass(%(serving)s) IS NOT NULL

-- name: rename_serving_table
-- Put the table that was built into the place of the other.
ALTER TABLE {rebuilt} RENAME TO {table_name}
