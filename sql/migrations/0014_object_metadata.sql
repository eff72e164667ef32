-- The metadata of the object alone, without the document's properties: equal bytes with other metadata are a change.
-- NULL where it was not noted, before this migration.
ALTER TABLE ingest.documents ADD COLUMN object_metadata jsonb;
