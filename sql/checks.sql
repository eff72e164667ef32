-- The counts that checks judge. Every statement returns offenders: no row means that the check passes.

-- name: unbalanced_runs
-- Finished embedding runs of the last day, or this run when it finished, whose units do not add up to their plan.
SELECT run_id, embedding_model_version AS version, planned_units, reused, embedded, dead_lettered, left_to_others, vanished
FROM ingest.embedding_runs
WHERE planned_units <> reused + embedded + dead_lettered + left_to_others + vanished
  AND finished_at IS NOT NULL
  AND (run_id = %(run_id)s OR (%(run_id)s::text IS NULL AND finished_at > now() - interval '1 day'))
ORDER BY started_at

-- name: unreconciled_documents
-- Covered documents with chunks that do not have exactly one of vector and standing dead letter.
SELECT d.source_key AS document, e.embedding_model_version AS version,
    count(*) FILTER (WHERE v.chunk_id IS NULL AND NOT letter.found) AS missing,
    count(*) FILTER (WHERE v.chunk_id IS NOT NULL AND letter.found) AS doubled
FROM ingest.embedding_coverage e
JOIN ingest.embedding_models m ON m.version = e.embedding_model_version AND m.status <> 'retired'
JOIN ingest.documents d ON d.document_id = e.document_id AND d.generation = e.generation
JOIN ingest.chunks c ON c.document_id = d.document_id AND c.generation = d.generation
LEFT JOIN ingest.chunk_vectors v ON v.chunk_id = c.chunk_id AND v.embedding_model_version = e.embedding_model_version
CROSS JOIN LATERAL (SELECT EXISTS (
    SELECT FROM ingest.dead_letters l
    WHERE l.chunk_id = c.chunk_id AND l.embedding_model_version = e.embedding_model_version
      AND (l.resolved_at IS NULL OR l.resolution = 'accepted')) AS found) letter
WHERE (v.chunk_id IS NULL) <> letter.found
GROUP BY d.source_key, e.embedding_model_version ORDER BY d.source_key, e.embedding_model_version

-- name: unserved_documents
-- Published documents whose rows in publications are missing or of another generation.
SELECT d.source_key AS document, e.embedding_model_version AS version
FROM ingest.embedding_coverage e
JOIN ingest.embedding_models m ON m.version = e.embedding_model_version AND m.status <> 'retired'
JOIN ingest.documents d ON d.document_id = e.document_id AND d.generation = e.generation
LEFT JOIN serving.publications p
    ON p.document_id = e.document_id AND p.embedding_model_version = e.embedding_model_version
WHERE e.published AND p.generation IS DISTINCT FROM e.generation
ORDER BY d.source_key, e.embedding_model_version

-- name: corpus_counts
-- Per version: current chunks, vectors, standing dead letters, and documents that wait for it.
SELECT m.version, count(c.chunk_id) AS chunks, count(v.chunk_id) AS vectors,
    (SELECT count(*) FROM ingest.documents p WHERE p.generation > 0 AND p.text IS NOT NULL AND NOT EXISTS (
        SELECT FROM ingest.embedding_coverage e WHERE e.document_id = p.document_id
          AND e.embedding_model_version = m.version AND e.generation = p.generation)) AS pending_documents
FROM ingest.embedding_models m
LEFT JOIN (ingest.documents d JOIN ingest.chunks c USING (document_id, generation)) ON true
LEFT JOIN ingest.chunk_vectors v ON v.chunk_id = c.chunk_id AND v.embedding_model_version = m.version
WHERE m.status <> 'retired' GROUP BY m.version, m.number ORDER BY m.number

-- name: stale_vectors
-- Vectors whose text was another one than the chunk's text is now.
SELECT d.source_key AS document, v.embedding_model_version AS version, count(*) AS vectors
FROM ingest.chunk_vectors v JOIN ingest.chunks c USING (chunk_id) JOIN ingest.documents d USING (document_id)
WHERE v.text_sha256 <> sha256(convert_to(c.text, 'UTF8'))
GROUP BY d.source_key, v.embedding_model_version ORDER BY d.source_key, v.embedding_model_version

-- name: stale_chunks
-- Documents whose chunks were cut from another text than theirs is now.
SELECT source_key AS document FROM ingest.documents
WHERE text IS NOT NULL AND chunked_text_sha256 IS DISTINCT FROM sha256(convert_to(text, 'UTF8'))
ORDER BY source_key

-- name: stale_serving_rows
-- Published chunks whose served row is missing or differs, and served rows that no publication names.
SELECT coalesce(i.source_key, p.document_id::text) AS document, count(*) AS rows
FROM (
    SELECT p.document_id, unnest(p.chunk_ids) AS chunk_id FROM serving.publications p
    WHERE p.embedding_model_version = %(version)s
) p
LEFT JOIN ingest.chunks c ON c.chunk_id = p.chunk_id
FULL JOIN {serving} i ON i.chunk_id = p.chunk_id AND i.document_id = p.document_id
WHERE i.chunk_id IS NULL OR p.chunk_id IS NULL OR c.text IS DISTINCT FROM i.text
GROUP BY 1 ORDER BY 1

-- name: documents_without_chunks
-- Accepted documents that have text but no chunk.
SELECT d.source_key AS document, length(d.text) AS characters FROM ingest.documents d
WHERE d.text IS NOT NULL AND d.status <> 'deleted'
  AND NOT EXISTS (SELECT FROM ingest.chunks c WHERE c.document_id = d.document_id AND c.generation = d.generation)
ORDER BY d.source_key

-- name: open_letters
-- Documents with open dead letters.
SELECT d.source_key AS document, l.stage, l.reason, l.embedding_model_version AS version, count(*) AS letters,
    min(l.first_failed_at) AS since
FROM ingest.dead_letters l JOIN ingest.documents d USING (document_id) WHERE l.resolved_at IS NULL
GROUP BY d.source_key, l.stage, l.reason, l.embedding_model_version ORDER BY min(l.first_failed_at), d.source_key
