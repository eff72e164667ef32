-- Documents: what is to be read, and what was decided on a read.

-- name: pending_documents
-- Partition keys whose object is in a state that was not decided on with today's extractor and chunker.
SELECT partition_key FROM ingest.documents
WHERE status <> 'deleted' AND missing_since IS NULL AND (
    retry_after <= now()
    OR (retry_after IS NULL
        AND (seen_etag, seen_size_bytes, seen_last_modified) IS DISTINCT FROM (etag, size_bytes, last_modified))
    OR (retry_after IS NULL AND extractor_version IS DISTINCT FROM %(extractor_version)s)
    OR (status = 'accepted' AND chunker_version IS DISTINCT FROM %(chunker_version)s
        AND (retry_after IS NULL
             OR (seen_etag, seen_size_bytes, seen_last_modified) IS NOT DISTINCT FROM (etag, size_bytes, last_modified))))
ORDER BY first_seen_at, partition_key

-- name: pending_by_rules
-- Which of some partition keys are pending for another extractor or chunker only.
SELECT partition_key FROM ingest.documents
WHERE partition_key = ANY (%(partition_keys)s) AND status IN ('accepted', 'rejected') AND retry_after IS NULL
  AND (seen_etag, seen_size_bytes, seen_last_modified) IS NOT DISTINCT FROM (etag, size_bytes, last_modified)

-- name: uncovered_by_rules
-- Which of some partition keys have their present chunks by another extractor or chunker.
SELECT partition_key FROM ingest.documents
WHERE partition_key = ANY (%(partition_keys)s) AND changed_by = 'rules'

-- name: missing_documents
-- Partition keys of documents that a listing lacked so long ago; not those whose HEAD was refused a moment ago.
SELECT partition_key FROM ingest.documents
WHERE status <> 'deleted' AND deletion = 'allowed' AND missing_since <= now() - make_interval(secs => %(grace_seconds)s)
  AND NOT (updated_at > missing_since AND coalesce(retry_after > now(), false))
ORDER BY partition_key

-- name: select_documents
-- The rows of some partition keys, without their text; `is_intact` where text, chunks and hashes agree, `is_as_read` where
-- the last listing saw the object as it was read.
SELECT d.document_id, d.source_uri, d.source_key, d.partition_key, d.status, d.generation, d.updated_at, d.attempts,
    d.content_sha256, d.text_sha256, d.extractor_version, d.chunker_version, d.media_type, d.object_metadata,
    clock_timestamp() AS read_at,
    d.missing_since IS NULL AND (d.seen_etag, d.seen_size_bytes, d.seen_last_modified)
        IS NOT DISTINCT FROM (d.etag, d.size_bytes, d.last_modified) AS is_as_read,
    d.chunked_text_sha256 = sha256(convert_to(d.text, 'UTF8')) AND coalesce((
        SELECT bool_and(c.text_sha256 = sha256(convert_to(c.text, 'UTF8'))) FROM ingest.chunks c
        WHERE c.document_id = d.document_id AND c.generation = d.generation), false) AS is_intact
FROM ingest.documents d WHERE d.partition_key = ANY (%(partition_keys)s)

-- name: select_stored_text
-- What was read in one document; one row while nobody decided since.
SELECT text, media_type, pages, headings FROM ingest.documents
WHERE document_id = %(document_id)s AND generation = %(generation)s AND updated_at = %(updated_at)s

-- name: lock_document
-- Lock one document for a decision; one row while nobody decided since the read, none otherwise.
SELECT generation FROM ingest.documents
WHERE document_id = %(document_id)s AND generation = %(generation)s AND updated_at = %(updated_at)s
FOR NO KEY UPDATE

-- name: uncover_changed_document
-- What readers are shown beside the text changed: the next embedding run publishes again, and sends nothing for it.
DELETE FROM ingest.embedding_coverage e USING ingest.documents d
WHERE d.document_id = %(document_id)s AND e.document_id = d.document_id
  AND (d.metadata, d.pages, d.headings) IS DISTINCT FROM (%(metadata)s::jsonb, %(pages)s::jsonb, %(headings)s::jsonb)

-- name: accept_document
-- Record a read that gave text; the generation grows when the chunk set is a new one. Whoever was embedded as the object
-- is, and has other chunks now, has them by another extractor or chunker.
UPDATE ingest.documents d SET
    changed_by = CASE WHEN generation = %(new_generation)s THEN changed_by
        WHEN content_sha256 = %(content_sha256)s AND EXISTS (SELECT FROM ingest.embedding_coverage e
                     WHERE e.document_id = d.document_id AND e.generation = d.generation) THEN 'rules' ELSE 'object' END,
    etag = %(etag)s, size_bytes = %(size_bytes)s, last_modified = %(last_modified)s,
    source_version = %(source_version)s, content_sha256 = %(content_sha256)s,
    extractor_version = %(extractor_version)s, media_type = %(media_type)s, text = %(text)s,
    text_sha256 = %(text_sha256)s, chunked_text_sha256 = %(text_sha256)s, chunker_version = %(chunker_version)s,
    pages = %(pages)s, headings = %(headings)s, warnings = %(warnings)s, metadata = %(metadata)s,
    object_metadata = %(object_metadata)s,
    generation = %(new_generation)s, status = 'accepted', attempts = 0, retry_after = NULL,
    unreadable_reason = NULL, unreadable_detail = NULL, missing_since = NULL, deletion = NULL, updated_at = clock_timestamp()
WHERE document_id = %(document_id)s

-- name: rechunk_document
-- Record that the stored text was chunked anew; the generation grows when the chunk set is a new one.
UPDATE ingest.documents d SET
    changed_by = CASE WHEN generation = %(new_generation)s THEN changed_by
        WHEN EXISTS (SELECT FROM ingest.embedding_coverage e
                     WHERE e.document_id = d.document_id AND e.generation = d.generation) THEN 'rules' ELSE 'object' END,
    chunked_text_sha256 = text_sha256, chunker_version = %(chunker_version)s,
    generation = %(new_generation)s, updated_at = clock_timestamp()
WHERE document_id = %(document_id)s

-- name: confirm_document
-- Record a read that gave the bytes we have already decided on.
UPDATE ingest.documents SET
    etag = %(etag)s, size_bytes = %(size_bytes)s, last_modified = %(last_modified)s,
    source_version = %(source_version)s, attempts = 0, retry_after = NULL,
    unreadable_reason = NULL, unreadable_detail = NULL, missing_since = NULL, deletion = NULL, updated_at = clock_timestamp()
WHERE document_id = %(document_id)s

-- name: reject_document
-- Record that a document is given up in this state; what was accepted before stays served. With `recheck_seconds` it is
-- read again after so long, and its attempts go on counting.
UPDATE ingest.documents SET
    etag = coalesce(%(etag)s, seen_etag), size_bytes = coalesce(%(size_bytes)s, seen_size_bytes),
    last_modified = coalesce(%(last_modified)s, seen_last_modified),
    source_version = %(source_version)s, content_sha256 = %(content_sha256)s,
    extractor_version = %(extractor_version)s, status = 'rejected',
    attempts = CASE WHEN %(recheck_seconds)s::float8 IS NULL THEN 0 ELSE attempts + 1 END,
    unreadable_reason = NULL, unreadable_detail = NULL,
    retry_after = now() + make_interval(secs => %(recheck_seconds)s), updated_at = clock_timestamp()
WHERE document_id = %(document_id)s

-- name: align_seen
-- A read that began after the last listing knows the object's state better than that listing.
UPDATE ingest.documents SET
    seen_etag = etag, seen_size_bytes = size_bytes, seen_last_modified = last_modified, seen_at = %(read_at)s
WHERE document_id = %(document_id)s AND seen_at < %(read_at)s

-- name: postpone_document
-- Note that an object could not be read, or its deletion not be confirmed, and when it is tried again.
UPDATE ingest.documents SET attempts = attempts + 1, unreadable_reason = %(reason)s, unreadable_detail = %(detail)s,
    retry_after = now() + make_interval(secs => %(delay_seconds)s), updated_at = clock_timestamp()
WHERE document_id = %(document_id)s

-- name: unreadable_documents
-- Documents that could not be read and wait for another attempt, by reason, with the time of the next one.
SELECT unreadable_reason AS reason, count(*) AS documents, min(retry_after) AS next_attempt_at FROM ingest.documents
WHERE status <> 'deleted' AND unreadable_reason IS NOT NULL AND retry_after IS NOT NULL
GROUP BY unreadable_reason ORDER BY unreadable_reason

-- name: note_missing
-- A read found that the object is gone.
UPDATE ingest.documents SET missing_since = coalesce(missing_since, now())
WHERE document_id = %(document_id)s AND status <> 'deleted'

-- name: note_present
-- A deletion was not confirmed: the object is there. Attempts to confirm it are none to read it.
UPDATE ingest.documents SET missing_since = NULL, deletion = NULL, unreadable_reason = NULL, unreadable_detail = NULL,
    attempts = 0, retry_after = CASE WHEN status = 'rejected' THEN retry_after END,
    seen_etag = %(etag)s, seen_size_bytes = %(size_bytes)s, seen_last_modified = %(last_modified)s, seen_at = now()
WHERE document_id = %(document_id)s

-- name: forget_recheck
-- Somebody accepted that this document is not indexed: do not look at it again until its object changes.
UPDATE ingest.documents SET retry_after = NULL WHERE document_id = %(document_id)s AND status = 'rejected'

-- name: reopen_document
-- Make a document pending again.
UPDATE ingest.documents SET etag = NULL, attempts = 0, retry_after = NULL, unreadable_reason = NULL,
    unreadable_detail = NULL, extractor_version = NULL,
    updated_at = clock_timestamp()
WHERE document_id = %(document_id)s

-- name: document_statuses
-- Status of every document that is not a tombstone, in key order.
SELECT source_key, partition_key, status, chunks, dead_letters, published_generation, generation
FROM ingest.document_status WHERE status <> 'deleted' ORDER BY source_key

-- name: find_document
-- One document by key, URI or id: one row or none.
SELECT d.document_id, d.source_uri, d.source_key, d.partition_key, s.status, d.status AS decision, d.generation,
    d.text, d.media_type, d.warnings, d.metadata, d.etag, d.size_bytes, d.last_modified, d.extractor_version,
    d.chunker_version, d.missing_since, d.deletion, d.retry_after, d.attempts, d.unreadable_reason, d.unreadable_detail, s.published_generation, s.version
FROM ingest.documents d JOIN ingest.document_status s USING (document_id)
WHERE d.source_key = %(document)s OR d.source_uri = %(document)s OR d.partition_key = %(document)s
   OR d.document_id::text = %(document)s
ORDER BY (d.status = 'deleted'), (d.document_id::text = %(document)s) DESC, (d.source_uri = %(document)s) DESC,
    (d.source_key = %(document)s) DESC
LIMIT 1

-- name: document_counts
-- One row: documents by status.
SELECT count(*) AS total,
    count(*) FILTER (WHERE status = 'complete') AS complete,
    count(*) FILTER (WHERE status IN ('pending', 'processing')) AS pending,
    count(*) FILTER (WHERE status = 'partial') AS partial,
    count(*) FILTER (WHERE status = 'rejected') AS rejected
FROM ingest.document_status WHERE status <> 'deleted'

-- name: live_partition_keys
-- Partition keys of documents that are not deleted.
SELECT partition_key FROM ingest.documents WHERE status <> 'deleted'
