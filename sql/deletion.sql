-- Deletion of a document at every model version, and its proof.

-- name: lock_missing_document
-- Lock a document for its deletion: one row while a listing or a read says that it is gone.
SELECT document_id, source_uri, missing_since FROM ingest.documents
WHERE document_id = %(document_id)s AND missing_since IS NOT NULL AND deletion = 'allowed' AND status <> 'deleted' FOR UPDATE

-- name: count_document_rows
-- Rows that a document has, by table and version.
SELECT 'chunks' AS kind, NULL::text AS version, count(*) AS found FROM ingest.chunks WHERE document_id = %(document_id)s
UNION ALL
SELECT 'chunk_vectors', v.embedding_model_version, count(*)
FROM ingest.chunk_vectors v JOIN ingest.chunks c USING (chunk_id)
WHERE c.document_id = %(document_id)s GROUP BY v.embedding_model_version
UNION ALL
SELECT 'publications', embedding_model_version, count(*)
FROM serving.publications WHERE document_id = %(document_id)s GROUP BY embedding_model_version

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
    warnings = '[]', metadata = jsonb_build_object(), attempts = 0, retry_after = NULL, deletion = NULL, updated_at = clock_timestamp()
WHERE document_id = %(document_id)s

-- name: insert_receipt
-- Keep the proof of a deletion.
INSERT INTO ingest.deletion_receipts (document_id, source_uri, cause, run_id, removed)
VALUES (%(document_id)s, %(source_uri)s, %(cause)s, %(run_id)s, %(removed)s)
