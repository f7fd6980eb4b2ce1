-- The store in PostgreSQL. schema/sqlite.sql has the same tables for SQLite, except for `loss`.
--
-- Times are integer milliseconds since 1970. A position is the number of a message or turn in the
-- order of commits, over all streams. Rows with a position are added in its order.

CREATE TABLE meta (
    key           TEXT        PRIMARY KEY,
    value         BIGINT      NOT NULL              -- of `format`: the number of the format
);

CREATE TABLE counter (                              -- one row
    id            SMALLINT    PRIMARY KEY CHECK (id = 1),
    position      BIGINT      NOT NULL,             -- the last position
    at            BIGINT      NOT NULL,             -- the last commit time; it never decreases
    delete_from   BIGINT      NOT NULL,             -- before this time nothing is deleted by age
    swept         BIGINT      NOT NULL,             -- the position of the retention sweep
    pending       BIGINT      NOT NULL,             -- the number of pending messages
    dead          BIGINT      NOT NULL              -- the number of dead messages
);
INSERT INTO counter VALUES (1, 0, 0, 0, 0, 0, 0);

CREATE TABLE node (                                 -- the owner of the store; one row
    id            SMALLINT    PRIMARY KEY CHECK (id = 1),
    epoch         BIGINT      NOT NULL,             -- counts the owners; every batch checks it
    last_batch    BIGINT      NOT NULL,             -- of this epoch: the outcome of a lost COMMIT
    lease_until   TIMESTAMPTZ NOT NULL,             -- by the clock of the database
    clean         BOOLEAN     NOT NULL,             -- true after a clean shutdown of the owner
    suspect       BIGINT      NOT NULL,             -- up to here deliveries may have crashed it
    owner         TEXT        NOT NULL,             -- the process, for error messages
    process       TEXT        NOT NULL              -- its identity on its machine
);
INSERT INTO node VALUES (1, 0, 0, '-infinity', TRUE, 0, '', '');

CREATE TABLE loss (                                 -- acknowledged commits that this database lacks
    lineage       BIGINT      NOT NULL PRIMARY KEY, -- counts from 1: the history that follows it
    batch_from    BIGINT      NOT NULL,             -- the batches of the owner that detected it
    batch_to      BIGINT      NOT NULL,
    kept          BIGINT      NOT NULL,             -- the last position that was found
    lost          BIGINT      NOT NULL,             -- the last position that was acknowledged
    owner         TEXT        NOT NULL,             -- the process that detected it
    found_at      BIGINT      NOT NULL,
    begins        BIGINT                            -- the new history follows it; NULL: undecided
);

-- Entities: streams, objects, runs, processes and queues. They are found by their address, the
-- concatenation of kind, class and name.

CREATE TABLE entity (
    id            BYTEA       NOT NULL PRIMARY KEY, -- 16 bytes of a hash of kind, class and name
    shard         SMALLINT    NOT NULL,             -- the first byte of the id
    kind          TEXT        COLLATE "C" NOT NULL,
    class         TEXT        COLLATE "C" NOT NULL,
    name          TEXT        COLLATE "C" NOT NULL,
    origin        BIGINT,                           -- of its stream; NULL: it has no stream
    created_at    BIGINT      NOT NULL,
    closed_at     BIGINT                            -- when it ended; NULL: it has not
);
CREATE INDEX entity_address ON entity ((kind || '/' || class || '/' || name));
-- Most objects have no stream, and all runs do.
CREATE INDEX entity_stream ON entity ((kind || '/' || class || '/' || name))
 WHERE origin IS NOT NULL AND kind <> 'run';

-- Messages. A row of `message` never changes: a pending message has a row of `work` too, a settled
-- one a row of `outcome`. Streams are found by their origin, which is the position of their first
-- message: ids are hashes, so each commit of each stream would change another page of an index.

CREATE TABLE message (
    position      BIGINT      NOT NULL PRIMARY KEY,
    origin        BIGINT      NOT NULL,             -- of its stream
    version       BIGINT      NOT NULL,             -- its number in the stream, from 1
    stream        BYTEA       NOT NULL,             -- the entity of its stream
    kind          TEXT        COLLATE "C" NOT NULL, -- C command, E event
    direction     TEXT        NOT NULL,             -- I input, O output
    action        TEXT        NOT NULL,             -- for example send, publish, reply, schedule
    type          TEXT        NOT NULL,
    schema        INTEGER     NOT NULL,             -- the version of the type
    target        BYTEA,                            -- the receiver; NULL: it is not delivered
    ordered       BOOLEAN     NOT NULL,             -- true: after all earlier ones of this target
    cause         BIGINT,                           -- the position of its cause
    created_at    BIGINT      NOT NULL,
    data          TEXT        NOT NULL,             -- JSON; late, because it may overflow the page
    metadata      TEXT        NOT NULL              -- JSON
);
CREATE UNIQUE INDEX message_stream ON message (origin, version);

CREATE TABLE work (
    position      BIGINT      NOT NULL PRIMARY KEY, -- of the message
    shard         SMALLINT    NOT NULL,             -- of the target
    target        BYTEA       NOT NULL,
    ordered       BOOLEAN     NOT NULL,
    queued        BOOLEAN     NOT NULL,             -- true: consumers of its queue take it
    due_at        BIGINT      NOT NULL,             -- while it is claimed: when the lease ends
    attempts      INTEGER     NOT NULL,
    forgiven      INTEGER     NOT NULL,             -- attempts before it was revived
    holder        BIGINT,                           -- the epoch that claimed it; 0: a client
    lease         BIGINT,
    claimed_at    BIGINT
);
-- Rows are short-lived: vacuum early, or dead rows slow down claims.
ALTER TABLE work SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX work_due ON work (due_at, position) WHERE NOT queued;
-- With the holder, so that the index alone counts pending and claimed messages.
CREATE INDEX work_target ON work (target, due_at, position, holder) WHERE NOT ordered;
CREATE INDEX work_order ON work (target, position) WHERE ordered;
CREATE INDEX work_claimed ON work (holder) WHERE holder IS NOT NULL;

CREATE TABLE outcome (
    position      BIGINT      NOT NULL PRIMARY KEY, -- of the message
    state         TEXT        NOT NULL,             -- done, dead, cancelled
    settled_at    BIGINT      NOT NULL,
    attempts      INTEGER     NOT NULL,
    error         TEXT,
    queue         BYTEA                             -- the queue of a dead message
);
CREATE INDEX outcome_not_done ON outcome (position) WHERE state <> 'done';
CREATE INDEX outcome_queue ON outcome (queue, position) WHERE queue IS NOT NULL;

CREATE TABLE attempt (                              -- failed attempts only
    position      BIGINT      NOT NULL,             -- of the message
    number        INTEGER     NOT NULL,
    started_at    BIGINT      NOT NULL,
    ended_at      BIGINT      NOT NULL,
    error         TEXT        NOT NULL,
    PRIMARY KEY (position, number)
);

CREATE TABLE depth (                                -- the number of messages of each queue
    queue         BYTEA       NOT NULL PRIMARY KEY,
    waiting       BIGINT      NOT NULL,
    dead          BIGINT      NOT NULL
);

CREATE TABLE snapshot (                             -- the folded state of a stream
    entity        BYTEA       NOT NULL PRIMARY KEY,
    version       BIGINT      NOT NULL,             -- the last message that is in it
    code          INTEGER     NOT NULL,             -- the version of the code that made it
    state         TEXT        NOT NULL              -- JSON
);

CREATE TABLE idempotency (
    scope         BYTEA       NOT NULL,
    key           TEXT        COLLATE "C" NOT NULL,
    request_hash  BYTEA       NOT NULL,
    position      BIGINT      NOT NULL,             -- the first message of the commit; 0: none
    status        INTEGER     NOT NULL,
    reply         TEXT,
    expires_at    BIGINT      NOT NULL,
    PRIMARY KEY (scope, key)
);
CREATE INDEX idempotency_expires ON idempotency (expires_at);

CREATE TABLE expiring (                             -- rows that the sweep must process again
    list          TEXT        NOT NULL,             -- dead and late: messages, ended: entities
    since         BIGINT      NOT NULL,
    position      BIGINT      NOT NULL,             -- the message; 0: none
    entity        BYTEA       NOT NULL,             -- the entity; zeros: none
    PRIMARY KEY (list, since, position, entity)
);

-- Objects: the log of their turns, their heads, and images of their pages. Turns of many objects
-- share the pages they are written to; `prev` leads from a turn of an object to the one before it.

CREATE TABLE head (                                 -- the last turn of each object; a small row
    number        BIGINT      NOT NULL PRIMARY KEY, -- the position of its first turn
    seq           BIGINT      NOT NULL,             -- the number of its turns
    position      BIGINT      NOT NULL,             -- its last turn
    chk           BIGINT      NOT NULL              -- chained over all its turns
) WITH (fillfactor = 50);                           -- every turn updates its row in place

CREATE TABLE base (                                 -- the turn of the images of an object
    entity        BYTEA       NOT NULL PRIMARY KEY,
    number        BIGINT      NOT NULL,             -- of its head
    seq           BIGINT      NOT NULL,             -- the turn; 0: none
    position      BIGINT      NOT NULL,
    chk           BIGINT      NOT NULL,
    pages         BIGINT      NOT NULL,             -- the length of its database then
    history_bytes BIGINT      NOT NULL,             -- of the deltas up to there that are kept
    parts_seq     BIGINT      NOT NULL,             -- the turn that images are being written for
    parts         BIGINT      NOT NULL              -- the number of parts written
);
CREATE UNIQUE INDEX base_number ON base (number);
CREATE INDEX base_history ON base (number) WHERE history_bytes > 1048576;

CREATE TABLE turn (
    position      BIGINT      NOT NULL PRIMARY KEY,
    entity        BYTEA       NOT NULL,
    seq           BIGINT      NOT NULL,             -- its number, from 1
    prev          BIGINT      NOT NULL,             -- the position of the turn before; 0: none
    at            BIGINT      NOT NULL,
    cause         BIGINT,                           -- the message that was delivered, if it was one
    sent          BIGINT      NOT NULL,             -- the number of messages that it sent
    chk           BIGINT      NOT NULL,
    input         TEXT        NOT NULL,             -- the name of the message
    delta         BYTEA       NOT NULL              -- the changed pages, before and after
);

CREATE TABLE image (
    entity        BYTEA       NOT NULL,
    page          BIGINT      NOT NULL,             -- from 1
    seq           BIGINT      NOT NULL,             -- the turn of the image
    crc           BIGINT      NOT NULL,             -- of the whole page
    data          BYTEA       NOT NULL,             -- the page without its zeros
    PRIMARY KEY (entity, page)
);

-- Runs of workflows, for lists: their records are in their streams. A list of all states is merged
-- from one list of each. Runs whose names have a prefix are found by `entity_address`: each index
-- costs at every start and change of a run.

CREATE TABLE run (
    number        BIGINT      NOT NULL PRIMARY KEY, -- the origin of its stream
    entity        BYTEA       NOT NULL,
    workflow      TEXT        COLLATE "C" NOT NULL, -- the class of the entity
    name          TEXT        COLLATE "C" NOT NULL, -- the name of the entity
    status        TEXT        COLLATE "C" NOT NULL, -- a tag of `RunStatus`
    created_at    BIGINT      NOT NULL,
    changed_at    BIGINT      NOT NULL,
    expires_at    BIGINT                            -- when it may be erased; NULL: it is kept
);
CREATE INDEX run_status ON run (workflow, status, created_at, entity);
CREATE INDEX run_expires ON run (expires_at, entity) WHERE expires_at IS NOT NULL;

-- Entries: small values under sorted keys, each with a revision. A removed entry keeps its revision
-- until it expires, so that the revisions of a key only increase.

CREATE TABLE entry (
    space         TEXT        COLLATE "C" NOT NULL, -- the list, for example blob/photos
    key           BYTEA       NOT NULL,             -- lists are in the order of its bytes
    revision      BIGINT      NOT NULL,             -- from 1, one more with every change
    value         TEXT,                             -- JSON, of a counter a number; NULL: it was removed
    reference     BYTEA,                            -- the id of a file outside of the store
    changed_at    BIGINT      NOT NULL,
    expires_at    BIGINT,                           -- when the row may be deleted; NULL: it is kept
    PRIMARY KEY (space, key)
);
CREATE INDEX entry_reference ON entry (reference) WHERE reference IS NOT NULL;
CREATE INDEX entry_expires ON entry (expires_at) WHERE expires_at IS NOT NULL;
-- In the order of their last change, for rules that delete by age after a cursor.
CREATE INDEX entry_changed ON entry (space, changed_at, key) WHERE value IS NOT NULL;

-- All streams as one table, for database clients. `position` is the version in the stream. The flag
-- `processed` of dead and cancelled messages is NULL, so `processed = FALSE` selects pending ones.
-- Each state has a branch of its own, so that a query for one of them reads only its rows.
CREATE VIEW workflow_messages AS
SELECT e.kind || '/' || e.class || '/' || e.name AS workflow_id, m.version AS position,
       m.kind, m.direction, m.type AS message_type, m.data::json AS message_data,
       m.metadata::json AS message_metadata, FALSE AS processed, m.created_at,
       NULL::bigint AS processed_at,
       m.position AS global_position, m.action,
       CASE WHEN w.holder IS NULL THEN 'pending' ELSE 'in flight' END AS state,
       w.due_at, w.attempts - w.forgiven AS attempts,
       (SELECT a.error FROM attempt a WHERE a.position = w.position ORDER BY a.number DESC
        LIMIT 1) AS error
  FROM work w JOIN message m ON m.position = w.position
  JOIN entity e ON e.id = m.stream AND e.origin = m.origin
UNION ALL
SELECT e.kind || '/' || e.class || '/' || e.name, m.version,
       m.kind, m.direction, m.type, m.data::json,
       m.metadata::json, TRUE, m.created_at, o.settled_at,
       m.position, m.action, o.state, NULL, o.attempts, o.error
  FROM outcome o JOIN message m ON m.position = o.position
  JOIN entity e ON e.id = m.stream AND e.origin = m.origin
 WHERE o.state = 'done'
UNION ALL
SELECT e.kind || '/' || e.class || '/' || e.name, m.version,
       m.kind, m.direction, m.type, m.data::json,
       m.metadata::json, NULL, m.created_at, NULL,
       m.position, m.action, o.state, NULL, o.attempts, o.error
  FROM outcome o JOIN message m ON m.position = o.position
  JOIN entity e ON e.id = m.stream AND e.origin = m.origin
 WHERE o.state <> 'done'
UNION ALL
SELECT e.kind || '/' || e.class || '/' || e.name, m.version,
       m.kind, m.direction, m.type, m.data::json,
       m.metadata::json, NULL, m.created_at, NULL,
       m.position, m.action, NULL, NULL, NULL, NULL
  FROM message m JOIN entity e ON e.id = m.stream AND e.origin = m.origin
 WHERE m.target IS NULL;
