-- Queues: consumers take their messages, and the dispatcher must not deliver them.

ALTER TABLE work ADD COLUMN queued BOOLEAN NOT NULL DEFAULT FALSE; -- it is in a queue
UPDATE work SET queued = TRUE
 WHERE NOT ordered AND target IN (SELECT id FROM entity WHERE kind = 'queue');
DROP INDEX work_due;
CREATE INDEX work_due ON work (due_at, position) WHERE NOT queued;
-- With the holder, so that the index alone counts pending and claimed messages.
DROP INDEX work_target;
CREATE INDEX work_target ON work (target, due_at, position, holder) WHERE NOT ordered;

ALTER TABLE outcome ADD COLUMN queue BYTEA;     -- the queue of a dead message
UPDATE outcome SET queue = (SELECT m.target FROM message m JOIN entity e ON e.id = m.target
                             WHERE m.position = outcome.position AND e.kind = 'queue')
 WHERE state <> 'done' AND state = 'dead';
CREATE INDEX outcome_queue ON outcome (queue, position) WHERE queue IS NOT NULL;
