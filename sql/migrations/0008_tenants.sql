-- Row-level security of the serving tables by a metadata key, where the settings name one.
CREATE TABLE ingest.tenant_policy (
    is_this boolean PRIMARY KEY DEFAULT true CHECK (is_this),
    metadata_key text NOT NULL
);

-- Which role reads the passages of which tenant. NULL: of the one that `SET ingest.tenant` names, for an application that
-- serves many tenants over one login.
CREATE TABLE serving.tenant_readers (
    role_name name NOT NULL,
    tenant text,
    UNIQUE NULLS NOT DISTINCT (role_name, tenant)
);
ALTER TABLE serving.tenant_readers ENABLE ROW LEVEL SECURITY;
CREATE POLICY readers_know_themselves ON serving.tenant_readers FOR SELECT TO ingest_reader USING (
    EXISTS (SELECT FROM pg_roles r WHERE r.rolname = role_name AND pg_has_role(r.oid, 'USAGE')));
GRANT SELECT ON serving.tenant_readers TO ingest_reader;
REVOKE INSERT, UPDATE, DELETE ON serving.tenant_readers FROM ingest_writer;

-- The tenants whose passages the current role may read; none where nobody said so.
CREATE FUNCTION serving.visible_tenants() RETURNS text[] LANGUAGE sql STABLE SET search_path = pg_catalog AS $$
    SELECT coalesce(array_agg(DISTINCT v.tenant), '{}') FROM (
        SELECT coalesce(r.tenant, s.named) AS tenant, s.named
        FROM serving.tenant_readers r CROSS JOIN (SELECT nullif(current_setting('ingest.tenant', true), '') AS named) s
    ) v WHERE v.tenant IS NOT NULL AND (v.named IS NULL OR v.tenant = v.named)
$$;
REVOKE EXECUTE ON FUNCTION serving.visible_tenants FROM PUBLIC;
GRANT EXECUTE ON FUNCTION serving.visible_tenants TO ingest_reader, ingest_writer;

-- Bring one serving table under the policy that is in force, or out of it. Its owner, who publishes, is not bound.
CREATE FUNCTION ingest.apply_tenant_policy(relation regclass) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    tenant_key text := (SELECT metadata_key FROM ingest.tenant_policy);
    old regclass;
BEGIN
    EXECUTE format('DROP POLICY IF EXISTS readers_see_their_tenants ON %s', relation);
    EXECUTE format('DROP POLICY IF EXISTS writers_see_all ON %s', relation);
    FOR old IN SELECT i.indexrelid FROM pg_index i WHERE i.indrelid = relation
               AND pg_get_expr(i.indexprs, i.indrelid) LIKE '(metadata ->> %' LOOP
        EXECUTE format('DROP INDEX %s', old);
    END LOOP;
    IF tenant_key IS NULL THEN
        EXECUTE format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY', relation);
        RETURN;
    END IF;
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', relation);
    EXECUTE format('CREATE POLICY writers_see_all ON %s TO ingest_writer USING (true) WITH CHECK (true)', relation);
    -- Publications name documents and headings but no tenant: readers need none of them, and see none.
    IF relation <> 'serving.publications'::regclass THEN
        EXECUTE format('CREATE INDEX ON %s ((metadata ->> %L))', relation, tenant_key);
        EXECUTE format('CREATE POLICY readers_see_their_tenants ON %s FOR SELECT TO ingest_reader'
                       ' USING ((metadata ->> %L) = ANY ((SELECT serving.visible_tenants())::text[]))',
                       relation, tenant_key);
    END IF;
END $$;

-- Put a metadata key in force, or none, on every serving table at once.
CREATE FUNCTION ingest.set_tenant_key(tenant_key text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    relation regclass;
BEGIN
    LOCK TABLE ingest.embedding_models, ingest.tenant_policy IN SHARE ROW EXCLUSIVE MODE;
    DELETE FROM ingest.tenant_policy;
    INSERT INTO ingest.tenant_policy (metadata_key) SELECT tenant_key WHERE tenant_key IS NOT NULL;
    FOR relation IN SELECT c.oid FROM pg_class c WHERE c.relnamespace = 'serving'::regnamespace AND c.relkind IN ('r', 'p')
                    AND (c.relname ~ '^index_' OR c.relname = 'publications') ORDER BY c.relname LOOP
        PERFORM ingest.apply_tenant_policy(relation);
    END LOOP;
END $$;

-- What protects is not for writers to change. Operators also read what was spent, and close letters without rewriting them.
REVOKE INSERT, UPDATE, DELETE ON ingest.tenant_policy FROM ingest_writer;
GRANT SELECT ON ingest.embedding_spend, ingest.embedding_coverage TO ingest_operator;
REVOKE UPDATE ON ingest.dead_letters FROM ingest_operator;
GRANT UPDATE (resolved_at, resolution) ON ingest.dead_letters TO ingest_operator;
