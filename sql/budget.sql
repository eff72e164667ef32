-- The rate budget that all processes share, one row per provider account.

-- name: reserve_budget
-- Reserve one request of so many tokens; one row: the seconds to wait, nothing being reserved when they exceed longest_wait.
SELECT ingest.reserve_budget(%(account)s, %(is_backfill)s, %(tokens)s, %(requests_per_second)s, %(tokens_per_second)s,
    %(backfill_share)s, %(longest_wait)s, %(burst)s) AS wait

-- name: block_account
-- Let nobody send before some seconds have passed.
INSERT INTO ingest.rate_budgets AS b (account, blocked_until)
VALUES (%(account)s, clock_timestamp() + make_interval(secs => %(seconds)s))
ON CONFLICT (account) DO UPDATE SET blocked_until = greatest(b.blocked_until, excluded.blocked_until)
