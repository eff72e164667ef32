-- A trouble that may pass by itself is known before people are told.
ALTER TABLE ingest.alert_states ALTER COLUMN told_at DROP NOT NULL;
