-- A deletion, a new generation and a cascade look for the dead letters of one document, closed ones included.
CREATE INDEX dead_letters_document ON ingest.dead_letters (document_id);
