-- Deletion of a document at every model version, and its proof.

-- name: lock_missing_document
-- Lock a document for its deletion: one row while a listing or a read says that it is gone.
SELECT document_id, source_uri, generation FROM ingest.documents
WHERE document_id = %(document_id)s AND missing_since IS NOT NULL AND deletion = 'allowed' AND status <> 'deleted' FOR UPDATE

-- name: count_document_rows
-- Rows that hold something of a document, by table and version.
SELECT 'documents' AS kind, NULL::text AS version, count(*) AS found FROM ingest.documents
WHERE document_id = %(document_id)s AND (text IS NOT NULL OR content_sha256 IS NOT NULL)
UNION ALL
SELECT 'chunks', NULL, count(*) FROM ingest.chunks WHERE document_id = %(document_id)s
UNION ALL
SELECT 'dead_letters', NULL, count(*) FROM ingest.dead_letters
WHERE document_id = %(document_id)s AND (resolved_at IS NULL OR detail <> '')
UNION ALL
SELECT 'chunk_vectors', v.embedding_model_version, count(*)
FROM ingest.chunk_vectors v JOIN ingest.chunks c USING (chunk_id)
WHERE c.document_id = %(document_id)s GROUP BY v.embedding_model_version
UNION ALL
SELECT 'publications', embedding_model_version, count(*)
FROM serving.publications WHERE document_id = %(document_id)s GROUP BY embedding_model_version
UNION ALL
SELECT 'embedding_coverage', embedding_model_version, count(*)
FROM ingest.embedding_coverage WHERE document_id = %(document_id)s GROUP BY embedding_model_version

-- name: delete_chunks
-- Delete a document's chunks; vectors at every version go with them.
DELETE FROM ingest.chunks WHERE document_id = %(document_id)s

-- name: delete_publications
-- Forget what a document served.
DELETE FROM serving.publications WHERE document_id = %(document_id)s

-- name: delete_coverage
-- Forget what of a document was covered.
DELETE FROM ingest.embedding_coverage WHERE document_id = %(document_id)s

-- name: bury_document
-- Leave a tombstone: the row stays, everything that was read from the document goes.
UPDATE ingest.documents SET status = 'deleted', generation = generation + 1, text = NULL, text_sha256 = NULL,
    chunked_text_sha256 = NULL, content_sha256 = NULL, etag = NULL, size_bytes = NULL, last_modified = NULL,
    seen_etag = NULL, seen_size_bytes = NULL, seen_last_modified = NULL, source_version = NULL,
    extractor_version = NULL, chunker_version = NULL, media_type = NULL, pages = '[]', headings = '[]',
    warnings = '[]', metadata = jsonb_build_object(), object_metadata = NULL, attempts = 0,
    retry_after = NULL, unreadable_reason = NULL, unreadable_detail = NULL, deletion = NULL, updated_at = clock_timestamp()
WHERE document_id = %(document_id)s

-- name: insert_receipt
-- Keep the proof of a deletion; `generation` is the last one that was deleted.
INSERT INTO ingest.deletion_receipts (document_id, source_uri, generation, cause, run_id, removed)
VALUES (%(document_id)s, %(source_uri)s, %(generation)s, %(cause)s, %(run_id)s, %(removed)s)

-- name: forget_letter_details
-- A sentence about a document's content goes with the document; stage, reason and times stay.
UPDATE ingest.dead_letters SET detail = '' WHERE document_id = %(document_id)s AND detail <> ''

-- name: see_every_row
-- Until the transaction ends: a statement from which row-level security would hide rows fails instead of counting fewer.
SELECT set_config('row_security', 'off', true)

-- name: find_deleted_document
-- One document by key, URI, partition key or id, one that was deleted before others: one row or none.
SELECT d.document_id, d.source_uri, d.source_key, d.status, d.generation, d.missing_since, d.deletion,
    d.seen_at, EXISTS (SELECT FROM ingest.deletion_receipts r WHERE r.document_id = d.document_id) AS has_receipt
FROM ingest.documents d
WHERE d.source_key = %(document)s OR d.source_uri = %(document)s OR d.partition_key = %(document)s
   OR d.document_id::text = %(document)s
ORDER BY (d.status = 'deleted') DESC, has_receipt DESC, (d.document_id::text = %(document)s) DESC,
    (d.source_uri = %(document)s) DESC, (d.source_key = %(document)s) DESC
LIMIT 1

-- name: select_receipts
-- The receipts of a document, newest first.
SELECT deleted_at, cause, run_id, generation, removed FROM ingest.deletion_receipts
WHERE document_id = %(document_id)s ORDER BY receipt_id DESC

-- name: count_remaining_rows
-- What is there of a document's generations up to one, by table and version; a row for each version, zero included.
SELECT 'documents' AS kind, NULL::text AS version, count(*) AS found FROM ingest.documents
WHERE document_id = %(document_id)s AND generation <= %(generation)s + 1 AND (
    text IS NOT NULL OR text_sha256 IS NOT NULL OR pages <> '[]' OR headings <> '[]' OR warnings <> '[]'
    OR metadata <> jsonb_build_object() OR object_metadata IS NOT NULL
    OR (status = 'deleted' AND content_sha256 IS NOT NULL))
UNION ALL
SELECT 'chunks', NULL, count(*) FROM ingest.chunks
WHERE document_id = %(document_id)s AND generation <= %(generation)s
UNION ALL
SELECT 'dead_letters', NULL, count(*) FROM ingest.dead_letters
WHERE document_id = %(document_id)s AND last_failed_at <= %(deleted_at)s AND (resolved_at IS NULL OR detail <> '')
UNION ALL
SELECT 'chunk_vectors', m.version, (
    SELECT count(*) FROM ingest.chunk_vectors v JOIN ingest.chunks c USING (chunk_id)
    WHERE c.document_id = %(document_id)s AND c.generation <= %(generation)s AND v.embedding_model_version = m.version)
FROM ingest.embedding_models m
UNION ALL
SELECT 'embedding_coverage', m.version, (
    SELECT count(*) FROM ingest.embedding_coverage e
    WHERE e.document_id = %(document_id)s AND e.generation <= %(generation)s AND e.embedding_model_version = m.version)
FROM ingest.embedding_models m
UNION ALL
SELECT 'publications', m.version, (
    SELECT count(*) FROM serving.publications p
    WHERE p.document_id = %(document_id)s AND p.generation <= %(generation)s AND p.embedding_model_version = m.version)
FROM ingest.embedding_models m
ORDER BY kind, version

-- name: count_remaining_serving_rows
-- One row: what a version's retrieval index has of a document's generations up to one.
SELECT count(*) AS found FROM {serving} WHERE document_id = %(document_id)s AND generation <= %(generation)s
