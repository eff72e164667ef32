-- Documents that a check found wrong and that no later look has found right: a check of some documents must not turn green
-- while another one is known to be wrong.
CREATE TABLE ingest.check_offenders (
    check_name text NOT NULL,
    document_id uuid NOT NULL,
    found_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (check_name, document_id)
);
