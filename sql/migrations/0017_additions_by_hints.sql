-- Documents that events made known after a listing: the next one finds them known, and they are half of a rename all the same.
ALTER TABLE ingest.source_listings ADD COLUMN added_by_hints bigint NOT NULL DEFAULT 0;
