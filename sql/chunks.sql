-- Chunks: the accepted chunk set of a document.

-- name: create_chunk_staging
-- Make this session's staging table for chunks.
CREATE TEMPORARY TABLE IF NOT EXISTS chunk_staging (
    chunk_id uuid, chunk_index integer, text text, text_sha256 bytea, token_count integer, char_start integer,
    char_end integer, page_start integer, page_end integer, heading text[]
) ON COMMIT DELETE ROWS

-- name: copy_chunks
-- Take one document's chunks in.
COPY chunk_staging (chunk_id, chunk_index, text, text_sha256, token_count, char_start, char_end, page_start,
    page_end, heading) FROM STDIN (FORMAT binary)

-- name: upsert_chunks
-- Make the staged chunks the document's next generation. A chunk that comes back counts as new for watermarks.
INSERT INTO ingest.chunks AS c (chunk_id, document_id, generation, chunk_index, text, text_sha256, token_count,
    char_start, char_end, page_start, page_end, heading)
SELECT s.chunk_id, %(document_id)s, %(new_generation)s, s.chunk_index, s.text, s.text_sha256, s.token_count,
    s.char_start, s.char_end, s.page_start, s.page_end, s.heading
FROM chunk_staging s ORDER BY s.chunk_id
ON CONFLICT (chunk_id) DO UPDATE SET
    text = excluded.text, text_sha256 = excluded.text_sha256, generation = excluded.generation, chunk_index = excluded.chunk_index, token_count = excluded.token_count,
    char_start = excluded.char_start, char_end = excluded.char_end, page_start = excluded.page_start,
    page_end = excluded.page_end, heading = excluded.heading,
    created_xid = CASE WHEN c.generation = %(generation)s THEN c.created_xid ELSE pg_current_xact_id() END

-- name: sweep_chunks
-- Delete superseded chunks of some documents that no publication names; their vectors go with them.
DELETE FROM ingest.chunks c USING ingest.documents d
WHERE c.document_id = ANY (%(document_ids)s) AND d.document_id = c.document_id AND c.generation <> d.generation
  AND NOT EXISTS (
      SELECT FROM serving.publications p WHERE p.document_id = c.document_id AND c.chunk_id = ANY (p.chunk_ids))

-- name: sweep_all_chunks
-- Delete superseded chunks of every document that no publication names; their vectors go with them.
DELETE FROM ingest.chunks c USING ingest.documents d
WHERE d.document_id = c.document_id AND c.generation <> d.generation
  AND NOT EXISTS (
      SELECT FROM serving.publications p WHERE p.document_id = c.document_id AND c.chunk_id = ANY (p.chunk_ids))

-- name: current_chunks
-- The current chunks of one document, in order.
SELECT c.chunk_index, c.chunk_id, c.text, c.token_count, c.char_start, c.char_end, c.page_start, c.page_end,
    c.heading, c.text_sha256
FROM ingest.chunks c JOIN ingest.documents d USING (document_id)
WHERE d.document_id = %(document_id)s AND c.generation = d.generation ORDER BY c.chunk_index

-- name: current_chunk_ids
-- Ids of the current chunks of one document, in order.
SELECT c.chunk_id FROM ingest.chunks c JOIN ingest.documents d USING (document_id, generation)
WHERE d.document_id = %(document_id)s ORDER BY c.chunk_index

-- name: count_chunks
-- One row: current chunks.
SELECT count(*) AS chunks FROM ingest.chunks c JOIN ingest.documents d USING (document_id, generation)

-- name: recognise_server
-- Note the server that this database lives on; one row when it is another one than before.
INSERT INTO ingest.server AS s (system_identifier) SELECT system_identifier FROM pg_control_system()
ON CONFLICT (is_this) DO UPDATE SET system_identifier = excluded.system_identifier
WHERE s.system_identifier <> excluded.system_identifier

-- name: restamp_chunks
-- After a restore, transaction ids are from another life: bring them back under the present horizon.
UPDATE ingest.chunks SET created_xid = pg_current_xact_id()
WHERE created_xid >= pg_snapshot_xmax(pg_current_snapshot())
