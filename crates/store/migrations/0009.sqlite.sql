-- Retention and counters: the position of the sweep, the rows that it must process again, and the
-- numbers of messages.

ALTER TABLE counter ADD COLUMN swept INTEGER NOT NULL DEFAULT 0;   -- the position of the sweep
ALTER TABLE counter ADD COLUMN pending INTEGER NOT NULL DEFAULT 0; -- pending messages
ALTER TABLE counter ADD COLUMN dead INTEGER NOT NULL DEFAULT 0;    -- dead messages
UPDATE counter SET pending = (SELECT count(*) FROM work),
       dead = (SELECT count(*) FROM outcome WHERE state <> 'done' AND state = 'dead');

CREATE TABLE IF NOT EXISTS depth (                            -- the depth of each queue
    queue      BLOB NOT NULL PRIMARY KEY,
    waiting    INTEGER NOT NULL,
    dead       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO depth
SELECT n.queue, CAST(sum(n.waiting) AS INTEGER), CAST(sum(n.dead) AS INTEGER) FROM (
       SELECT target AS queue, count(*) AS waiting, 0 AS dead FROM work WHERE queued GROUP BY target
       UNION ALL
       SELECT queue, 0, count(*) FROM outcome WHERE queue IS NOT NULL AND state = 'dead'
        GROUP BY queue) AS n
 GROUP BY n.queue;

CREATE TABLE IF NOT EXISTS expiring (                         -- rows that the sweep must process again
    list       TEXT    NOT NULL,                -- dead and late: messages, ended: entities
    since      INTEGER NOT NULL,
    position   INTEGER NOT NULL,                -- the message; 0: none
    entity     BLOB NOT NULL,               -- the entity; zeros: none
    PRIMARY KEY (list, since, position, entity)
) STRICT, WITHOUT ROWID;
INSERT INTO expiring
SELECT 'dead', settled_at, position, zeroblob(16) FROM outcome WHERE state <> 'done' AND state = 'dead';
INSERT INTO expiring
SELECT 'ended', coalesce(e.closed_at, c.at), 0, e.id FROM entity e, counter c
 WHERE (e.kind = 'process' AND (e.closed_at IS NOT NULL OR e.origin IS NULL))
    OR (e.kind = 'run' AND e.origin IS NULL)
    OR (e.kind = 'object' AND NOT EXISTS (SELECT 1 FROM base b WHERE b.entity = e.id));

-- Most objects have no stream, and all runs do.
CREATE INDEX IF NOT EXISTS entity_stream ON entity ((kind || '/' || class || '/' || name)) WHERE origin IS NOT NULL AND kind <> 'run';
CREATE INDEX IF NOT EXISTS base_history ON base (number) WHERE history_bytes > 1048576;

-- Entries in the order of their last change, for rules that delete by age after a cursor.
CREATE INDEX IF NOT EXISTS entry_changed ON entry (space, changed_at, key) WHERE value IS NOT NULL;
