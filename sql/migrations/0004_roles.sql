-- Three roles without login; grant them to the users of a deployment. Roles belong to the whole server, so they may exist.
DO $$
DECLARE
    role_name text;
BEGIN
    FOREACH role_name IN ARRAY ARRAY['ingest_writer', 'ingest_operator', 'ingest_reader'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role_name) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', role_name);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL;  -- another database of this server was migrated at the same moment
            END;
        END IF;
    END LOOP;
END $$;

GRANT USAGE ON SCHEMA ingest, serving TO ingest_writer;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ingest, serving TO ingest_writer;
ALTER DEFAULT PRIVILEGES IN SCHEMA serving GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO ingest_writer;
ALTER DEFAULT PRIVILEGES IN SCHEMA ingest GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO ingest_writer;

GRANT USAGE ON SCHEMA ingest TO ingest_operator;
GRANT SELECT, UPDATE ON ingest.dead_letters TO ingest_operator;
GRANT SELECT ON ingest.document_status, ingest.embedding_models, ingest.embedding_runs, ingest.source_listings,
    ingest.deletion_receipts TO ingest_operator;

GRANT USAGE ON SCHEMA serving TO ingest_reader;
GRANT SELECT ON serving.active_model, serving.publications TO ingest_reader;
ALTER DEFAULT PRIVILEGES IN SCHEMA serving GRANT SELECT ON TABLES TO ingest_reader;
REVOKE EXECUTE ON FUNCTION serving.search FROM PUBLIC;
GRANT EXECUTE ON FUNCTION serving.search TO ingest_reader, ingest_writer;
