-- The clock of the store: after a step forward, nothing is deleted by age before a time.

ALTER TABLE counter ADD COLUMN delete_from BIGINT NOT NULL DEFAULT 0;
