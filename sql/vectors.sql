-- Vectors: the queue by difference, claims, and what is written.

-- name: current_watermark
-- The snapshot that fixes a run's input set.
SELECT pg_current_snapshot()::text AS watermark

-- name: plan_queue
-- One row: distinct texts and tokens in the queue, and how many of each have a vector already.
WITH queue AS (
    SELECT q.text_sha256, max(q.token_count) AS token_count,
        EXISTS (SELECT FROM ingest.chunk_vectors v
                WHERE v.embedding_model_version = %(version)s AND v.text_sha256 = q.text_sha256) AS is_known
    FROM ingest.embedding_queue(%(version)s, %(watermark)s::pg_snapshot, %(document_ids)s::uuid[]) q
    GROUP BY q.text_sha256
)
SELECT count(*) AS units, coalesce(sum(token_count), 0)::bigint AS tokens,
    count(*) FILTER (WHERE is_known) AS known_units,
    coalesce(sum(token_count) FILTER (WHERE is_known), 0)::bigint AS known_tokens
FROM queue

-- name: copy_vectors
-- Give queued chunks the vector their text already has at this version; one row per chunk. NULL texts mean all.
INSERT INTO ingest.chunk_vectors (chunk_id, embedding_model_version, text_sha256, embedding, embedded_at, run_id)
SELECT q.chunk_id, %(version)s, q.text_sha256, known.embedding, known.embedded_at, %(run_id)s
FROM ingest.embedding_queue(%(version)s, %(watermark)s::pg_snapshot, %(document_ids)s::uuid[]) q
JOIN ingest.chunks c ON c.chunk_id = q.chunk_id
CROSS JOIN LATERAL (
    SELECT v.embedding, v.embedded_at FROM ingest.chunk_vectors v
    WHERE v.embedding_model_version = %(version)s AND v.text_sha256 = q.text_sha256 LIMIT 1
) known
WHERE %(texts)s::bytea[] IS NULL OR q.text_sha256 = ANY (%(texts)s::bytea[])
ORDER BY q.chunk_id FOR KEY SHARE OF c
ON CONFLICT (chunk_id, embedding_model_version) DO UPDATE SET text_sha256 = excluded.text_sha256,
    embedding = excluded.embedding, embedded_at = excluded.embedded_at, run_id = excluded.run_id
RETURNING text_sha256

-- name: queue_page
-- The next distinct texts of the queue in hash order, one row each, without their words.
SELECT DISTINCT ON (q.text_sha256) q.text_sha256, q.chunk_id, q.token_count, coalesce(a.attempts, 0) AS failed_runs,
    CASE
        WHEN EXISTS (SELECT FROM ingest.embedding_coverage e
                     WHERE e.document_id = q.document_id AND e.embedding_model_version = m.version) THEN 'changed'
        WHEN d.first_seen_at < m.declared_at
             AND EXISTS (SELECT FROM ingest.embedding_coverage e WHERE e.document_id = q.document_id) THEN 're_embed'
        ELSE 'new'
    END AS origin
FROM ingest.embedding_queue(%(version)s, %(watermark)s::pg_snapshot, %(document_ids)s::uuid[]) q
JOIN ingest.embedding_models m ON m.version = %(version)s
JOIN ingest.documents d USING (document_id)
LEFT JOIN ingest.embedding_attempts a ON a.embedding_model_version = m.version AND a.text_sha256 = q.text_sha256
WHERE q.text_sha256 > %(after)s
ORDER BY q.text_sha256, q.chunk_id LIMIT %(page_size)s

-- name: claim_texts
-- Claim some texts; one row per text that no other run pays for, and whether somebody paid for it meanwhile.
WITH claimed AS (
    INSERT INTO ingest.embedding_claims AS e (embedding_model_version, text_sha256, run_id, expires_at)
    SELECT %(version)s, text_sha256, %(run_id)s, now() + make_interval(secs => %(lease_seconds)s)
    FROM unnest(%(texts)s::bytea[]) text_sha256 ORDER BY text_sha256
    ON CONFLICT (embedding_model_version, text_sha256) DO UPDATE
        SET run_id = excluded.run_id, expires_at = excluded.expires_at
        WHERE e.expires_at < now() OR e.run_id = excluded.run_id
    RETURNING text_sha256
)
SELECT text_sha256 FROM claimed

-- name: claimed_words
-- The words of claimed texts that are still current somewhere, and whether they have a vector at this version already.
SELECT c.text_sha256, c.text,
    EXISTS (SELECT FROM ingest.chunk_vectors v
            WHERE v.embedding_model_version = %(version)s AND v.text_sha256 = c.text_sha256) AS is_known
FROM ingest.chunks c
WHERE c.chunk_id = ANY (%(chunk_ids)s::uuid[])
ORDER BY c.text_sha256

-- name: create_vector_staging
-- Make this session's staging table for vectors.
CREATE TEMPORARY TABLE IF NOT EXISTS vector_staging (text_sha256 bytea, embedding vector) ON COMMIT DELETE ROWS

-- name: copy_vector_staging
-- Take one answer of the provider in.
COPY vector_staging (text_sha256, embedding) FROM STDIN (FORMAT binary)

-- name: analyze_vector_staging
-- Without its size the planner reads every chunk for each answer; takes a millisecond or two.
ANALYZE vector_staging

-- name: insert_vectors
-- Give every chunk of the run's documents that holds a staged text its vector; one row per chunk. A chunk that vanished
-- is left out; one that was superseded meanwhile takes it too, for what is paid for may be wanted again.
INSERT INTO ingest.chunk_vectors (chunk_id, embedding_model_version, text_sha256, embedding, run_id)
SELECT c.chunk_id, %(version)s, s.text_sha256, s.embedding, %(run_id)s
FROM vector_staging s
JOIN ingest.chunks c ON c.text_sha256 = s.text_sha256
WHERE c.document_id = ANY (%(document_ids)s)
ORDER BY c.chunk_id FOR KEY SHARE OF c
ON CONFLICT (chunk_id, embedding_model_version) DO UPDATE SET text_sha256 = excluded.text_sha256,
    embedding = excluded.embedding, embedded_at = excluded.embedded_at, run_id = excluded.run_id
RETURNING text_sha256

-- name: release_claims
-- Give up this run's claims on some texts.
DELETE FROM ingest.embedding_claims
WHERE embedding_model_version = %(version)s AND run_id = %(run_id)s AND text_sha256 = ANY (%(texts)s)

-- name: release_run_claims
-- Give up all claims of a run.
DELETE FROM ingest.embedding_claims WHERE run_id = %(run_id)s

-- name: renew_claims
-- Keep the claims of a living run.
UPDATE ingest.embedding_claims SET expires_at = now() + make_interval(secs => %(lease_seconds)s)
WHERE run_id = %(run_id)s

-- name: count_foreign_claims
-- One row: texts of the queue that other living runs hold.
SELECT count(DISTINCT q.text_sha256) AS claims
FROM ingest.embedding_queue(%(version)s, %(watermark)s::pg_snapshot, %(document_ids)s::uuid[]) q
JOIN ingest.embedding_claims e ON e.embedding_model_version = %(version)s AND e.text_sha256 = q.text_sha256
WHERE e.run_id <> %(run_id)s AND e.expires_at >= now()

-- name: count_vectors
-- Vectors of current chunks, one row per version that is not retired.
SELECT m.version, count(c.chunk_id) AS vectors
FROM ingest.embedding_models m
LEFT JOIN ingest.chunk_vectors v ON v.embedding_model_version = m.version
LEFT JOIN (ingest.chunks c JOIN ingest.documents d USING (document_id, generation)) ON c.chunk_id = v.chunk_id
WHERE m.status <> 'retired' GROUP BY m.version, m.number ORDER BY m.number

-- name: document_vectors
-- Vectors of one document's current chunks, one row per version that is not retired.
SELECT m.version, count(v.chunk_id) AS vectors
FROM ingest.embedding_models m
LEFT JOIN (ingest.documents d JOIN ingest.chunks c USING (document_id, generation)) ON d.document_id = %(document_id)s
LEFT JOIN ingest.chunk_vectors v ON v.chunk_id = c.chunk_id AND v.embedding_model_version = m.version
WHERE m.status <> 'retired' GROUP BY m.version, m.number ORDER BY m.number

-- name: note_attempts
-- Some texts got no answer in a run while others did; one row per text with the number of such runs.
INSERT INTO ingest.embedding_attempts AS a (embedding_model_version, text_sha256, attempts, last_error, run_id)
SELECT %(version)s, u.text_sha256, 1, u.last_error, %(run_id)s
FROM unnest(%(texts)s::bytea[], %(errors)s::text[]) u (text_sha256, last_error) ORDER BY u.text_sha256
ON CONFLICT (embedding_model_version, text_sha256) DO UPDATE
    SET attempts = a.attempts + (a.run_id <> excluded.run_id)::integer, last_error = excluded.last_error,
        run_id = excluded.run_id
RETURNING text_sha256, attempts, last_error

-- name: forget_attempts
-- Some texts were answered, or given up on.
DELETE FROM ingest.embedding_attempts
WHERE embedding_model_version = %(version)s AND text_sha256 = ANY (%(texts)s)

-- name: forget_stale_attempts
-- Texts of a version that no current chunk holds any more have no attempts to remember.
DELETE FROM ingest.embedding_attempts a
WHERE a.embedding_model_version = %(version)s
  AND NOT EXISTS (SELECT FROM ingest.chunks c WHERE c.text_sha256 = a.text_sha256)
