-- Dead and cancelled messages are neither done nor pending: their flag is NULL, and `state` has the
-- outcome. `processed = false` selects pending messages only.

DROP VIEW workflow_messages;
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
       m.metadata, NULL, m.created_at, NULL,
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
