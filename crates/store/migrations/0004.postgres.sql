-- Queues: what waits in one is drawn by its consumers, so the dispatcher must not meet it.

ALTER TABLE work ADD COLUMN queued BOOLEAN NOT NULL DEFAULT FALSE; -- it waits in a queue
UPDATE work SET queued = TRUE
 WHERE NOT ordered AND target IN (SELECT id FROM entity WHERE kind = 'queue');
DROP INDEX work_due;
CREATE INDEX work_due ON work (due_at, position) WHERE NOT queued;
-- With the holder, so that what waits and what is held is counted in the index alone.
DROP INDEX work_target;
CREATE INDEX work_target ON work (target, due_at, position, holder) WHERE NOT ordered;

ALTER TABLE outcome ADD COLUMN queue BYTEA;     -- the queue that it died in, if it did in one
UPDATE outcome SET queue = (SELECT m.target FROM message m JOIN entity e ON e.id = m.target
                             WHERE m.position = outcome.position AND e.kind = 'queue')
 WHERE state <> 'done' AND state = 'dead';
CREATE INDEX outcome_queue ON outcome (queue, position) WHERE queue IS NOT NULL;
