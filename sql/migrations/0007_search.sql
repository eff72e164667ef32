-- Search for applications: vector, keyword and hybrid, with filters.

-- Versions that may be asked; readers need no other schema.
CREATE VIEW serving.embedding_models AS
    SELECT version, number, dimensions, status FROM ingest.embedding_models WHERE status <> 'retired';
GRANT SELECT ON serving.embedding_models TO ingest_reader, ingest_writer;

-- What filters need; new tables are made with it.
DO $$
DECLARE
    served record;
BEGIN
    FOR served IN SELECT m.number, format('serving.index_%s', m.number) AS name FROM ingest.embedding_models m
                  WHERE to_regclass(format('serving.index_%s', m.number)) IS NOT NULL LOOP
        EXECUTE format('ALTER TABLE %s ADD COLUMN media_type text', served.name);
        EXECUTE format('UPDATE %s i SET media_type = d.media_type FROM ingest.documents d'
                       ' WHERE d.document_id = i.document_id', served.name);
        EXECUTE format('CREATE INDEX ON %s (source_key text_pattern_ops)', served.name);
        EXECUTE format('CREATE INDEX ON %s USING gin (metadata jsonb_path_ops)', served.name);
    END LOOP;
END $$;

-- The words of a question and how much each tells: the inverse document frequency of BM25 (Robertson and Zaragoza, The
-- Probabilistic Relevance Framework, 2009). A word in 2,000 passages or more tells nothing, unless there is no other.
CREATE FUNCTION serving.weigh_words(index_number integer, query_text text)
RETURNS TABLE (word tsquery, weight double precision) LANGUAGE plpgsql SET search_path = pg_catalog, public AS $$
DECLARE
    common CONSTANT integer := 2000;
    longest CONSTANT integer := 32;  -- words of a question
BEGIN
    RETURN QUERY EXECUTE format(
        'WITH counted AS ('
        '  SELECT l.word, c.found FROM ('
        '    SELECT (quote_literal(replace(lexeme, ''\'', '''')))::tsquery AS word'
        '    FROM unnest(to_tsvector(''simple'', $1)) ORDER BY positions[1] LIMIT $3'
        '  ) l CROSS JOIN LATERAL ('
        '    SELECT count(*)::double precision AS found FROM (SELECT FROM %1$s i WHERE i.tsv @@ l.word LIMIT $2) h'
        '  ) c WHERE c.found > 0'
        '), size AS ('
        '  SELECT greatest(max(c.found), (SELECT reltuples FROM pg_class WHERE oid = %1$L::regclass)) AS passages'
        '  FROM counted c'
        ') '
        'SELECT c.word, ln(1 + (s.passages - c.found + 0.5) / (c.found + 0.5)) FROM counted c CROSS JOIN size s '
        'WHERE c.found < $2 OR NOT EXISTS (SELECT FROM counted r WHERE r.found < $2)',
        format('serving.index_%s', index_number)) USING query_text, common, longest;
END $$;

DROP FUNCTION serving.search;

-- The passages of one embedding model version that answer a question, best first. Runs with the rights of whoever calls
-- it. VOLATILE, so that each statement inside sees what was committed before it locked the table: with the snapshot of
-- the caller's statement, a table that was swapped in meanwhile would look empty.
CREATE FUNCTION serving.search(
    query_vector vector DEFAULT NULL, query_text text DEFAULT NULL, k integer DEFAULT 10, filters jsonb DEFAULT '{}',
    mode text DEFAULT NULL, ef_search integer DEFAULT NULL, model_version text DEFAULT NULL,
    is_exact boolean DEFAULT false
) RETURNS TABLE (
    document text, document_id uuid, chunk_id uuid, score double precision, text text, page_start integer,
    page_end integer, heading text[], metadata jsonb, media_type text, version text
) LANGUAGE plpgsql VOLATILE ROWS 10 SET search_path = pg_catalog, public AS $$
DECLARE
    fusion_k CONSTANT integer := 60;  -- Cormack, Clarke and Buettcher, Reciprocal Rank Fusion, SIGIR 2009
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
        required := websearch_to_tsquery('simple', query_text);
        IF required = plainto_tsquery('simple', query_text) THEN
            required := NULL;  -- no quotes, no minus, no or: passages that lack some of the words count too
            SELECT array_agg(w.word), array_agg(w.weight) INTO words, weights
            FROM serving.weigh_words(served.number, query_text) w;
        END IF;
    END IF;
    ef_before := current_setting('hnsw.ef_search', true);
    scan_before := current_setting('hnsw.iterative_scan', true);
    PERFORM set_config('hnsw.ef_search', coalesce(ef_search, least(greatest(depth, 100), 1000))::text, true);
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
        '  SELECT i.chunk_id, ts_rank_cd(i.tsv, $10, 1)::double precision AS relevance FROM %1$s i'
        '  WHERE $3 <> ''vector'' AND i.tsv @@ $10 AND %3$s'
        '  UNION ALL'
        '  SELECT h.chunk_id, sum(w.weight * h.frequency) FROM unnest($8, $9) AS w (word, weight) CROSS JOIN LATERAL ('
        '    SELECT i.chunk_id, ts_rank(i.tsv, w.word, 1) * 10 AS frequency FROM %1$s i'
        '    WHERE $3 <> ''vector'' AND i.tsv @@ w.word AND %3$s'
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
            served.version;
    PERFORM set_config('hnsw.ef_search', coalesce(ef_before, '40'), true);
    IF scan_before IS NOT NULL THEN
        PERFORM set_config('hnsw.iterative_scan', scan_before, true);
    END IF;
END $$;

-- One text or a list of texts, as a list.
CREATE FUNCTION serving.texts_of(value jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE SET search_path = pg_catalog AS $$
    SELECT CASE jsonb_typeof(value)
        WHEN 'string' THEN ARRAY[value #>> '{}']
        WHEN 'array' THEN ARRAY(SELECT jsonb_array_elements_text(value)) END
$$;

-- Documents by key, id or source URI (of which the id is derived); unknown names find nothing.
CREATE FUNCTION serving.find_documents(index_number integer, names text[]) RETURNS uuid[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog AS $$
DECLARE
    found uuid[];
BEGIN
    EXECUTE format('SELECT array_agg(DISTINCT i.document_id) FROM serving.index_%s i WHERE i.source_key = ANY ($1)',
                   index_number) INTO found USING names;
    RETURN coalesce(found, '{}') || ARRAY(
        SELECT n::uuid FROM unnest(names) n WHERE n ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
        UNION ALL
        SELECT encode(substr(sha256(convert_to(n, 'UTF8')), 1, 16), 'hex')::uuid FROM unnest(names) n);
END $$;

-- Refuse a question that means nothing, with what to write instead.
CREATE FUNCTION serving.check_question(
    query_vector vector, query_text text, k integer, filters jsonb, mode text
) RETURNS void LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, public AS $$
DECLARE
    known CONSTANT text[] := ARRAY['document', 'key_prefix', 'media_type', 'metadata'];
    problem text;
BEGIN
    problem := CASE
        WHEN mode NOT IN ('vector', 'keyword', 'hybrid') THEN format('mode is vector, keyword or hybrid, not %s', mode)
        WHEN mode <> 'keyword' AND query_vector IS NULL THEN format('a search by %s needs query_vector', mode)
        WHEN mode <> 'vector' AND query_text IS NULL THEN format('a search by %s needs query_text', mode)
        WHEN mode <> 'keyword' AND vector_norm(query_vector) = 0 THEN 'query_vector is zero and points nowhere'
        WHEN k IS NULL OR k < 1 THEN format('k is at least 1, not %s', coalesce(k::text, 'null'))
        WHEN filters IS NULL OR jsonb_typeof(filters) <> 'object' THEN 'filters is a JSON object; leave it out for none'
    END;
    IF problem IS NULL THEN
        SELECT CASE
            WHEN f.key <> ALL (known)
                THEN format('there is no filter %s; filters are %s', f.key, array_to_string(known, ', '))
            WHEN f.key = 'metadata' AND jsonb_typeof(f.value) <> 'object' THEN 'the filter metadata is a JSON object'
            WHEN f.key = 'key_prefix' AND jsonb_typeof(f.value) <> 'string' THEN 'the filter key_prefix is one text'
            WHEN f.key IN ('document', 'media_type') AND serving.texts_of(f.value) IS NULL
                THEN format('the filter %s is a text or a list of texts', f.key) END INTO problem
        FROM jsonb_each(filters) f ORDER BY 1 LIMIT 1;
    END IF;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION '%', problem USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;

REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA serving FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA serving TO ingest_reader, ingest_writer;
