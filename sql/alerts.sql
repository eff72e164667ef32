-- What is wrong, and messages about it: written in one transaction, delivered afterwards at least once.

-- name: lock_alerts
-- One look at a time; whoever comes second sees what the first wrote.
LOCK TABLE ingest.alert_states IN SHARE ROW EXCLUSIVE MODE

-- name: try_looking_lock
-- Be the one process that looks; false while another one does.
SELECT pg_try_advisory_lock(hashtext('alerts-look'), 0) AS is_held

-- name: release_looking_lock
-- Others may look.
SELECT pg_advisory_unlock(hashtext('alerts-look'), 0)

-- name: alert_states
-- What was wrong at the last look, the longest first.
SELECT key, trouble, opened_at, told_at FROM ingest.alert_states ORDER BY opened_at, key

-- name: upsert_alert_state
-- What is wrong now.
INSERT INTO ingest.alert_states (key, trouble, opened_at, told_at)
VALUES (%(key)s, %(trouble)s, %(opened_at)s, %(told_at)s)
ON CONFLICT (key) DO UPDATE SET trouble = excluded.trouble, told_at = excluded.told_at

-- name: delete_alert_states
-- What is well again.
DELETE FROM ingest.alert_states WHERE key = ANY (%(keys)s)

-- name: insert_alert_message
-- A message to one address.
INSERT INTO ingest.alert_messages (address_sha256, title, body)
VALUES (%(address_sha256)s, %(title)s, %(body)s)

-- name: forget_alert_messages
-- Messages that are older than a month, taken or not: a process without addresses must not drop what others will send.
DELETE FROM ingest.alert_messages WHERE created_at < now() - interval '30 days'

-- name: take_alert_message
-- One message that is due, the oldest of its address, held for two minutes: if the sender dies, somebody else sends it.
UPDATE ingest.alert_messages SET next_at = now() + interval '2 minutes', attempts = attempts + 1
WHERE message_id = (
    SELECT message_id FROM ingest.alert_messages m
    WHERE delivered_at IS NULL AND next_at <= now() AND address_sha256 = ANY (%(addresses)s)
      AND NOT EXISTS (
          SELECT FROM ingest.alert_messages older
          WHERE older.address_sha256 = m.address_sha256 AND older.delivered_at IS NULL
            AND older.message_id < m.message_id)
    ORDER BY message_id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING message_id, address_sha256, title, body, attempts

-- name: mark_alert_delivered
-- The address took the message.
UPDATE ingest.alert_messages SET delivered_at = now(), last_error = NULL WHERE message_id = %(message_id)s

-- name: put_off_alert
-- The address did not take the message.
UPDATE ingest.alert_messages
SET last_error = %(error)s, next_at = now() + make_interval(secs => %(seconds)s) WHERE message_id = %(message_id)s

-- name: undelivered_alerts
-- One row per address with messages that wait: how many, since when, how often the last was tried, and what it said.
SELECT address_sha256, count(*) AS waiting, min(created_at) AS since, max(attempts) AS attempts,
    (array_agg(last_error ORDER BY message_id) FILTER (WHERE last_error IS NOT NULL))[1] AS last_error
FROM ingest.alert_messages WHERE delivered_at IS NULL GROUP BY address_sha256

-- name: stalled_documents
-- One row: documents that wait to be read since before a time, and the oldest such moment.
SELECT count(*) AS documents, min(coalesce(seen_at, first_seen_at)) AS since FROM ingest.documents
WHERE status <> 'deleted' AND missing_since IS NULL AND retry_after IS NULL
  AND (seen_etag, seen_size_bytes, seen_last_modified) IS DISTINCT FROM (etag, size_bytes, last_modified)
  AND updated_at < %(before)s

-- name: stalled_embeddings
-- Per version that is not retired: documents that wait to be embedded since before a time, and the oldest such moment.
SELECT m.version, count(*) AS documents, min(d.updated_at) AS since
FROM ingest.embedding_models m CROSS JOIN ingest.documents d
WHERE m.status <> 'retired' AND m.version = ANY (%(versions)s)
  AND d.generation > 0 AND d.text IS NOT NULL AND d.status <> 'deleted' AND d.missing_since IS NULL
  AND greatest(d.updated_at, m.declared_at) < %(before)s
  AND NOT EXISTS (
      SELECT FROM ingest.embedding_coverage e
      WHERE e.document_id = d.document_id AND e.embedding_model_version = m.version AND e.generation = d.generation)
GROUP BY m.version ORDER BY m.version
