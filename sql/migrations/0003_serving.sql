-- What readers see: one table per embedding model version (made when the version is declared), and who is served what.
CREATE TABLE serving.publications (
    document_id uuid NOT NULL,
    embedding_model_version text NOT NULL,
    generation bigint NOT NULL,
    chunk_ids uuid[] NOT NULL,
    -- One object per chunk id, in the same order: index, char_start, char_end, page_start, page_end, heading.
    positions jsonb NOT NULL,
    run_id text NOT NULL,
    published_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (document_id, embedding_model_version)
);
CREATE INDEX publications_chunks ON serving.publications USING gin (chunk_ids);

CREATE VIEW serving.active_model AS
    SELECT version, number, dimensions FROM ingest.embedding_models WHERE status = 'active';
CREATE UNIQUE INDEX one_active_model ON ingest.embedding_models ((true)) WHERE status = 'active';

-- The table that serves a version: serving.index_<number>.
CREATE FUNCTION serving.search(
    query_embedding vector, k integer DEFAULT 10, model_version text DEFAULT NULL
) RETURNS TABLE (
    document text, document_id uuid, chunk_id uuid, score double precision, text text,
    page_start integer, page_end integer, heading text[], metadata jsonb
) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
DECLARE
    served record;
BEGIN
    SELECT m.version, m.number, m.dimensions INTO served FROM ingest.embedding_models m
    WHERE m.status <> 'retired' AND CASE WHEN model_version IS NULL THEN m.status = 'active'
                                         ELSE m.version = model_version END;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no %', coalesce('embedding model version ' || model_version, 'active embedding model version')
            USING ERRCODE = 'no_data_found';
    END IF;
    IF vector_dims(query_embedding) <> served.dimensions THEN
        RAISE EXCEPTION 'the query vector has % dimensions, but % has %',
            vector_dims(query_embedding), served.version, served.dimensions USING ERRCODE = 'data_exception';
    END IF;
    -- HNSW returns at most ef_search rows, and fewer where rows it found were deleted: look for as many as are asked for.
    PERFORM set_config('hnsw.ef_search', least(greatest(k, 40), 1000)::text, true);
    IF current_setting('hnsw.iterative_scan', true) IS NOT NULL THEN  -- pgvector 0.8 and later
        PERFORM set_config('hnsw.iterative_scan', 'strict_order', true);
    END IF;
    -- Ties are ordered outside: an index gives rows by distance only.
    RETURN QUERY EXECUTE format(
        'SELECT n.source_key, n.document_id, n.chunk_id, 1 - n.distance, n.text, n.page_start, n.page_end, n.heading,'
        ' n.metadata FROM ('
        '  SELECT i.*, i.embedding <=> $1::%1$s(%2$s) AS distance FROM serving.index_%3$s i'
        '  ORDER BY i.embedding <=> $1::%1$s(%2$s) LIMIT $2'
        ' ) n ORDER BY n.distance, n.chunk_id',
        CASE WHEN served.dimensions > 2000 THEN 'halfvec' ELSE 'vector' END, served.dimensions, served.number)
        USING query_embedding, k;
END $$;

-- Every document that is not a tombstone, judged at the active version (before one exists, at the first declared).
CREATE VIEW ingest.document_status AS
WITH judged AS (
    -- A version that was declared once and never used has no coverage, and judges nothing.
    SELECT m.version FROM ingest.embedding_models m WHERE m.status <> 'retired'
    ORDER BY (m.status = 'active') DESC,
        EXISTS (SELECT FROM ingest.embedding_coverage e WHERE e.embedding_model_version = m.version) DESC, m.number
    LIMIT 1
)
SELECT d.document_id, d.source_key, d.partition_key, d.source_uri, d.generation, judged.version,
    CASE
        WHEN d.status = 'deleted' THEN 'deleted'
        WHEN d.status = 'rejected' THEN 'rejected'
        WHEN d.status = 'discovered' OR (d.seen_etag, d.seen_size_bytes) IS DISTINCT FROM (d.etag, d.size_bytes) THEN 'pending'
        WHEN coverage.generation IS DISTINCT FROM d.generation THEN 'processing'
        WHEN letters.n > 0 OR NOT coverage.published THEN 'partial'
        ELSE 'complete'
    END AS status,
    coalesce(chunks.n, 0) AS chunks,
    coalesce(letters.n, 0) AS dead_letters,
    publication.generation AS published_generation
FROM ingest.documents d
LEFT JOIN judged ON true
LEFT JOIN ingest.embedding_coverage coverage
    ON coverage.document_id = d.document_id AND coverage.embedding_model_version = judged.version
LEFT JOIN serving.publications publication
    ON publication.document_id = d.document_id AND publication.embedding_model_version = judged.version
LEFT JOIN LATERAL (
    SELECT count(*) AS n FROM ingest.chunks c WHERE c.document_id = d.document_id AND c.generation = d.generation
) chunks ON true
LEFT JOIN LATERAL (
    SELECT count(*) AS n FROM ingest.dead_letters l
    WHERE l.document_id = d.document_id AND (l.resolved_at IS NULL OR l.resolution = 'accepted')
      AND l.embedding_model_version = judged.version
      AND EXISTS (SELECT FROM ingest.chunks c WHERE c.chunk_id = l.chunk_id AND c.generation = d.generation)
) letters ON true;
