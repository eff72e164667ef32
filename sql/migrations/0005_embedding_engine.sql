-- The account's shared budget, attempts of texts that get no answer, and what a run spent and on what.

-- No request of the account before this moment: what a server that answered 429 asked for.
ALTER TABLE ingest.rate_budgets ADD COLUMN blocked_until timestamptz NOT NULL DEFAULT '-infinity';

-- Documents rest by the failures of their runs; a text needs no clock of its own.
ALTER TABLE ingest.embedding_attempts DROP COLUMN next_at;
ALTER TABLE ingest.embedding_attempts ADD COLUMN run_id text NOT NULL DEFAULT '';

ALTER TABLE ingest.embedding_runs
    ADD COLUMN estimated_minutes double precision,
    ADD COLUMN requests bigint NOT NULL DEFAULT 0,
    ADD COLUMN other_failures bigint NOT NULL DEFAULT 0,
    ADD COLUMN billed_tokens bigint NOT NULL DEFAULT 0,
    ADD COLUMN abandoned_at timestamptz;  -- when somebody noticed that the run had died

-- What was sent and why: for a document that is new to every version, for one that changed, or for a version that is
-- new to the document. Cost is at the price of that day; NULL where none was set.
CREATE TABLE ingest.embedding_spend (
    run_id text NOT NULL,
    embedding_model_version text NOT NULL,
    origin text NOT NULL CHECK (origin IN ('new', 'changed', 're_embed')),
    units bigint NOT NULL,
    tokens bigint NOT NULL,
    cost double precision,
    PRIMARY KEY (run_id, embedding_model_version, origin),
    FOREIGN KEY (run_id, embedding_model_version) REFERENCES ingest.embedding_runs ON DELETE CASCADE
);

-- The generic cell rate algorithm over two rates, requests and tokens, for the account and inside it for backfill.
-- A column `..._at` is the earliest moment at which the next request may be sent by that rate; a request moves it by what
-- it costs, counted from now less `burst`, so that what an uneven stream leaves unused is not lost at once. A request of
-- backfill that has to wait for its own rate is charged to the account at once, and leaves the time until then to others.
-- Returns the seconds to wait before sending. More than `longest_wait` means: nothing was reserved, ask again.
-- Rates are per second; NULL means no limit. Times are of this server, so all hosts agree; `given_moment` is for tests.
CREATE FUNCTION ingest.reserve_budget(
    budget_account text, is_backfill boolean, tokens double precision,
    requests_per_second double precision, tokens_per_second double precision,
    backfill_share double precision, longest_wait double precision, burst double precision,
    given_moment timestamptz DEFAULT NULL
) RETURNS double precision LANGUAGE plpgsql AS $$
DECLARE
    budget ingest.rate_budgets;
    this_moment timestamptz;
    send_at timestamptz;
    counted_from timestamptz;
    request_cost interval := coalesce(1 / requests_per_second, 0) * interval '1 second';
    token_cost interval := coalesce(tokens / tokens_per_second, 0) * interval '1 second';
BEGIN
    INSERT INTO ingest.rate_budgets (account) VALUES (budget_account) ON CONFLICT DO NOTHING;
    SELECT * INTO budget FROM ingest.rate_budgets WHERE account = budget_account FOR UPDATE;
    this_moment := coalesce(given_moment, clock_timestamp());
    send_at := greatest(this_moment, budget.blocked_until, budget.requests_at, budget.tokens_at);
    IF is_backfill THEN
        send_at := greatest(send_at, budget.backfill_requests_at, budget.backfill_tokens_at);
    END IF;
    IF send_at > this_moment + longest_wait * interval '1 second' THEN
        RETURN extract(epoch FROM send_at - this_moment);
    END IF;
    counted_from := greatest(this_moment, budget.blocked_until) - burst * interval '1 second';
    UPDATE ingest.rate_budgets SET
        requests_at = greatest(requests_at, counted_from) + request_cost,
        tokens_at = greatest(tokens_at, counted_from) + token_cost,
        backfill_requests_at = CASE WHEN is_backfill
            THEN greatest(backfill_requests_at, counted_from) + request_cost / backfill_share
            ELSE backfill_requests_at END,
        backfill_tokens_at = CASE WHEN is_backfill
            THEN greatest(backfill_tokens_at, counted_from) + token_cost / backfill_share
            ELSE backfill_tokens_at END
    WHERE account = budget_account;
    RETURN extract(epoch FROM send_at - this_moment);
END $$;
