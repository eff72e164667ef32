-- Search where there are many passages.

-- Compiling a search takes longer than the search.
ALTER FUNCTION serving.search SET jit = off;

-- Every search of a word reads the pending list of the index from end to end: a short one. New tables are made with it.
DO $$
DECLARE
    index regclass;
BEGIN
    FOR index IN SELECT c.oid FROM pg_class c JOIN pg_am a ON a.oid = c.relam JOIN pg_index i ON i.indexrelid = c.oid
                 WHERE a.amname = 'gin' AND i.indrelid::regclass::text ~ '^serving\.index_' LOOP
        EXECUTE format('ALTER INDEX %s SET (gin_pending_list_limit = 64)', index);
    END LOOP;
END $$;

-- As before, and words that the planner's statistics know as common are not counted: of "the" there are too many. Under
-- row-level security readers are shown no statistics, and every word is counted.
CREATE OR REPLACE FUNCTION serving.weigh_words(index_number integer, query_text text)
RETURNS TABLE (word tsquery, weight double precision)
LANGUAGE plpgsql SET search_path = pg_catalog, public SET jit = off AS $$
DECLARE
    common CONSTANT integer := 2000;
    longest CONSTANT integer := 32;  -- words of a question
    known CONSTANT text[] := ARRAY(
        SELECT e.word FROM pg_stats s JOIN pg_class c
            ON c.relnamespace = 'serving'::regnamespace AND c.relname = s.tablename
        CROSS JOIN LATERAL unnest(s.most_common_elems::text::text[], s.most_common_elem_freqs) AS e (word, share)
        WHERE s.schemaname = 'serving' AND s.tablename = format('index_%s', index_number) AND s.attname = 'tsv'
          AND e.share * c.reltuples >= 2 * common);  -- twice, since it is an estimate
BEGIN
    RETURN QUERY EXECUTE format(
        'WITH counted AS ('
        '  SELECT l.word, CASE WHEN l.is_known THEN $2 ELSE ('
        '    SELECT count(*) FROM (SELECT FROM %1$s i WHERE i.tsv @@ l.word LIMIT $2) h'
        '  ) END::double precision AS found FROM ('
        '    SELECT quote_literal(replace(lexeme, ''\'', ''''))::tsquery AS word, lexeme = ANY ($4) AS is_known'
        '    FROM unnest(to_tsvector(''simple'', $1)) ORDER BY positions[1] LIMIT $3'
        '  ) l'
        '), size AS ('
        '  SELECT greatest(max(c.found), (SELECT reltuples FROM pg_class WHERE oid = %1$L::regclass)) AS passages'
        '  FROM counted c'
        ') '
        'SELECT c.word, ln(1 + (s.passages - c.found + 0.5) / (c.found + 0.5)) FROM counted c CROSS JOIN size s '
        'WHERE c.found > 0 AND (c.found < $2 OR NOT EXISTS (SELECT FROM counted r WHERE r.found BETWEEN 1 AND $2 - 1))',
        format('serving.index_%s', index_number)) USING query_text, common, longest, known;
END $$;
