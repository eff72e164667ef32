-- Embedding model versions, their vectors, and what runs hold while they work.
CREATE TABLE ingest.embedding_models (
    version text PRIMARY KEY CHECK (version ~ '^[A-Za-z0-9._-]{1,64}$' AND version !~ '\.\.'),
    -- Names the version's tables: labels may be longer than an identifier.
    number integer GENERATED ALWAYS AS IDENTITY UNIQUE,
    provider text NOT NULL,
    model text NOT NULL,
    dimensions integer NOT NULL CHECK (dimensions BETWEEN 1 AND 4000),
    fingerprint jsonb NOT NULL,
    canary jsonb NOT NULL DEFAULT '[]',
    status text NOT NULL DEFAULT 'building' CHECK (status IN ('building', 'active', 'retired')),
    declared_at timestamptz NOT NULL DEFAULT now(),
    activated_at timestamptz,
    retired_at timestamptz
);

CREATE TABLE ingest.chunk_vectors (
    chunk_id uuid NOT NULL REFERENCES ingest.chunks ON DELETE CASCADE,
    embedding_model_version text NOT NULL,
    text_sha256 bytea NOT NULL,
    embedding vector NOT NULL,
    embedded_at timestamptz NOT NULL DEFAULT now(),
    run_id text NOT NULL,
    PRIMARY KEY (chunk_id, embedding_model_version)
) PARTITION BY LIST (embedding_model_version);
CREATE INDEX chunk_vectors_text ON ingest.chunk_vectors (embedding_model_version, text_sha256);
ALTER TABLE ingest.chunk_vectors ALTER COLUMN embedding SET STORAGE EXTERNAL;

CREATE TABLE ingest.embedding_coverage (
    document_id uuid NOT NULL REFERENCES ingest.documents ON DELETE CASCADE,
    embedding_model_version text NOT NULL REFERENCES ingest.embedding_models ON DELETE CASCADE,
    generation bigint NOT NULL,
    published boolean NOT NULL,
    run_id text NOT NULL,
    completed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (document_id, embedding_model_version)
);

CREATE TABLE ingest.run_leases (
    run_id text PRIMARY KEY,
    host text NOT NULL,
    pid integer NOT NULL,
    process_started_at double precision NOT NULL,
    expires_at timestamptz NOT NULL
);

CREATE TABLE ingest.embedding_claims (
    embedding_model_version text NOT NULL,
    text_sha256 bytea NOT NULL,
    run_id text NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (embedding_model_version, text_sha256)
);
CREATE INDEX embedding_claims_run ON ingest.embedding_claims (run_id);

CREATE TABLE ingest.embedding_attempts (
    embedding_model_version text NOT NULL,
    text_sha256 bytea NOT NULL,
    attempts integer NOT NULL,
    last_error text NOT NULL,
    next_at timestamptz NOT NULL,
    PRIMARY KEY (embedding_model_version, text_sha256)
);

CREATE TABLE ingest.embedding_runs (
    run_id text NOT NULL,
    embedding_model_version text NOT NULL,
    lane text NOT NULL CHECK (lane IN ('incremental', 'backfill')),
    watermark pg_snapshot NOT NULL,
    planned_units bigint NOT NULL,
    planned_tokens bigint NOT NULL,
    estimated_cost double precision,
    reused bigint NOT NULL DEFAULT 0,
    embedded bigint NOT NULL DEFAULT 0,
    dead_lettered bigint NOT NULL DEFAULT 0,
    left_to_others bigint NOT NULL DEFAULT 0,
    vanished bigint NOT NULL DEFAULT 0,
    sent_tokens bigint NOT NULL DEFAULT 0,
    rate_limited_responses bigint NOT NULL DEFAULT 0,
    started_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    PRIMARY KEY (run_id, embedding_model_version)
);

CREATE TABLE ingest.rate_budgets (
    account text PRIMARY KEY,
    -- Theoretical arrival times of the generic cell rate algorithm, one pair per lane.
    requests_at timestamptz NOT NULL DEFAULT '-infinity',
    tokens_at timestamptz NOT NULL DEFAULT '-infinity',
    backfill_requests_at timestamptz NOT NULL DEFAULT '-infinity',
    backfill_tokens_at timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50);

-- The work queue of a version: current chunks inside the watermark without a vector and without a standing dead letter.
-- NULL document ids mean every document.
CREATE FUNCTION ingest.embedding_queue(model_version text, watermark pg_snapshot, document_ids uuid[])
RETURNS TABLE (chunk_id uuid, document_id uuid, text_sha256 bytea, token_count integer)
LANGUAGE sql STABLE AS $$
    SELECT c.chunk_id, c.document_id, c.text_sha256, c.token_count
    FROM ingest.documents d
    JOIN ingest.chunks c ON c.document_id = d.document_id AND c.generation = d.generation
    WHERE (document_ids IS NULL OR d.document_id = ANY (document_ids))
      AND pg_visible_in_snapshot(c.created_xid, watermark)
      AND NOT EXISTS (
          SELECT FROM ingest.chunk_vectors v
          WHERE v.chunk_id = c.chunk_id AND v.embedding_model_version = model_version
            AND v.text_sha256 = c.text_sha256)
      AND NOT EXISTS (
          SELECT FROM ingest.dead_letters l
          WHERE l.chunk_id = c.chunk_id AND l.embedding_model_version = model_version
            AND (l.resolved_at IS NULL OR l.resolution = 'accepted'))
$$;
