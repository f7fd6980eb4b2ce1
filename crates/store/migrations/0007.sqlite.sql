-- The clock of the store: after a step forward, nothing is deleted by age before a time.

ALTER TABLE counter ADD COLUMN delete_from INTEGER NOT NULL DEFAULT 0;
