-- The base tables: entities, message streams, their work and its outcomes, and idempotency keys.
-- Rows of `message` never change. Pending work is a row of `work`, a settled one a row of
-- `outcome`. Times are integer milliseconds since 1970. Tables grow in the order of `position`.

CREATE TABLE counter (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    position INTEGER NOT NULL,                  -- the last position, in commit order
    at       INTEGER NOT NULL                   -- the last commit time, time never runs backwards
) STRICT;
INSERT INTO counter VALUES (1, 0, 0);

CREATE TABLE node (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    epoch      INTEGER NOT NULL,                -- counts the owners; every batch checks it
    clean      INTEGER NOT NULL,                -- 1 after a clean shutdown of the owner
    suspect    INTEGER NOT NULL,                -- up to here a delivery may have crashed a process
    owner      TEXT    NOT NULL                 -- the owner, for messages
) STRICT;
INSERT INTO node VALUES (1, 0, 1, 0, '');

CREATE TABLE entity (
    id         BLOB    NOT NULL PRIMARY KEY,    -- the first 16 bytes of a hash of kind, class, name
    shard      INTEGER NOT NULL,                -- the first byte of the id
    kind       TEXT    NOT NULL,
    class      TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    closed_at  INTEGER                          -- when it ended; NULL: it has not
) STRICT, WITHOUT ROWID;
CREATE INDEX entity_name ON entity (kind, class, name);
CREATE INDEX entity_address ON entity ((kind || '/' || class || '/' || name));

CREATE TABLE message (
    position   INTEGER NOT NULL PRIMARY KEY,
    stream     BLOB    NOT NULL,                -- the entity of its stream
    version    INTEGER NOT NULL,                -- its version in the stream, from 1
    kind       TEXT    NOT NULL,                -- C command, E event
    direction  TEXT    NOT NULL,                -- I input, O output
    action     TEXT    NOT NULL,                -- receive, send, publish, reply, schedule, complete
    type       TEXT    NOT NULL,
    schema     INTEGER NOT NULL,
    target     BLOB,                            -- the target; NULL: it is not delivered
    ordered    INTEGER NOT NULL,
    cause      INTEGER,                         -- the position of its cause
    created_at INTEGER NOT NULL,
    data       TEXT    NOT NULL,                -- JSON; last, because large rows overflow to other pages
    metadata   TEXT    NOT NULL                 -- JSON
) STRICT;
CREATE UNIQUE INDEX message_stream ON message (stream, version);

CREATE TABLE work (
    position   INTEGER NOT NULL PRIMARY KEY,
    shard      INTEGER NOT NULL,                -- the shard of the target
    target     BLOB    NOT NULL,
    ordered    INTEGER NOT NULL,
    due_at     INTEGER NOT NULL,                -- while it is claimed: when the lease ends
    attempts   INTEGER NOT NULL,
    forgiven   INTEGER NOT NULL,                -- attempts before it was revived
    holder     INTEGER,                         -- the epoch that claimed it; 0 from outside
    lease      INTEGER,
    claimed_at INTEGER
) STRICT;
CREATE INDEX work_due ON work (due_at, position);
CREATE INDEX work_target ON work (target, due_at, position) WHERE NOT ordered;
CREATE INDEX work_order ON work (target, position) WHERE ordered;
CREATE INDEX work_claimed ON work (holder) WHERE holder IS NOT NULL;

CREATE TABLE outcome (
    position   INTEGER NOT NULL PRIMARY KEY,
    state      TEXT    NOT NULL,                -- done, dead, cancelled
    settled_at INTEGER NOT NULL,
    attempts   INTEGER NOT NULL,
    error      TEXT
) STRICT;
CREATE INDEX outcome_not_done ON outcome (position) WHERE state <> 'done';

CREATE TABLE attempt (                          -- failed attempts only
    position   INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER NOT NULL,
    error      TEXT    NOT NULL,
    PRIMARY KEY (position, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE snapshot (                         -- the folded state of a stream
    entity     BLOB    NOT NULL PRIMARY KEY,
    version    INTEGER NOT NULL,                -- the last message that is in it
    code       INTEGER NOT NULL,                -- the version of the code that made it
    state      TEXT    NOT NULL                 -- JSON
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency (
    scope        BLOB    NOT NULL,
    key          TEXT    NOT NULL,
    request_hash BLOB    NOT NULL,
    position     INTEGER NOT NULL,              -- the first message of the commit; 0: it had none
    status       INTEGER NOT NULL,
    reply        TEXT,
    expires_at   INTEGER NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_expires ON idempotency (expires_at);

-- The stream as one table, for database clients. `position` is the version in the stream.
-- One branch a state, so that a query for one of them touches only its rows.
CREATE VIEW workflow_messages AS
SELECT e.kind || '/' || e.class || '/' || e.name AS workflow_id, m.version AS position,
       m.kind, m.direction, m.type AS message_type, m.data AS message_data,
       m.metadata AS message_metadata, FALSE AS processed, m.created_at, NULL AS processed_at,
       m.position AS global_position, m.action,
       CASE WHEN w.holder IS NULL THEN 'pending' ELSE 'in flight' END AS state,
       w.due_at, w.attempts - w.forgiven AS attempts,
       (SELECT a.error FROM attempt a WHERE a.position = w.position ORDER BY a.number DESC LIMIT 1) AS error
  FROM work w JOIN message m ON m.position = w.position JOIN entity e ON e.id = m.stream
UNION ALL
SELECT e.kind || '/' || e.class || '/' || e.name, m.version,
       m.kind, m.direction, m.type, m.data,
       m.metadata, TRUE, m.created_at, o.settled_at,
       m.position, m.action, o.state, NULL, o.attempts, o.error
  FROM outcome o JOIN message m ON m.position = o.position JOIN entity e ON e.id = m.stream
 WHERE o.state = 'done'
UNION ALL
SELECT e.kind || '/' || e.class || '/' || e.name, m.version,
       m.kind, m.direction, m.type, m.data,
       m.metadata, FALSE, m.created_at, NULL,
       m.position, m.action, o.state, NULL, o.attempts, o.error
  FROM outcome o JOIN message m ON m.position = o.position JOIN entity e ON e.id = m.stream
 WHERE o.state <> 'done'
UNION ALL
SELECT e.kind || '/' || e.class || '/' || e.name, m.version,
       m.kind, m.direction, m.type, m.data,
       m.metadata, NULL, m.created_at, NULL,
       m.position, m.action, NULL, NULL, NULL, NULL
  FROM message m JOIN entity e ON e.id = m.stream
 WHERE m.target IS NULL;
