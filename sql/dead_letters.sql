-- Dead letters: what was given up on, by document and by unit.

-- name: insert_document_letter
-- Give a document up at a stage after so many attempts; a letter that stands open counts one more.
INSERT INTO ingest.dead_letters AS l (document_id, stage, reason, detail, attempts, run_id)
VALUES (%(document_id)s, %(stage)s, %(reason)s, %(detail)s, %(attempts)s, %(run_id)s)
ON CONFLICT (document_id, chunk_id, embedding_model_version, stage) WHERE resolved_at IS NULL
DO UPDATE SET reason = excluded.reason, detail = excluded.detail, run_id = excluded.run_id,
    attempts = l.attempts + 1, last_failed_at = now()

-- name: insert_unit_letters
-- Give a text up at a version, for each chunk of the run that holds it; one row per chunk.
INSERT INTO ingest.dead_letters AS l (document_id, chunk_id, embedding_model_version, stage, reason, detail, attempts,
    run_id)
SELECT c.document_id, c.chunk_id, %(version)s, 'embed', %(reason)s, %(detail)s, %(attempts)s, %(run_id)s
FROM ingest.chunks c JOIN ingest.documents d USING (document_id, generation)
WHERE c.text_sha256 = %(text_sha256)s AND d.document_id = ANY (%(document_ids)s)
  AND pg_visible_in_snapshot(c.created_xid, %(watermark)s::pg_snapshot)
  AND NOT EXISTS (SELECT FROM ingest.dead_letters a WHERE a.chunk_id = c.chunk_id
                  AND a.embedding_model_version = %(version)s AND a.resolution = 'accepted')
ORDER BY c.chunk_id FOR KEY SHARE OF c
ON CONFLICT (document_id, chunk_id, embedding_model_version, stage) WHERE resolved_at IS NULL
DO UPDATE SET reason = excluded.reason, detail = excluded.detail, run_id = excluded.run_id,
    attempts = l.attempts + excluded.attempts, last_failed_at = now()
RETURNING document_id, chunk_id

-- name: close_document_letters
-- The document passed these stages after all.
UPDATE ingest.dead_letters SET resolved_at = now(), resolution = 'succeeded'
WHERE document_id = %(document_id)s AND resolved_at IS NULL AND stage = ANY (%(stages)s)

-- name: close_superseded_letters
-- A newer generation no longer holds these chunks.
UPDATE ingest.dead_letters l SET resolved_at = now(), resolution = 'newer_generation'
WHERE l.document_id = %(document_id)s AND l.stage = 'embed'
  AND (l.resolved_at IS NULL OR l.resolution = 'accepted')
  AND NOT EXISTS (SELECT FROM ingest.chunks c
                  WHERE c.chunk_id = l.chunk_id AND c.generation = %(new_generation)s)

-- name: close_embedded_letters
-- The unit has a vector after all.
UPDATE ingest.dead_letters l SET resolved_at = now(), resolution = 'succeeded'
WHERE l.document_id = ANY (%(document_ids)s) AND l.embedding_model_version = %(version)s
  AND (l.resolved_at IS NULL OR l.resolution = 'accepted')
  AND EXISTS (SELECT FROM ingest.chunk_vectors v
              WHERE v.chunk_id = l.chunk_id AND v.embedding_model_version = l.embedding_model_version)

-- name: close_deleted_letters
-- The document is gone.
UPDATE ingest.dead_letters SET resolved_at = now(), resolution = 'deleted'
WHERE document_id = %(document_id)s AND resolved_at IS NULL

-- name: select_letters
-- Letters that stand open, oldest first; NULL filters mean all.
SELECT l.dead_letter_id, d.source_key, d.document_id, d.partition_key, l.chunk_id, l.embedding_model_version, l.stage,
    l.reason, l.detail, l.attempts, l.run_id, l.first_failed_at, l.last_failed_at
FROM ingest.dead_letters l JOIN ingest.documents d USING (document_id)
WHERE l.resolved_at IS NULL
  AND (%(document_id)s::uuid IS NULL OR l.document_id = %(document_id)s::uuid)
  AND (%(reason)s::text IS NULL OR l.reason = %(reason)s::text)
ORDER BY l.first_failed_at, l.dead_letter_id

-- name: resolve_letters
-- Close some letters by hand; one row per letter.
UPDATE ingest.dead_letters SET resolved_at = now(), resolution = %(resolution)s
WHERE dead_letter_id = ANY (%(letter_ids)s) AND resolved_at IS NULL
RETURNING document_id, stage, embedding_model_version

-- name: drop_coverage
-- Make a document uncovered at a version.
DELETE FROM ingest.embedding_coverage
WHERE document_id = %(document_id)s AND embedding_model_version = %(version)s

-- name: count_letters
-- Open letters by reason.
SELECT reason, count(*) AS letters FROM ingest.dead_letters WHERE resolved_at IS NULL GROUP BY reason ORDER BY reason

-- name: document_letters
-- Open letters of some documents, at a version and before embedding.
SELECT document_id, dead_letter_id, stage, reason, detail, run_id, last_failed_at FROM ingest.dead_letters
WHERE resolved_at IS NULL AND document_id = ANY (%(document_ids)s)
  AND (embedding_model_version IS NULL OR embedding_model_version = %(version)s)
ORDER BY reason, dead_letter_id
