-- A version that goes for good. Each statement may find its work done: a retirement that was broken off is finished later.

-- name: retire_model
-- Take a version out of service for good; one row when it is not the one that serves.
UPDATE ingest.embedding_models SET status = 'retired', retired_at = coalesce(retired_at, now())
WHERE version = %(version)s AND status <> 'active' RETURNING version

-- name: select_embedding_runs
-- Runs that embed at a version and hold a lease.
SELECT r.run_id FROM ingest.embedding_runs r JOIN ingest.run_leases l USING (run_id)
WHERE r.embedding_model_version = %(version)s AND r.finished_at IS NULL ORDER BY r.started_at

-- name: close_retired_letters
-- Nobody will try these units again.
UPDATE ingest.dead_letters SET resolved_at = now(), resolution = 'retired'
WHERE embedding_model_version = %(version)s AND resolved_at IS NULL

-- name: forget_claims
-- No text of a version is claimed any more.
DELETE FROM ingest.embedding_claims WHERE embedding_model_version = %(version)s

-- name: forget_attempts_of_version
-- No text of a version is tried any more.
DELETE FROM ingest.embedding_attempts WHERE embedding_model_version = %(version)s

-- name: forget_coverage_of_version
-- No document is covered at a version any more.
DELETE FROM ingest.embedding_coverage WHERE embedding_model_version = %(version)s

-- name: forget_publications_of_version
-- A version serves nothing any more.
DELETE FROM serving.publications WHERE embedding_model_version = %(version)s

-- name: partition_state
-- One row while the partition of a version hangs on chunk_vectors, and whether its detaching was broken off.
SELECT inhdetachpending AS is_pending FROM pg_inherits WHERE inhrelid = to_regclass(%(vectors)s)

-- name: bound_session_locks
-- Give up soon where a lock is not free: what waits for a lock makes everybody behind it wait too.
SET lock_timeout = '200ms'

-- name: unbound_session_locks
-- Wait for locks as before.
RESET lock_timeout

-- name: detach_vectors
-- Take a version's vectors out of chunk_vectors without keeping anybody from the others.
ALTER TABLE ingest.chunk_vectors DETACH PARTITION {vectors} CONCURRENTLY

-- name: finish_detaching
-- Finish what was broken off.
ALTER TABLE ingest.chunk_vectors DETACH PARTITION {vectors} FINALIZE

-- name: drop_vectors
-- The vectors of a version that hang on nothing.
DROP TABLE IF EXISTS {vectors}

-- name: drop_serving_table
-- What served a version, with its index.
DROP TABLE IF EXISTS {serving}
