-- The base tables: entities, message streams, their work and its outcomes, and idempotency keys.
-- The same tables as in the SQLite file of the same number.
-- Rows of `message` never change. Pending work is a row of `work`, a settled one a row of
-- `outcome`. Times are integer milliseconds since 1970. Tables grow in the order of `position`.

CREATE TABLE counter (
    id           SMALLINT         PRIMARY KEY CHECK (id = 1),
    position     BIGINT           NOT NULL,     -- the last position, in commit order
    at           BIGINT           NOT NULL      -- the last commit time, time never runs backwards
);
INSERT INTO counter VALUES (1, 0, 0);

CREATE TABLE node (
    id           SMALLINT         PRIMARY KEY CHECK (id = 1),
    epoch        BIGINT           NOT NULL,     -- counts the owners; every batch checks it
    last_batch   BIGINT           NOT NULL,     -- the last batch of this epoch: the outcome of a lost COMMIT
    lease_until  TIMESTAMPTZ      NOT NULL,     -- by the database's clock
    clean        BOOLEAN          NOT NULL,     -- true after a clean shutdown of the owner
    suspect      BIGINT           NOT NULL,     -- up to here a delivery may have crashed a process
    owner        TEXT             NOT NULL,     -- the owner, for messages
    process      TEXT             NOT NULL      -- its identity, to check on the same machine whether it runs
);
INSERT INTO node VALUES (1, 0, 0, '-infinity', TRUE, 0, '', '');

CREATE TABLE entity (
    id           BYTEA            NOT NULL PRIMARY KEY,-- the first 16 bytes of a hash of kind, class, name
    shard        SMALLINT         NOT NULL,     -- the first byte of the id
    kind         TEXT             COLLATE "C" NOT NULL,
    class        TEXT             COLLATE "C" NOT NULL,
    name         TEXT             COLLATE "C" NOT NULL,
    created_at   BIGINT           NOT NULL,
    closed_at    BIGINT                         -- when it ended; NULL: it has not
);
CREATE INDEX entity_name ON entity (kind, class, name);
CREATE INDEX entity_address ON entity ((kind || '/' || class || '/' || name));

CREATE TABLE message (
    position     BIGINT           NOT NULL PRIMARY KEY,
    stream       BYTEA            NOT NULL,     -- the entity of its stream
    version      BIGINT           NOT NULL,     -- its version in the stream, from 1
    kind         TEXT             COLLATE "C" NOT NULL,-- C command, E event
    direction    TEXT             NOT NULL,     -- I input, O output
    action       TEXT             NOT NULL,     -- receive, send, publish, reply, schedule, complete
    type         TEXT             NOT NULL,
    schema       INTEGER          NOT NULL,
    target       BYTEA,                         -- the target; NULL: it is not delivered
    ordered      BOOLEAN          NOT NULL,
    cause        BIGINT,                        -- the position of its cause
    created_at   BIGINT           NOT NULL,
    data         TEXT             NOT NULL,     -- JSON; last, because large rows overflow to other pages
    metadata     TEXT             NOT NULL      -- JSON
);
CREATE UNIQUE INDEX message_stream ON message (stream, version);

CREATE TABLE work (
    position     BIGINT           NOT NULL PRIMARY KEY,
    shard        SMALLINT         NOT NULL,     -- the shard of the target
    target       BYTEA            NOT NULL,
    ordered      BOOLEAN          NOT NULL,
    due_at       BIGINT           NOT NULL,     -- while it is claimed: when the lease ends
    attempts     INTEGER          NOT NULL,
    forgiven     INTEGER          NOT NULL,     -- attempts before it was revived
    holder       BIGINT,                        -- the epoch that claimed it; 0 from outside
    lease        BIGINT,
    claimed_at   BIGINT
);
-- Rows are short-lived: vacuum early, or dead rows slow down claims.
ALTER TABLE work SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX work_due ON work (due_at, position);
CREATE INDEX work_target ON work (target, due_at, position) WHERE NOT ordered;
CREATE INDEX work_order ON work (target, position) WHERE ordered;
CREATE INDEX work_claimed ON work (holder) WHERE holder IS NOT NULL;

CREATE TABLE outcome (
    position     BIGINT           NOT NULL PRIMARY KEY,
    state        TEXT             NOT NULL,     -- done, dead, cancelled
    settled_at   BIGINT           NOT NULL,
    attempts     INTEGER          NOT NULL,
    error        TEXT
);
CREATE INDEX outcome_not_done ON outcome (position) WHERE state <> 'done';

CREATE TABLE attempt (                          -- failed attempts only
    position     BIGINT           NOT NULL,
    number       INTEGER          NOT NULL,
    started_at   BIGINT           NOT NULL,
    ended_at     BIGINT           NOT NULL,
    error        TEXT             NOT NULL,
    PRIMARY KEY (position, number)
);

CREATE TABLE snapshot (                         -- the folded state of a stream
    entity       BYTEA            NOT NULL PRIMARY KEY,
    version      BIGINT           NOT NULL,     -- the last message that is in it
    code         INTEGER          NOT NULL,     -- the version of the code that made it
    state        TEXT             NOT NULL      -- JSON
);

CREATE TABLE idempotency (
    scope        BYTEA            NOT NULL,
    key          TEXT             COLLATE "C"    NOT NULL,
    request_hash BYTEA            NOT NULL,
    position     BIGINT           NOT NULL,     -- the first message of the commit; 0: it had none
    status       INTEGER          NOT NULL,
    reply        TEXT,
    expires_at   BIGINT           NOT NULL,
    PRIMARY KEY (scope, key)
);
CREATE INDEX idempotency_expires ON idempotency (expires_at);

-- The stream as one table, for database clients. `position` is the version in the stream.
-- One branch a state, so that a query for one of them touches only its rows.
CREATE VIEW workflow_messages AS
SELECT e.kind || '/' || e.class || '/' || e.name AS workflow_id, m.version AS position,
       m.kind, m.direction, m.type AS message_type, m.data::json AS message_data,
       m.metadata::json AS message_metadata, FALSE AS processed, m.created_at, NULL::bigint AS processed_at,
       m.position AS global_position, m.action,
       CASE WHEN w.holder IS NULL THEN 'pending' ELSE 'in flight' END AS state,
       w.due_at, w.attempts - w.forgiven AS attempts,
       (SELECT a.error FROM attempt a WHERE a.position = w.position ORDER BY a.number DESC LIMIT 1) AS error
  FROM work w JOIN message m ON m.position = w.position JOIN entity e ON e.id = m.stream
UNION ALL
SELECT e.kind || '/' || e.class || '/' || e.name, m.version,
       m.kind, m.direction, m.type, m.data::json,
       m.metadata::json, TRUE, m.created_at, o.settled_at,
       m.position, m.action, o.state, NULL, o.attempts, o.error
  FROM outcome o JOIN message m ON m.position = o.position JOIN entity e ON e.id = m.stream
 WHERE o.state = 'done'
UNION ALL
SELECT e.kind || '/' || e.class || '/' || e.name, m.version,
       m.kind, m.direction, m.type, m.data::json,
       m.metadata::json, FALSE, m.created_at, NULL,
       m.position, m.action, o.state, NULL, o.attempts, o.error
  FROM outcome o JOIN message m ON m.position = o.position JOIN entity e ON e.id = m.stream
 WHERE o.state <> 'done'
UNION ALL
SELECT e.kind || '/' || e.class || '/' || e.name, m.version,
       m.kind, m.direction, m.type, m.data::json,
       m.metadata::json, NULL, m.created_at, NULL,
       m.position, m.action, NULL, NULL, NULL, NULL
  FROM message m JOIN entity e ON e.id = m.stream
 WHERE m.target IS NULL;
