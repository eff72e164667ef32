-- The same search, for any text: Postgres refuses to read some as a question, such as a line of dashes.

-- What quotes, minus and OR ask of a passage; NULL where the text has none of them, and is a question or words. A small
-- "or" is a word of a question.
CREATE FUNCTION serving.required_words(query_text text) RETURNS tsquery
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog AS $$
DECLARE
    tidy CONSTANT text := regexp_replace(query_text, '(?<!\S)-+(?=\s|-|$)', ' ', 'g');
BEGIN
    IF tidy !~ '"|(^|\s)-\w|\mOR\M' THEN
        RETURN NULL;
    END IF;
    RETURN websearch_to_tsquery('simple', tidy);
EXCEPTION WHEN internal_error THEN  -- "tsquery stack too small"
    RETURN NULL;
END $$;
REVOKE EXECUTE ON FUNCTION serving.required_words FROM PUBLIC;
GRANT EXECUTE ON FUNCTION serving.required_words TO ingest_reader, ingest_writer;

-- The passages of one embedding model version that answer a question, best first. Runs with the rights of whoever calls
-- it. VOLATILE, so that each statement inside sees what was committed before it locked the table: with the snapshot of
-- the caller's statement, a table that was swapped in meanwhile would look empty.
CREATE OR REPLACE FUNCTION serving.search(
    query_vector vector DEFAULT NULL, query_text text DEFAULT NULL, k integer DEFAULT 10, filters jsonb DEFAULT '{}',
    mode text DEFAULT NULL, ef_search integer DEFAULT NULL, model_version text DEFAULT NULL,
    is_exact boolean DEFAULT false
) RETURNS TABLE (
    document text, document_id uuid, chunk_id uuid, score double precision, text text, page_start integer,
    page_end integer, heading text[], metadata jsonb, media_type text, version text
) LANGUAGE plpgsql VOLATILE ROWS 10 SET search_path = pg_catalog, public SET jit = off AS $$
DECLARE
    fusion_k CONSTANT integer := 60;  -- Cormack, Clarke and Buettcher, Reciprocal Rank Fusion, SIGIR 2009
    most_ranked CONSTANT integer := 5000;  -- passages of a word or a phrase; where more hold it, some of them
    served record;
    wanted text := coalesce(mode, CASE WHEN query_vector IS NULL THEN 'keyword' WHEN query_text IS NULL THEN 'vector'
                                       ELSE 'hybrid' END);
    depth integer;
    document_ids uuid[];
    required tsquery;
    words tsquery[];
    weights double precision[];
    condition CONSTANT text :=
        ' ($4::uuid[] IS NULL OR i.document_id = ANY ($4)) AND ($5::text IS NULL OR i.source_key ^@ $5)'
        ' AND ($6::text[] IS NULL OR i.media_type = ANY ($6)) AND ($7::jsonb IS NULL OR i.metadata @> $7)';
    ef_before text;
    scan_before text;
BEGIN
    PERFORM serving.check_question(query_vector, query_text, k, filters, wanted);
    SELECT m.* INTO served FROM serving.embedding_models m
    WHERE CASE WHEN model_version IS NULL THEN m.status = 'active' ELSE m.version = model_version END;
    IF NOT FOUND AND model_version IS NULL THEN
        RAISE EXCEPTION 'there is no active embedding model version' USING ERRCODE = 'no_data_found',
            HINT = 'The first declared version becomes active with its first publication.';
    ELSIF NOT FOUND THEN
        RAISE EXCEPTION 'there is no embedding model version %, or it is retired', model_version
            USING ERRCODE = 'no_data_found', HINT = 'serving.embedding_models lists those that may be asked.';
    ELSIF wanted <> 'keyword' AND vector_dims(query_vector) <> served.dimensions THEN
        RAISE EXCEPTION 'the query vector has % dimensions, but the % embedding model version % has %',
            vector_dims(query_vector), served.status, served.version, served.dimensions USING ERRCODE = 'data_exception',
            HINT = 'Embed the question with the model of that version, or name another in model_version.';
    END IF;
    depth := CASE WHEN wanted = 'hybrid' THEN greatest(2 * k, 50) ELSE k END;
    IF filters ? 'document' THEN
        document_ids := serving.find_documents(served.number, serving.texts_of(filters -> 'document'));
    END IF;
    IF wanted <> 'vector' THEN
        required := serving.required_words(query_text);
        IF required IS NULL THEN
            SELECT array_agg(w.word), array_agg(w.weight) INTO words, weights
            FROM serving.weigh_words(served.number, query_text) w;
        END IF;
    END IF;
    ef_before := current_setting('hnsw.ef_search', true);
    scan_before := current_setting('hnsw.iterative_scan', true);
    PERFORM set_config('hnsw.ef_search', coalesce(ef_search, least(greatest(depth, 200), 1000))::text, true);
    IF scan_before IS NOT NULL THEN  -- pgvector 0.8 and later: goes on until enough rows pass the filters
        PERFORM set_config('hnsw.iterative_scan', 'strict_order', true);
    END IF;
    -- An index scan ends early where few rows pass the filters, and then all of those are looked at; adding nothing to
    -- the distance keeps the index out of it. Ties are ordered outside: an index gives rows by distance only.
    RETURN QUERY EXECUTE format(
        'WITH near AS MATERIALIZED ('
        '  SELECT i.chunk_id, i.embedding <=> $1::%2$s AS distance FROM %1$s i'
        '  WHERE $3 <> ''keyword'' AND NOT $12 AND %3$s ORDER BY i.embedding <=> $1::%2$s LIMIT $2'
        '), every AS ('
        '  SELECT i.chunk_id, i.embedding <=> $1::%2$s AS distance FROM %1$s i'
        '  WHERE $3 <> ''keyword'' AND (SELECT count(*) FROM near) < $2 AND %3$s'
        '  ORDER BY (i.embedding <=> $1::%2$s) + 0, i.chunk_id LIMIT $2'
        '), matched AS ('
        '  SELECT h.chunk_id, ts_rank_cd(h.tsv, $10, 1)::double precision AS relevance FROM ('
        '    SELECT i.chunk_id, i.tsv FROM %1$s i WHERE $3 <> ''vector'' AND i.tsv @@ $10 AND %3$s LIMIT $15'
        '  ) h'
        '  UNION ALL'
        '  SELECT h.chunk_id, sum(w.weight * h.frequency) FROM unnest($8, $9) AS w (word, weight) CROSS JOIN LATERAL ('
        '    SELECT i.chunk_id, ts_rank(i.tsv, w.word, 1) * 10 AS frequency FROM %1$s i'
        '    WHERE $3 <> ''vector'' AND i.tsv @@ w.word AND %3$s LIMIT $15'
        '  ) h GROUP BY h.chunk_id'
        '), ranked AS ('
        '  SELECT n.chunk_id, 1 - n.distance AS own, row_number() OVER (ORDER BY n.distance, n.chunk_id) AS place FROM ('
        '    SELECT * FROM near WHERE (SELECT count(*) FROM near) >= $2 UNION ALL SELECT * FROM every) n'
        '  UNION ALL'
        '  (SELECT m.chunk_id, m.relevance, row_number() OVER (ORDER BY m.relevance DESC, m.chunk_id) FROM matched m'
        '   ORDER BY m.relevance DESC, m.chunk_id LIMIT $2)'
        '), best AS ('
        '  SELECT r.chunk_id, CASE WHEN $3 = ''hybrid'' THEN sum(1.0 / ($13 + r.place)) ELSE max(r.own) END'
        '    ::double precision AS score'
        '  FROM ranked r GROUP BY r.chunk_id ORDER BY 2 DESC, 1 LIMIT $11'
        ') '
        'SELECT i.source_key, i.document_id, i.chunk_id, b.score, i.text, i.page_start, i.page_end, i.heading,'
        '  i.metadata, i.media_type, $14 FROM best b JOIN %1$s i USING (chunk_id) ORDER BY b.score DESC, i.chunk_id',
        format('serving.index_%s', served.number),
        format('%s(%s)', CASE WHEN served.dimensions > 2000 THEN 'halfvec' ELSE 'vector' END, served.dimensions),
        condition)
        USING query_vector, depth, wanted, document_ids, filters ->> 'key_prefix',
            serving.texts_of(filters -> 'media_type'), filters -> 'metadata', words, weights, required, k, is_exact, fusion_k,
            served.version, most_ranked;
    PERFORM set_config('hnsw.ef_search', coalesce(ef_before, '40'), true);
    IF scan_before IS NOT NULL THEN
        PERFORM set_config('hnsw.iterative_scan', scan_before, true);
    END IF;
END $$;
