-- Documents, chunks and what is given up on.
CREATE EXTENSION IF NOT EXISTS vector;
CREATE SCHEMA ingest;
CREATE SCHEMA serving;

-- lz4 writes long texts several times faster than pglz, but not every server is built with it.
CREATE FUNCTION ingest.prefer_lz4(relation regclass, column_name name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET COMPRESSION lz4', relation, column_name);
EXCEPTION WHEN feature_not_supported OR invalid_parameter_value THEN
    NULL;
END $$;

-- The server that the transaction ids in this database are of.
CREATE TABLE ingest.server (
    is_this boolean PRIMARY KEY DEFAULT true CHECK (is_this),
    system_identifier bigint NOT NULL
);

CREATE TABLE ingest.documents (
    document_id uuid PRIMARY KEY,
    source_uri text NOT NULL,
    source_key text NOT NULL,
    partition_key text NOT NULL UNIQUE,
    -- The state of the object as the last listing or hint saw it.
    seen_etag text,
    seen_size_bytes bigint,
    seen_last_modified timestamptz,
    seen_at timestamptz,
    missing_since timestamptz,
    -- Of a missing document: what the shrink guard said of its deletion; NULL until a complete listing has judged it.
    deletion text CHECK (deletion IN ('allowed', 'withheld')),
    -- The state that was last read and decided on: accepted or rejected.
    etag text,
    size_bytes bigint,
    last_modified timestamptz,
    source_version text,
    content_sha256 bytea,
    extractor_version text,
    -- The last accepted text.
    media_type text,
    text text,
    text_sha256 bytea,
    chunked_text_sha256 bytea,
    chunker_version text,
    pages jsonb NOT NULL DEFAULT '[]',
    headings jsonb NOT NULL DEFAULT '[]',
    warnings jsonb NOT NULL DEFAULT '[]',
    metadata jsonb NOT NULL DEFAULT '{}',
    generation bigint NOT NULL DEFAULT 0,
    status text NOT NULL DEFAULT 'discovered'
        CHECK (status IN ('discovered', 'accepted', 'rejected', 'deleted')),
    attempts integer NOT NULL DEFAULT 0,
    retry_after timestamptz,
    first_seen_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    -- The id is derived from the URI, so this makes the URI unique too, at any length
    -- (a unique index refuses values over 2,704 bytes).
    CONSTRAINT document_id_is_derived CHECK (
        document_id = encode(substr(sha256(convert_to(source_uri, 'UTF8')), 1, 16), 'hex')::uuid
    ),
    CONSTRAINT accepted_has_text CHECK (status <> 'accepted' OR (text IS NOT NULL AND generation > 0))
);
SELECT ingest.prefer_lz4('ingest.documents', 'text');
CREATE INDEX documents_missing ON ingest.documents (missing_since) WHERE missing_since IS NOT NULL;

CREATE TABLE ingest.chunks (
    chunk_id uuid PRIMARY KEY,
    document_id uuid NOT NULL REFERENCES ingest.documents ON DELETE CASCADE,
    generation bigint NOT NULL,
    chunk_index integer NOT NULL,
    text text NOT NULL,
    text_sha256 bytea NOT NULL,
    token_count integer NOT NULL CHECK (token_count > 0),
    char_start integer NOT NULL,
    char_end integer NOT NULL CHECK (char_end > char_start),
    page_start integer,
    page_end integer,
    heading text[] NOT NULL DEFAULT '{}',
    created_xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (document_id, generation, chunk_index)
);
SELECT ingest.prefer_lz4('ingest.chunks', 'text');
CREATE INDEX chunks_text ON ingest.chunks (text_sha256);

CREATE TABLE ingest.dead_letters (
    dead_letter_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    document_id uuid NOT NULL REFERENCES ingest.documents ON DELETE CASCADE,
    -- Not a foreign key: a letter outlives the chunk it speaks of.
    chunk_id uuid,
    embedding_model_version text,
    stage text NOT NULL CHECK (stage IN ('fetch', 'extract', 'chunk', 'embed')),
    reason text NOT NULL CHECK (reason IN (
        'encrypted', 'no_text_layer', 'empty_document', 'unsupported_type', 'corrupt', 'too_large', 'timeout',
        'garbled_text', 'archived', 'access_denied', 'not_found', 'over_length', 'content_rejected',
        'invalid_request', 'invalid_vector', 'dimension_mismatch', 'attempts_exhausted'
    )),
    detail text NOT NULL,
    attempts integer NOT NULL DEFAULT 1,
    run_id text NOT NULL,
    first_failed_at timestamptz NOT NULL DEFAULT now(),
    last_failed_at timestamptz NOT NULL DEFAULT now(),
    resolved_at timestamptz,
    resolution text CHECK (
        resolution IN ('succeeded', 'newer_generation', 'deleted', 'retired', 'accepted', 'retried')
    ),
    CONSTRAINT resolution_has_a_time CHECK ((resolved_at IS NULL) = (resolution IS NULL)),
    CONSTRAINT embed_letters_name_a_chunk CHECK (
        (stage = 'embed') = (chunk_id IS NOT NULL AND embedding_model_version IS NOT NULL)
    )
);
CREATE UNIQUE INDEX dead_letters_open ON ingest.dead_letters
    (document_id, chunk_id, embedding_model_version, stage) NULLS NOT DISTINCT WHERE resolved_at IS NULL;
CREATE INDEX dead_letters_unit ON ingest.dead_letters (chunk_id, embedding_model_version) WHERE chunk_id IS NOT NULL;

CREATE TABLE ingest.deletion_receipts (
    receipt_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    document_id uuid NOT NULL,
    source_uri text NOT NULL,
    deleted_at timestamptz NOT NULL DEFAULT now(),
    cause text NOT NULL,
    run_id text NOT NULL,
    removed jsonb NOT NULL
);
CREATE INDEX deletion_receipts_document ON ingest.deletion_receipts (document_id);

CREATE TABLE ingest.source_listings (
    listing_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source_url text NOT NULL,
    started_at timestamptz NOT NULL,
    finished_at timestamptz NOT NULL DEFAULT now(),
    objects bigint NOT NULL,
    added bigint NOT NULL,
    changed bigint NOT NULL,
    missing bigint NOT NULL
);
