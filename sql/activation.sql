-- Which version serves readers: what is missing before another may, and the switch.

-- name: lock_model_versions
-- Hold every version as it is, until the end of this transaction; publishers hold theirs meanwhile.
SELECT version, status FROM ingest.embedding_models ORDER BY number FOR NO KEY UPDATE

-- name: lock_live_model
-- One row while a version is not retired; activation, retirement and a swap wait for this transaction.
SELECT version FROM ingest.embedding_models WHERE version = %(version)s AND status <> 'retired' FOR SHARE

-- name: count_documents_behind
-- One row: documents that another version serves as new or newer than this one, embedded here or not yet.
SELECT count(*) FILTER (WHERE e.document_id IS NULL) AS unembedded,
    count(*) FILTER (WHERE e.document_id IS NOT NULL) AS withheld
FROM serving.publications served
JOIN ingest.documents d USING (document_id)
LEFT JOIN serving.publications p
    ON p.document_id = served.document_id AND p.embedding_model_version = %(version)s
LEFT JOIN ingest.embedding_coverage e
    ON e.document_id = d.document_id AND e.embedding_model_version = %(version)s AND e.generation = d.generation
WHERE served.embedding_model_version = %(served)s AND (p.generation IS NULL OR p.generation < served.generation)

-- name: count_publications
-- One row: documents that a version serves.
SELECT count(*) AS documents FROM serving.publications WHERE embedding_model_version = %(version)s

-- name: select_sample_size
-- One row: whether the client of a version is known, and the size of its sample.
SELECT fingerprint <> jsonb_build_object() AS is_known, jsonb_array_length(canary) AS texts FROM ingest.embedding_models
WHERE version = %(version)s

-- name: stand_by
-- The version that serves readers serves nobody any more.
UPDATE ingest.embedding_models SET status = 'building' WHERE status = 'active'

-- name: activate_model
-- Let a version serve readers.
UPDATE ingest.embedding_models SET status = 'active', activated_at = clock_timestamp() WHERE version = %(version)s

-- name: previous_model
-- The version that served readers before the one that does.
SELECT version FROM ingest.embedding_models
WHERE status = 'building' AND activated_at IS NOT NULL ORDER BY activated_at DESC LIMIT 1
