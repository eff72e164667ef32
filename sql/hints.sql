-- Hints: keys of which a change event said that they may have changed, and messages that said nothing we understand.
-- Format: "-- name: x", one line of what it does, then the statement with %(name)s parameters.

-- name: insert_hints
-- Note keys that may have changed; a key that waits already gets the later time.
INSERT INTO ingest.source_hints AS h (document_id, source_uri, hinted_at)
SELECT n.document_id, n.source_uri, clock_timestamp()
FROM unnest(%(document_ids)s::uuid[], %(source_uris)s::text[]) AS n (document_id, source_uri)
ORDER BY n.document_id
ON CONFLICT (document_id) DO UPDATE SET hinted_at = excluded.hinted_at

-- name: select_hints
-- The hints that waited longest.
SELECT document_id, source_uri, hinted_at FROM ingest.source_hints ORDER BY hinted_at, document_id LIMIT %(most)s

-- name: count_hints
-- One row: keys that may have changed and were not looked at yet.
SELECT count(*) AS hints FROM ingest.source_hints

-- name: count_hinted_additions
-- Remember with the last complete listing how many documents events have added since.
UPDATE ingest.source_listings SET added_by_hints = added_by_hints + %(added)s
WHERE listing_id = (SELECT max(listing_id) FROM ingest.source_listings)

-- name: delete_hints
-- These were looked at; one that came again meanwhile stays.
DELETE FROM ingest.source_hints h
USING unnest(%(document_ids)s::uuid[], %(hinted_at)s::timestamptz[]) AS n (document_id, hinted_at)
WHERE h.document_id = n.document_id AND h.hinted_at = n.hinted_at

-- name: answer_hints
-- A complete listing that began after a hint has seen what the hint spoke of.
DELETE FROM ingest.source_hints WHERE hinted_at < %(started_at)s

-- name: note_gone
-- A HEAD found nothing at these keys; a complete listing judges what that means.
UPDATE ingest.documents SET missing_since = %(seen_at)s
WHERE document_id = ANY (%(document_ids)s) AND status <> 'deleted' AND missing_since IS NULL
  AND (seen_at IS NULL OR seen_at < %(seen_at)s)

-- name: hasten_documents
-- What waits for another attempt to read it is tried now: the event may say that it was restored or allowed.
UPDATE ingest.documents SET retry_after = now()
WHERE document_id = ANY (%(document_ids)s) AND status <> 'deleted' AND retry_after > now()

-- name: set_message_aside
-- Keep a message that could not be read; the same message may come twice.
INSERT INTO ingest.set_aside_messages (message_id, reason, detail, body)
VALUES (%(message_id)s, %(reason)s, %(detail)s, %(body)s)
ON CONFLICT (message_id) DO NOTHING

-- name: set_aside_messages
-- All of them, the newest first.
SELECT message_id, reason, detail, body, set_aside_at FROM ingest.set_aside_messages
ORDER BY set_aside_at DESC, message_id

-- name: count_set_aside_messages
-- How many there are, by reason.
SELECT reason, count(*) AS messages FROM ingest.set_aside_messages GROUP BY reason ORDER BY reason

-- name: drop_set_aside_messages
-- Somebody has looked at them.
DELETE FROM ingest.set_aside_messages
WHERE %(message_ids)s::text[] IS NULL OR message_id = ANY (%(message_ids)s::text[])
RETURNING message_id
