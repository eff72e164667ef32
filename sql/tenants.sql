-- Row-level security of the serving tables.

-- name: select_tenant_key
-- The metadata key in force, and whether a serving table lies open all the same; no row without row-level security.
SELECT p.metadata_key, EXISTS (
    SELECT FROM pg_class c WHERE c.relnamespace = 'serving'::regnamespace AND c.relkind IN ('r', 'p')
      AND (c.relname ~ '^index_' OR c.relname = 'publications') AND NOT c.relrowsecurity) AS is_open
FROM ingest.tenant_policy p

-- name: set_tenant_key
-- Put a key in force on every serving table, or none.
SELECT ingest.set_tenant_key(%(tenant_key)s)

-- name: apply_tenant_policy
-- Bring a new serving table under the policy in force.
SELECT ingest.apply_tenant_policy(%(serving)s::regclass)

-- name: bound_lock_wait
-- A statement that waits for a reader would make everybody behind it wait too.
SET LOCAL lock_timeout = '2s'
