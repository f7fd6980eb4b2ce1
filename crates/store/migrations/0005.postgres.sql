-- Streams are found by an increasing number, not by their ids.
-- The same tables as in the SQLite file of the same number, which has the reasons.

ALTER TABLE entity ADD COLUMN origin BIGINT;    -- of its stream; NULL: it has none yet
UPDATE entity SET origin = (SELECT m.position FROM message m WHERE m.stream = entity.id
                            ORDER BY m.version LIMIT 1);

DROP VIEW workflow_messages;
ALTER TABLE message RENAME TO message_before;
ALTER INDEX message_pkey RENAME TO message_before_pkey;

CREATE TABLE message (
    position     BIGINT           NOT NULL PRIMARY KEY,
    origin       BIGINT           NOT NULL,     -- of its stream: the position of the first message
    version      BIGINT           NOT NULL,     -- its version in the stream, from 1
    stream       BYTEA            NOT NULL,     -- the entity of its stream
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
INSERT INTO message
SELECT m.position, (SELECT o.position FROM message_before o WHERE o.stream = m.stream
                    ORDER BY o.version LIMIT 1),
       m.version, m.stream, m.kind, m.direction, m.action, m.type, m.schema, m.target, m.ordered,
       m.cause, m.created_at, m.data, m.metadata
  FROM message_before m ORDER BY m.position;
DROP TABLE message_before;
CREATE UNIQUE INDEX message_stream ON message (origin, version);

-- As before, with references in both directions.
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
       m.metadata::json, FALSE, m.created_at, NULL,
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

-- The number of a run is the origin of its stream, even without a message.
UPDATE entity SET origin = -n.number
  FROM (SELECT e.id, row_number() OVER (ORDER BY e.created_at, e.id) AS number
          FROM run r JOIN entity e ON e.id = r.entity WHERE e.origin IS NULL) AS n
 WHERE entity.id = n.id;
ALTER TABLE run RENAME TO run_before;
ALTER INDEX run_pkey RENAME TO run_before_pkey;

CREATE TABLE run (
    number       BIGINT           NOT NULL PRIMARY KEY,-- the origin of its stream
    entity       BYTEA            NOT NULL,
    workflow     TEXT             COLLATE "C" NOT NULL,-- the class of the entity
    name         TEXT             COLLATE "C" NOT NULL,-- the name of the entity
    status       TEXT             COLLATE "C" NOT NULL,-- a tag of `RunStatus`
    created_at   BIGINT           NOT NULL,
    changed_at   BIGINT           NOT NULL,
    expires_at   BIGINT                         -- when it may be erased; NULL: it is kept
);
INSERT INTO run
SELECT e.origin, r.entity, r.workflow, r.name, r.status, r.created_at, r.changed_at, r.expires_at
  FROM run_before r JOIN entity e ON e.id = r.entity ORDER BY e.origin;
DROP TABLE run_before;
CREATE INDEX run_status ON run (workflow, status, created_at, entity);
CREATE INDEX run_expires ON run (expires_at, entity) WHERE expires_at IS NOT NULL;

-- Entities are found by their address instead of kind, class and name.
DROP INDEX entity_name;
