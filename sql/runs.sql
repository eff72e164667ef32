-- Runs: the lease on a run's life, and what an embedding run planned and did.

-- name: take_lease
-- A run begins, or shows again that it lives.
INSERT INTO ingest.run_leases (run_id, host, pid, process_started_at, expires_at)
VALUES (%(run_id)s, %(host)s, %(pid)s, %(process_started_at)s, now() + make_interval(secs => %(lease_seconds)s))
ON CONFLICT (run_id) DO UPDATE SET host = excluded.host, pid = excluded.pid,
    process_started_at = excluded.process_started_at, expires_at = excluded.expires_at

-- name: drop_lease
-- A run ended.
DELETE FROM ingest.run_leases WHERE run_id = %(run_id)s

-- name: select_leases
-- Every lease, and whether it lapsed.
SELECT run_id, host, pid, process_started_at, expires_at < now() AS is_lapsed FROM ingest.run_leases

-- name: insert_embedding_run
-- Publish a plan before anything is spent. A run that is executed again plans again.
INSERT INTO ingest.embedding_runs (run_id, embedding_model_version, lane, watermark, planned_units, planned_tokens,
    estimated_cost, estimated_minutes)
VALUES (%(run_id)s, %(version)s, %(lane)s, %(watermark)s::pg_snapshot, %(planned_units)s, %(planned_tokens)s,
    %(estimated_cost)s, %(estimated_minutes)s)
ON CONFLICT (run_id, embedding_model_version) DO UPDATE SET
    lane = excluded.lane, watermark = excluded.watermark, planned_units = excluded.planned_units,
    planned_tokens = excluded.planned_tokens, estimated_cost = excluded.estimated_cost,
    estimated_minutes = excluded.estimated_minutes, reused = 0, embedded = 0, dead_lettered = 0, left_to_others = 0,
    vanished = 0, started_at = now(), finished_at = NULL, abandoned_at = NULL

-- name: count_units
-- Add to what a run has done.
UPDATE ingest.embedding_runs SET reused = reused + %(reused)s, embedded = embedded + %(embedded)s,
    dead_lettered = dead_lettered + %(dead_lettered)s, vanished = vanished + %(vanished)s,
    sent_tokens = sent_tokens + %(sent_tokens)s
WHERE run_id = %(run_id)s AND embedding_model_version = %(version)s

-- name: count_spend
-- Add to what a run has sent, by why it was sent.
INSERT INTO ingest.embedding_spend AS s (run_id, embedding_model_version, origin, units, tokens, cost)
SELECT %(run_id)s, %(version)s, u.origin, u.units, u.tokens, u.tokens * %(price)s::double precision / 1000000
FROM unnest(%(origins)s::text[], %(units)s::bigint[], %(tokens)s::bigint[]) u (origin, units, tokens) ORDER BY u.origin
ON CONFLICT (run_id, embedding_model_version, origin) DO UPDATE
    SET units = s.units + excluded.units, tokens = s.tokens + excluded.tokens, cost = s.cost + excluded.cost

-- name: select_spend
-- What a run has sent at a version, one row per origin.
SELECT origin, units, tokens, cost FROM ingest.embedding_spend
WHERE run_id = %(run_id)s AND embedding_model_version = %(version)s ORDER BY origin

-- name: count_requests
-- Note what a run has asked of the provider so far.
UPDATE ingest.embedding_runs SET requests = requests + %(requests)s, billed_tokens = billed_tokens + %(billed_tokens)s,
    rate_limited_responses = rate_limited_responses + %(rate_limited_responses)s,
    other_failures = other_failures + %(other_failures)s
WHERE run_id = %(run_id)s AND embedding_model_version = %(version)s

-- name: count_disturbed
-- One row: documents of a run that somebody decided on since it recorded its plan.
SELECT count(*) AS documents FROM ingest.documents d
JOIN ingest.embedding_runs r ON r.run_id = %(run_id)s AND r.embedding_model_version = %(version)s
WHERE d.document_id = ANY (%(document_ids)s) AND d.updated_at >= r.started_at

-- name: abandon_run
-- A run died.
UPDATE ingest.embedding_runs SET abandoned_at = now() WHERE run_id = %(run_id)s AND finished_at IS NULL

-- name: count_rivals
-- One row: other runs at the same version that had not ended when a run recorded its plan.
SELECT count(*) AS runs FROM ingest.embedding_runs r
JOIN ingest.embedding_runs o USING (embedding_model_version)
WHERE r.run_id = %(run_id)s AND r.embedding_model_version = %(version)s AND o.run_id <> r.run_id
  AND coalesce(o.finished_at, o.abandoned_at, 'infinity') >= r.started_at

-- name: finish_embedding_run
-- A run came to its end.
UPDATE ingest.embedding_runs SET left_to_others = %(left_to_others)s, vanished = vanished + %(vanished)s,
    finished_at = now()
WHERE run_id = %(run_id)s AND embedding_model_version = %(version)s

-- name: uncovered_documents
-- Partition keys of documents whose current generation is not covered at a version.
SELECT d.partition_key FROM ingest.documents d
WHERE d.generation > 0 AND d.text IS NOT NULL AND d.status <> 'deleted' AND d.missing_since IS NULL
  AND NOT EXISTS (
      SELECT FROM ingest.embedding_coverage e
      WHERE e.document_id = d.document_id AND e.embedding_model_version = %(version)s AND e.generation = d.generation)
ORDER BY d.first_seen_at, d.partition_key

-- name: living_embedding_runs
-- Embedding runs that are at work, with how far they are in distinct texts.
SELECT r.run_id, r.embedding_model_version AS model, r.lane, r.reused + r.embedded AS completed,
    greatest(0, r.planned_units - r.reused - r.embedded - r.dead_lettered - r.vanished) AS remaining, r.dead_lettered,
    r.rate_limited_responses, r.other_failures, r.started_at
FROM ingest.embedding_runs r JOIN ingest.run_leases l USING (run_id)
WHERE r.finished_at IS NULL AND l.expires_at >= now()
ORDER BY r.started_at

-- name: count_pass
-- One row: what some runs did together.
SELECT
    (SELECT count(DISTINCT document_id) FROM ingest.dead_letters
     WHERE run_id = ANY (%(run_ids)s) AND stage <> 'embed') AS rejected,
    (SELECT count(*) FROM ingest.deletion_receipts WHERE run_id = ANY (%(run_ids)s)) AS deleted,
    coalesce(sum(planned_units), 0) AS planned, coalesce(sum(reused), 0) AS reused,
    coalesce(sum(embedded), 0) AS embedded, coalesce(sum(dead_lettered), 0) AS dead_lettered,
    coalesce(sum(left_to_others), 0) AS left_to_others, coalesce(sum(sent_tokens), 0) AS sent_tokens,
    coalesce(sum(billed_tokens), 0) AS billed_tokens,
    coalesce(sum(rate_limited_responses), 0) AS rate_limited_responses,
    coalesce(sum(other_failures), 0) AS other_failures
FROM ingest.embedding_runs WHERE run_id = ANY (%(run_ids)s)

-- name: bound_idle_transactions
-- Let the server undo a transaction of this session whose process was stopped in the middle: others wait for its rows.
SELECT set_config('idle_in_transaction_session_timeout', %(milliseconds)s::text, false)

-- name: pass_spend
-- What some runs have sent together: one row per version, lane and origin.
SELECT r.embedding_model_version AS model, r.lane, s.origin, sum(s.units)::bigint AS units, sum(s.tokens)::bigint AS tokens,
    sum(s.cost) AS cost
FROM ingest.embedding_spend s JOIN ingest.embedding_runs r USING (run_id, embedding_model_version)
WHERE s.run_id = ANY (%(run_ids)s)
GROUP BY r.embedding_model_version, r.lane, s.origin ORDER BY r.embedding_model_version, r.lane, s.origin

-- name: relax_commit
-- Let this transaction's commit return before it is on disk.
SET LOCAL synchronous_commit = off
