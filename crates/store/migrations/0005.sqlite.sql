-- Streams are found by an increasing number, not by their ids: ids are hashes, so that every
-- commit of every stream would change another page of the index. The number, the origin of a
-- stream, is the position of its first message. The column precedes `data`: after a large
-- message it would be on another page. The table is therefore created again.

ALTER TABLE entity ADD COLUMN origin INTEGER;   -- of its stream; NULL: it has none yet
UPDATE entity SET origin = (SELECT m.position FROM message m WHERE m.stream = entity.id
                            ORDER BY m.version LIMIT 1);

DROP VIEW workflow_messages;
ALTER TABLE message RENAME TO message_before;

CREATE TABLE message (
    position   INTEGER NOT NULL PRIMARY KEY,
    origin     INTEGER NOT NULL,                -- of its stream: the position of the first message
    version    INTEGER NOT NULL,                -- its version in the stream, from 1
    stream     BLOB    NOT NULL,                -- the entity of its stream
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
INSERT INTO message
SELECT m.position, (SELECT o.position FROM message_before o WHERE o.stream = m.stream
                    ORDER BY o.version LIMIT 1),
       m.version, m.stream, m.kind, m.direction, m.action, m.type, m.schema, m.target, m.ordered,
       m.cause, m.created_at, m.data, m.metadata
  FROM message_before m ORDER BY m.position;
DROP TABLE message_before;
CREATE UNIQUE INDEX message_stream ON message (origin, version);

-- As before, with references in both directions: from a message to its entity by the id, from an
-- entity to its messages by the origin.
CREATE VIEW workflow_messages AS
SELECT e.kind || '/' || e.class || '/' || e.name AS workflow_id, m.version AS position,
       m.kind, m.direction, m.type AS message_type, m.data AS message_data,
       m.metadata AS message_metadata, FALSE AS processed, m.created_at, NULL AS processed_at,
       m.position AS global_position, m.action,
       CASE WHEN w.holder IS NULL THEN 'pending' ELSE 'in flight' END AS state,
       w.due_at, w.attempts - w.forgiven AS attempts,
       (SELECT a.error FROM attempt a WHERE a.position = w.position ORDER BY a.number DESC
        LIMIT 1) AS error
  FROM work w JOIN message m ON m.position = w.position
  JOIN entity e ON e.id = m.stream AND e.origin = m.origin
UNION ALL
SELECT e.kind || '/' || e.class || '/' || e.name, m.version,
       m.kind, m.direction, m.type, m.data,
       m.metadata, TRUE, m.created_at, o.settled_at,
       m.position, m.action, o.state, NULL, o.attempts, o.error
  FROM outcome o JOIN message m ON m.position = o.position
  JOIN entity e ON e.id = m.stream AND e.origin = m.origin
 WHERE o.state = 'done'
UNION ALL
SELECT e.kind || '/' || e.class || '/' || e.name, m.version,
       m.kind, m.direction, m.type, m.data,
       m.metadata, FALSE, m.created_at, NULL,
       m.position, m.action, o.state, NULL, o.attempts, o.error
  FROM outcome o JOIN message m ON m.position = o.position
  JOIN entity e ON e.id = m.stream AND e.origin = m.origin
 WHERE o.state <> 'done'
UNION ALL
SELECT e.kind || '/' || e.class || '/' || e.name, m.version,
       m.kind, m.direction, m.type, m.data,
       m.metadata, NULL, m.created_at, NULL,
       m.position, m.action, NULL, NULL, NULL, NULL
  FROM message m JOIN entity e ON e.id = m.stream AND e.origin = m.origin
 WHERE m.target IS NULL;

-- Runs as well: their rows were found by an index of ids. The number of a run is the origin of its
-- stream, even without a message; existing runs without one get numbers that are no positions.
UPDATE entity SET origin = -n.number
  FROM (SELECT e.id, row_number() OVER (ORDER BY e.created_at, e.id) AS number
          FROM run r JOIN entity e ON e.id = r.entity WHERE e.origin IS NULL) AS n
 WHERE entity.id = n.id;
ALTER TABLE run RENAME TO run_before;

CREATE TABLE run (
    number     INTEGER NOT NULL PRIMARY KEY,    -- the origin of its stream: dense, unlike ids
    entity     BLOB    NOT NULL,
    workflow   TEXT    NOT NULL,                -- the class of the entity
    name       TEXT    NOT NULL,                -- the name of the entity
    status     TEXT    NOT NULL,                -- a tag of `RunStatus`
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    expires_at INTEGER                          -- when it may be erased; NULL: it is kept
) STRICT;
INSERT INTO run
SELECT e.origin, r.entity, r.workflow, r.name, r.status, r.created_at, r.changed_at, r.expires_at
  FROM run_before r JOIN entity e ON e.id = r.entity ORDER BY e.origin;
DROP TABLE run_before;
CREATE INDEX run_status ON run (workflow, status, created_at, entity);
CREATE INDEX run_expires ON run (expires_at, entity) WHERE expires_at IS NOT NULL;

-- Entities are found by their address, the concatenation of kind, class and name:
-- the separate index took another page for every new entity.
DROP INDEX entity_name;
