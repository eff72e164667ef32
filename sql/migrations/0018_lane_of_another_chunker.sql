-- What made a document's generation: its object, or another extractor or chunker. Nobody waits for the latter.
ALTER TABLE ingest.documents ADD COLUMN changed_by text NOT NULL DEFAULT 'object' CHECK (changed_by IN ('object', 'rules'));
