-- What is wrong now, and what people are still to be told of it. Addresses are kept as hashes, never in the clear.
CREATE TABLE ingest.alert_states (
    key text PRIMARY KEY,
    trouble jsonb NOT NULL,
    opened_at timestamptz NOT NULL,
    told_at timestamptz NOT NULL
);

CREATE TABLE ingest.alert_messages (
    message_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    address_sha256 bytea NOT NULL,
    title text NOT NULL,
    body text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    attempts integer NOT NULL DEFAULT 0,
    -- Until then somebody is sending it, or it waits for its next attempt.
    next_at timestamptz NOT NULL DEFAULT now(),
    delivered_at timestamptz,
    last_error text
);
CREATE INDEX alert_messages_waiting ON ingest.alert_messages (next_at) WHERE delivered_at IS NULL;

GRANT SELECT ON ingest.alert_states, ingest.alert_messages TO ingest_operator;
