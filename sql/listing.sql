-- Discovery: what the source holds now, compared with what we know.
-- Format: "-- name: x", one line of what it does, then the statement with %(name)s parameters.

-- name: create_listing_staging
-- Make this session's staging table for one listing.
CREATE TEMPORARY TABLE IF NOT EXISTS listing_staging (
    document_id uuid, source_uri text, source_key text, partition_key text,
    etag text, size_bytes bigint, last_modified timestamptz
)

-- name: drop_listing_staging
-- The listing is compared.
DROP TABLE IF EXISTS listing_staging

-- name: empty_listing_staging
-- Make room for the next page.
TRUNCATE listing_staging

-- name: try_listing_lock
-- Be the one process that lists the source; false while another one does.
SELECT pg_try_advisory_lock(hashtext('source-listing'), 0) AS is_held

-- name: take_listing_lock
-- Be the one process that lists the source; waits for another one.
SELECT pg_advisory_lock(hashtext('source-listing'), 0)

-- name: release_listing_lock
-- Others may list.
SELECT pg_advisory_unlock(hashtext('source-listing'), 0)

-- name: listing_progress
-- How far the unfinished listing of this source came: one row or none.
SELECT started_at, documents_before, last_key, objects, added, changed
FROM ingest.listing_progress WHERE source_url = %(source_url)s

-- name: forget_progress
-- An unfinished listing is of no use any more.
DELETE FROM ingest.listing_progress

-- name: forget_listed
-- Nothing is listed.
DELETE FROM ingest.listed_pages

-- name: begin_listing
-- Begin one; one row: how far it is.
INSERT INTO ingest.listing_progress (source_url, started_at, documents_before)
SELECT %(source_url)s, clock_timestamp(), count(*) FROM ingest.documents WHERE status <> 'deleted'
RETURNING started_at, documents_before, last_key, objects, added, changed

-- name: note_listed
-- Remember the documents of the staged page until the listing ends.
INSERT INTO ingest.listed_pages (document_ids) SELECT array_agg(document_id) FROM listing_staging HAVING count(*) > 0

-- name: note_progress
-- The page is merged and remembered.
UPDATE ingest.listing_progress SET last_key = %(last_key)s, objects = objects + %(objects)s,
    added = added + %(added)s, changed = changed + %(changed)s
RETURNING started_at, documents_before, last_key, objects, added, changed

-- name: is_listing_due
-- One row: whether this source should be listed, because one is unfinished, long ago, or waits to judge what is gone.
SELECT EXISTS (SELECT FROM ingest.listing_progress WHERE source_url = %(source_url)s)
    OR NOT EXISTS (SELECT FROM ingest.source_listings WHERE source_url = %(source_url)s
                   AND started_at > now() - make_interval(secs => %(interval_seconds)s))
    OR EXISTS (SELECT FROM ingest.documents
               WHERE missing_since IS NOT NULL AND deletion IS NULL AND status <> 'deleted') AS is_due

-- name: current_time
-- The database's clock, the one that all times of ours are read from.
SELECT clock_timestamp() AS time

-- name: copy_listing
-- Take listed objects in.
COPY listing_staging (document_id, source_uri, source_key, partition_key, etag, size_bytes, last_modified)
FROM STDIN

-- name: merge_listing
-- Note what is staged, as it was at a time; one row: objects, added, changed. A key that another document holds gets
-- a suffix of its own.
WITH merged AS (
    INSERT INTO ingest.documents AS d
        (document_id, source_uri, source_key, partition_key, seen_etag, seen_size_bytes, seen_last_modified, seen_at)
    SELECT s.document_id, s.source_uri, s.source_key,
        CASE WHEN EXISTS (
            SELECT FROM ingest.documents other
            WHERE other.partition_key = s.partition_key AND other.document_id <> s.document_id
        ) THEN s.partition_key || '%%~' || left(replace(s.document_id::text, '-', ''), 12) ELSE s.partition_key END,
        s.etag, s.size_bytes, s.last_modified, %(seen_at)s
    FROM listing_staging s
    ORDER BY s.document_id
    ON CONFLICT (document_id) DO UPDATE SET
        seen_etag = excluded.seen_etag, seen_size_bytes = excluded.seen_size_bytes,
        seen_last_modified = excluded.seen_last_modified, seen_at = excluded.seen_at, missing_since = NULL,
        deletion = NULL, source_key = excluded.source_key, attempts = 0, retry_after = NULL,
        status = CASE WHEN d.status = 'deleted' THEN 'discovered' ELSE d.status END,
        updated_at = CASE WHEN d.status = 'deleted' THEN clock_timestamp() ELSE d.updated_at END
    WHERE (d.seen_at IS NULL OR d.seen_at <= excluded.seen_at)
      AND (d.missing_since IS NOT NULL OR d.status = 'deleted'
           OR (d.seen_etag, d.seen_size_bytes, d.seen_last_modified)
              IS DISTINCT FROM (excluded.seen_etag, excluded.seen_size_bytes, excluded.seen_last_modified))
    RETURNING d.etag IS NULL AS is_new
)
SELECT (SELECT count(*) FROM listing_staging) AS objects,
    count(*) FILTER (WHERE is_new) AS added, count(*) FILTER (WHERE NOT is_new) AS changed
FROM merged

-- name: mark_missing
-- Note documents that a complete listing does not hold; one row per document.
UPDATE ingest.documents d SET missing_since = %(started_at)s
WHERE d.status <> 'deleted' AND d.missing_since IS NULL AND (d.seen_at IS NULL OR d.seen_at < %(started_at)s)
  AND NOT EXISTS (
      SELECT FROM (SELECT unnest(document_ids) AS document_id FROM ingest.listed_pages) l
      WHERE l.document_id = d.document_id)
RETURNING d.document_id

-- name: count_standing
-- One row: documents that are not tombstones, those of them that are missing, and missing ones not judged yet.
SELECT count(*) AS documents, count(*) FILTER (WHERE missing_since IS NOT NULL) AS missing,
    count(*) FILTER (WHERE missing_since IS NOT NULL AND deletion IS NULL) AS unjudged
FROM ingest.documents WHERE status <> 'deleted'

-- name: judge_deletions
-- Allow or withhold the deletion of every missing document that was not judged yet.
UPDATE ingest.documents SET deletion = %(deletion)s
WHERE status <> 'deleted' AND missing_since IS NOT NULL AND deletion IS NULL

-- name: approve_deletions
-- Somebody says that what is missing now, or some of it, is meant to be gone; one row for each of it.
UPDATE ingest.documents SET deletion = 'allowed'
WHERE status <> 'deleted' AND missing_since IS NOT NULL
  AND (%(partition_keys)s::text[] IS NULL OR partition_key = ANY (%(partition_keys)s::text[]))
RETURNING partition_key

-- name: count_withheld
-- One row: documents whose deletion waits for somebody's approval.
SELECT count(*) AS documents FROM ingest.documents
WHERE status <> 'deleted' AND missing_since IS NOT NULL AND deletion = 'withheld'

-- name: withheld_documents
-- Documents whose deletion waits for somebody's approval.
SELECT source_key FROM ingest.documents
WHERE status <> 'deleted' AND missing_since IS NOT NULL AND deletion = 'withheld' ORDER BY source_key

-- name: record_listing
-- Keep what a complete listing found.
INSERT INTO ingest.source_listings (source_url, started_at, objects, added, changed, missing)
VALUES (%(source_url)s, %(started_at)s, %(objects)s, %(added)s, %(changed)s, %(missing)s)

-- name: forget_listings
-- Listings older than a day, but the newest.
DELETE FROM ingest.source_listings
WHERE finished_at < now() - interval '1 day' AND listing_id < (SELECT max(listing_id) FROM ingest.source_listings)

-- name: last_listing
-- The last complete listing: one row or none.
SELECT source_url, started_at, objects, missing, added_by_hints
FROM ingest.source_listings ORDER BY listing_id DESC LIMIT 1

-- name: unknown_objects
-- Objects of the staged listing that were there before the last complete listing, and that we do not know.
SELECT s.source_key FROM listing_staging s
WHERE s.last_modified < coalesce((SELECT max(started_at) FROM ingest.source_listings), '-infinity')
  AND NOT EXISTS (
      SELECT FROM ingest.documents d WHERE d.document_id = s.document_id AND d.status <> 'deleted')
ORDER BY s.source_key

-- name: absent_documents
-- Documents that the staged listing lacks; `overdue` where their deletion should have been carried out.
SELECT d.source_key,
    coalesce(d.deletion = 'allowed' AND d.missing_since < now() - make_interval(secs => %(grace_seconds)s), false) AS overdue
FROM ingest.documents d
WHERE d.status <> 'deleted' AND NOT EXISTS (SELECT FROM listing_staging s WHERE s.document_id = d.document_id)
ORDER BY d.source_key

-- name: overdue_documents
-- Documents whose deletion should have been carried out, without a new listing.
SELECT source_key FROM ingest.documents
WHERE status <> 'deleted' AND deletion = 'allowed'
  AND missing_since < now() - make_interval(secs => %(grace_seconds)s)
ORDER BY source_key
