-- A listing that goes on where the last tick stopped, and hints of change events.

-- Unlogged, both together: a crash of the server empties both, and the listing begins anew instead of from half of what
-- it had seen.
CREATE UNLOGGED TABLE ingest.listing_progress (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    source_url text NOT NULL,
    started_at timestamptz NOT NULL,
    documents_before bigint NOT NULL,
    -- The key as the source spells it, which is not always text; NULL before the first page.
    last_key bytea,
    objects bigint NOT NULL DEFAULT 0,
    added bigint NOT NULL DEFAULT 0,
    changed bigint NOT NULL DEFAULT 0
);
CREATE UNLOGGED TABLE ingest.listed_pages (document_ids uuid[] NOT NULL);

-- One row for a key that may have changed, however many events said so.
CREATE TABLE ingest.source_hints (
    document_id uuid PRIMARY KEY,
    source_uri text NOT NULL,
    hinted_at timestamptz NOT NULL,
    CONSTRAINT document_id_is_derived CHECK (
        document_id = encode(substr(sha256(convert_to(source_uri, 'UTF8')), 1, 16), 'hex')::uuid
    )
);
CREATE INDEX source_hints_order ON ingest.source_hints (hinted_at);

-- Messages of the queue that could not be read, in whole or in part.
CREATE TABLE ingest.set_aside_messages (
    message_id text PRIMARY KEY,
    reason text NOT NULL CHECK (reason IN ('not_json', 'unknown_shape', 'bad_key')),
    detail text NOT NULL,
    body text NOT NULL,
    set_aside_at timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT, DELETE ON ingest.set_aside_messages TO ingest_operator;
