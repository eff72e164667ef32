-- A receipt names the last generation it speaks of: what is there of a document that came back later is not what was deleted.
ALTER TABLE ingest.deletion_receipts ADD COLUMN generation bigint;
UPDATE ingest.deletion_receipts r SET generation = d.generation - 1 FROM ingest.documents d
WHERE d.document_id = r.document_id AND d.status = 'deleted'
  AND r.receipt_id = (SELECT max(n.receipt_id) FROM ingest.deletion_receipts n WHERE n.document_id = r.document_id);
-- What cannot be told any more is before everything that is there.
UPDATE ingest.deletion_receipts SET generation = 0 WHERE generation IS NULL;
ALTER TABLE ingest.deletion_receipts ALTER COLUMN generation SET NOT NULL;
UPDATE ingest.dead_letters l SET detail = '' FROM ingest.deletion_receipts r
WHERE r.document_id = l.document_id AND l.last_failed_at <= r.deleted_at;

-- Why a document could not be read the last time, while it waits for another attempt.
ALTER TABLE ingest.documents ADD COLUMN unreadable_reason text, ADD COLUMN unreadable_detail text;
