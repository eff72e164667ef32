-- Publication: what readers see, replaced one document at a time.

-- name: lock_documents
-- Lock documents in one order, so that publishers, writers and deletions never deadlock.
SELECT document_id FROM ingest.documents WHERE document_id = ANY (%(document_ids)s)
ORDER BY document_id FOR NO KEY UPDATE

-- name: count_coverage
-- Of some documents: current chunks, those with a vector, those with a standing dead letter instead, those open.
SELECT d.document_id, d.generation, count(*) AS chunks, count(v.chunk_id) AS vectors,
    count(*) FILTER (WHERE v.chunk_id IS NULL AND letter.is_standing) AS letters,
    count(*) FILTER (WHERE v.chunk_id IS NULL AND letter.is_open) AS open_letters
FROM ingest.documents d JOIN ingest.chunks c USING (document_id, generation)
LEFT JOIN ingest.chunk_vectors v ON v.chunk_id = c.chunk_id AND v.embedding_model_version = %(version)s
CROSS JOIN LATERAL (
    SELECT count(*) > 0 AS is_standing, coalesce(bool_or(l.resolved_at IS NULL), false) AS is_open
    FROM ingest.dead_letters l
    WHERE l.chunk_id = c.chunk_id AND l.embedding_model_version = %(version)s
      AND (l.resolved_at IS NULL OR l.resolution = 'accepted')) letter
WHERE d.document_id = ANY (%(document_ids)s) AND d.status <> 'deleted'
GROUP BY d.document_id, d.generation ORDER BY d.document_id

-- name: delete_serving_rows
-- Take some documents out of a version's retrieval index.
DELETE FROM {serving} WHERE document_id = ANY (%(document_ids)s)

-- name: insert_serving_rows
-- Put the current generation of some documents into a version's retrieval index.
INSERT INTO {serving} (chunk_id, document_id, generation, chunk_index, source_key, text, heading, page_start, page_end,
    metadata, media_type, embedding)
SELECT c.chunk_id, d.document_id, d.generation, c.chunk_index, d.source_key, c.text, c.heading, c.page_start,
    c.page_end, d.metadata, d.media_type, v.embedding
FROM ingest.documents d JOIN ingest.chunks c USING (document_id, generation)
JOIN ingest.chunk_vectors v ON v.chunk_id = c.chunk_id AND v.embedding_model_version = %(version)s
WHERE d.document_id = ANY (%(document_ids)s)

-- name: upsert_publications
-- Record who is served what.
INSERT INTO serving.publications (document_id, embedding_model_version, generation, chunk_ids, positions, run_id)
SELECT d.document_id, %(version)s, d.generation, array_agg(c.chunk_id ORDER BY c.chunk_index),
    jsonb_agg(jsonb_build_object('index', c.chunk_index, 'char_start', c.char_start, 'char_end', c.char_end,
        'page_start', c.page_start, 'page_end', c.page_end, 'heading', c.heading) ORDER BY c.chunk_index), %(run_id)s
FROM ingest.documents d JOIN ingest.chunks c USING (document_id, generation)
JOIN ingest.chunk_vectors v ON v.chunk_id = c.chunk_id AND v.embedding_model_version = %(version)s
WHERE d.document_id = ANY (%(document_ids)s)
GROUP BY d.document_id, d.generation
ON CONFLICT (document_id, embedding_model_version) DO UPDATE SET
    generation = excluded.generation, chunk_ids = excluded.chunk_ids, positions = excluded.positions,
    run_id = excluded.run_id, published_at = now()

-- name: upsert_coverage
-- Record that every chunk of the current generation was dealt with at a version.
INSERT INTO ingest.embedding_coverage (document_id, embedding_model_version, generation, published, run_id)
SELECT d.document_id, %(version)s, d.generation, d.document_id = ANY (%(published_ids)s), %(run_id)s
FROM ingest.documents d WHERE d.document_id = ANY (%(document_ids)s)
ON CONFLICT (document_id, embedding_model_version) DO UPDATE SET
    generation = excluded.generation, published = excluded.published, run_id = excluded.run_id, completed_at = now()
