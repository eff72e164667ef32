-- What another chunker or extractor will make of documents, before anything is recorded.

-- name: changing_documents
-- Partition keys of documents that are as they were read, by another extractor or chunker than today's.
SELECT partition_key FROM ingest.documents
WHERE status IN ('accepted', 'rejected') AND missing_since IS NULL
  AND (seen_etag, seen_size_bytes, seen_last_modified) IS NOT DISTINCT FROM (etag, size_bytes, last_modified)
  AND ((retry_after IS NULL AND extractor_version IS DISTINCT FROM %(extractor_version)s)
       OR (status = 'accepted' AND chunker_version IS DISTINCT FROM %(chunker_version)s))
ORDER BY first_seen_at, partition_key

-- name: count_unread_documents
-- One row: documents whose object is new or was changed since it was read.
SELECT count(*) AS documents FROM ingest.documents
WHERE status <> 'deleted' AND missing_since IS NULL
  AND (status = 'discovered'
       OR (seen_etag, seen_size_bytes, seen_last_modified) IS DISTINCT FROM (etag, size_bytes, last_modified))

-- name: create_change_staging
-- Make this session's staging table for chunks that are foreseen; nobody else sees it.
CREATE TEMPORARY TABLE IF NOT EXISTS change_staging (document_id uuid, chunk_id uuid, text_sha256 bytea,
    token_count integer)

-- name: clear_change_staging
-- Forget what was foreseen earlier.
TRUNCATE change_staging

-- name: copy_changes
-- Take the chunks of foreseen documents in.
COPY change_staging (document_id, chunk_id, text_sha256, token_count) FROM STDIN (FORMAT binary)

-- name: analyze_change_staging
-- Let the planner know how many chunks are foreseen.
ANALYZE change_staging

-- name: plan_changes
-- One row: the queue of a version as it will be, in distinct texts and tokens, how many of each have a vector already, and
-- foreseen chunks whose text has none.
WITH foreseen AS (
    SELECT s.text_sha256, s.token_count,
        EXISTS (SELECT FROM ingest.chunk_vectors v
                WHERE v.chunk_id = s.chunk_id AND v.embedding_model_version = %(version)s
                  AND v.text_sha256 = s.text_sha256)
        OR EXISTS (SELECT FROM ingest.dead_letters l
                   WHERE l.chunk_id = s.chunk_id AND l.embedding_model_version = %(version)s
                     AND (l.resolved_at IS NULL OR l.resolution = 'accepted')) AS is_done
    FROM change_staging s
), known AS (
    SELECT DISTINCT text_sha256 FROM ingest.chunk_vectors WHERE embedding_model_version = %(version)s
), queue AS (
    SELECT text_sha256, max(token_count) AS token_count FROM (
        SELECT text_sha256, token_count FROM foreseen WHERE NOT is_done
        UNION ALL
        SELECT q.text_sha256, q.token_count
        FROM ingest.embedding_queue(%(version)s, %(watermark)s::pg_snapshot, NULL) q
        WHERE NOT EXISTS (SELECT FROM change_staging s WHERE s.document_id = q.document_id)
    ) wanted GROUP BY text_sha256
)
SELECT count(*) AS units, coalesce(sum(q.token_count), 0)::bigint AS tokens, count(k.text_sha256) AS known_units,
    coalesce(sum(q.token_count) FILTER (WHERE k.text_sha256 IS NOT NULL), 0)::bigint AS known_tokens,
    (SELECT count(*) FROM foreseen f WHERE NOT is_done
     AND NOT EXISTS (SELECT FROM known k WHERE k.text_sha256 = f.text_sha256)) AS new_chunks
FROM queue q LEFT JOIN known k USING (text_sha256)
