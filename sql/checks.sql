-- What checks judge. A statement that returns offenders returns no row where all is well; those of some documents take all
-- of them where `document_ids` is NULL.

-- name: unbalanced_runs
-- Finished embedding runs of the last day, or this run when it finished, whose units do not add up to their plan.
SELECT run_id, embedding_model_version AS version, planned_units, reused, embedded, dead_lettered, left_to_others, vanished
FROM ingest.embedding_runs
WHERE planned_units <> reused + embedded + dead_lettered + left_to_others + vanished
  AND finished_at IS NOT NULL
  AND (run_id = %(run_id)s OR (%(run_id)s::text IS NULL AND finished_at > now() - interval '1 day'))
ORDER BY started_at

-- name: unreconciled_documents
-- Of some documents, or all: covered ones with chunks that do not have exactly one of vector and standing dead letter.
WITH letters AS (
    SELECT DISTINCT chunk_id, embedding_model_version FROM ingest.dead_letters
    WHERE chunk_id IS NOT NULL AND (resolved_at IS NULL OR resolution = 'accepted')
)
SELECT d.document_id, d.source_key AS document, e.embedding_model_version AS version,
    count(*) FILTER (WHERE v.chunk_id IS NULL AND l.chunk_id IS NULL) AS missing,
    count(*) FILTER (WHERE v.chunk_id IS NOT NULL AND l.chunk_id IS NOT NULL) AS doubled
FROM ingest.embedding_coverage e
JOIN ingest.embedding_models m ON m.version = e.embedding_model_version AND m.status <> 'retired'
JOIN ingest.documents d ON d.document_id = e.document_id AND d.generation = e.generation
JOIN ingest.chunks c ON c.document_id = d.document_id AND c.generation = d.generation
LEFT JOIN ingest.chunk_vectors v ON v.chunk_id = c.chunk_id AND v.embedding_model_version = e.embedding_model_version
LEFT JOIN letters l ON l.chunk_id = c.chunk_id AND l.embedding_model_version = e.embedding_model_version
WHERE (v.chunk_id IS NULL) <> (l.chunk_id IS NOT NULL)
  AND (%(document_ids)s::uuid[] IS NULL OR d.document_id = ANY (%(document_ids)s))
GROUP BY d.document_id, d.source_key, e.embedding_model_version ORDER BY d.source_key, e.embedding_model_version

-- name: unserved_documents
-- Published documents whose rows in publications are missing or of another generation.
SELECT d.document_id, d.source_key AS document, e.embedding_model_version AS version
FROM ingest.embedding_coverage e
JOIN ingest.embedding_models m ON m.version = e.embedding_model_version AND m.status <> 'retired'
JOIN ingest.documents d ON d.document_id = e.document_id AND d.generation = e.generation
LEFT JOIN serving.publications p
    ON p.document_id = e.document_id AND p.embedding_model_version = e.embedding_model_version
WHERE e.published AND p.generation IS DISTINCT FROM e.generation
ORDER BY d.source_key, e.embedding_model_version

-- name: count_corpus
-- One row: of a version, rows that readers search, rows that publications name, vectors, documents that wait for it.
SELECT (SELECT count(*) FROM {serving}) AS served,
    (SELECT coalesce(sum(cardinality(chunk_ids)), 0) FROM serving.publications
     WHERE embedding_model_version = %(version)s) AS published,
    (SELECT count(*) FROM {vectors}) AS vectors,
    (SELECT count(*) FROM ingest.documents p WHERE p.generation > 0 AND p.text IS NOT NULL AND NOT EXISTS (
        SELECT FROM ingest.embedding_coverage e WHERE e.document_id = p.document_id
          AND e.embedding_model_version = %(version)s AND e.generation = p.generation)) AS pending_documents

-- name: stale_vectors
-- Of some documents, or all: vectors whose text was another one than the chunk's text is now.
SELECT d.document_id, d.source_key AS document, v.embedding_model_version AS version, count(*) AS vectors
FROM ingest.chunk_vectors v JOIN ingest.chunks c USING (chunk_id) JOIN ingest.documents d USING (document_id)
WHERE v.text_sha256 <> sha256(convert_to(c.text, 'UTF8'))
  AND (%(document_ids)s::uuid[] IS NULL OR c.document_id = ANY (%(document_ids)s))
GROUP BY d.document_id, d.source_key, v.embedding_model_version ORDER BY d.source_key, v.embedding_model_version

-- name: stale_chunks
-- Of some documents, or all: those whose chunks were cut from another text than theirs is now.
SELECT document_id, source_key AS document FROM ingest.documents
WHERE text IS NOT NULL AND chunked_text_sha256 IS DISTINCT FROM sha256(convert_to(text, 'UTF8'))
  AND (%(document_ids)s::uuid[] IS NULL OR document_id = ANY (%(document_ids)s))
ORDER BY source_key

-- name: stale_serving_rows
-- Of some documents, or all: published chunks whose served row is missing or differs, and rows that no publication names.
WITH published AS MATERIALIZED (
    SELECT document_id, unnest(chunk_ids) AS chunk_id FROM serving.publications
    WHERE embedding_model_version = %(version)s
      AND (%(document_ids)s::uuid[] IS NULL OR document_id = ANY (%(document_ids)s))
), chunk AS MATERIALIZED (  -- hashes instead of texts: a join of all of them fits into memory
    SELECT chunk_id, hashtextextended(text, 0) AS hash FROM ingest.chunks
    WHERE %(document_ids)s::uuid[] IS NULL OR document_id = ANY (%(document_ids)s)
), served AS MATERIALIZED (
    SELECT document_id, chunk_id, source_key, hashtextextended(text, 0) AS hash FROM {serving}
    WHERE %(document_ids)s::uuid[] IS NULL OR document_id = ANY (%(document_ids)s)
)
SELECT document_id, coalesce(max(d.source_key), max(differing.source_key), document_id::text) AS document, count(*) AS rows
FROM (
    SELECT coalesce(i.document_id, p.document_id) AS document_id, i.source_key
    FROM published p LEFT JOIN chunk c USING (chunk_id)
    FULL JOIN served i ON i.chunk_id = p.chunk_id AND i.document_id = p.document_id
    WHERE i.chunk_id IS NULL OR p.chunk_id IS NULL OR c.hash IS DISTINCT FROM i.hash
) differing LEFT JOIN ingest.documents d USING (document_id)
GROUP BY document_id ORDER BY 2

-- name: documents_without_chunks
-- Of some documents, or all: accepted ones that have text but no chunk.
SELECT d.document_id, d.source_key AS document, length(d.text) AS characters FROM ingest.documents d
WHERE d.text IS NOT NULL AND d.status <> 'deleted'
  AND NOT EXISTS (SELECT FROM ingest.chunks c WHERE c.document_id = d.document_id AND c.generation = d.generation)
  AND (%(document_ids)s::uuid[] IS NULL OR d.document_id = ANY (%(document_ids)s))
ORDER BY d.source_key

-- name: open_letters
-- Documents with open dead letters.
SELECT d.source_key AS document, l.stage, l.reason, l.embedding_model_version AS version, count(*) AS letters,
    min(l.first_failed_at) AS since
FROM ingest.dead_letters l JOIN ingest.documents d USING (document_id) WHERE l.resolved_at IS NULL
GROUP BY d.source_key, l.stage, l.reason, l.embedding_model_version ORDER BY min(l.first_failed_at), d.source_key

-- name: ids_of_partitions
-- The documents of some partition keys.
SELECT document_id FROM ingest.documents WHERE partition_key = ANY (%(partition_keys)s)

-- name: known_offenders
-- Documents that a check found wrong and no later look found right, the longest known first.
SELECT document_id, count(*) OVER () AS known FROM ingest.check_offenders
WHERE check_name = %(check_name)s ORDER BY found_at, document_id LIMIT %(limit)s

-- name: forget_offenders
-- Of some documents, or all: those that a check did not find wrong this time.
DELETE FROM ingest.check_offenders
WHERE check_name = %(check_name)s AND NOT document_id = ANY (%(found)s)
  AND (%(document_ids)s::uuid[] IS NULL OR document_id = ANY (%(document_ids)s))

-- name: remember_offenders
-- Documents that a check found wrong.
INSERT INTO ingest.check_offenders (check_name, document_id)
SELECT %(check_name)s, document_id FROM unnest(%(found)s::uuid[]) document_id ORDER BY document_id
ON CONFLICT DO NOTHING

-- name: raise_work_memory
-- Joins of a whole corpus, in this transaction.
SELECT set_config('work_mem', '256MB', true)
