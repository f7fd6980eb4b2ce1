-- Runs of workflows, for lists: their records are in their streams.
-- A list of all states is merged from one of each, and ids with a prefix are found by `entity_name`:
-- another index would cost at every start and change of a run. Rows are in the order of
-- insertion, not of their ids, because rows that change together were inserted at about the same time.

CREATE TABLE run (
    entity     BLOB    NOT NULL PRIMARY KEY,
    workflow   TEXT    NOT NULL,                -- the class of the entity
    name       TEXT    NOT NULL,                -- the name of the entity
    status     TEXT    NOT NULL,                -- queued, waiting, paused, complete, errored, terminated
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    expires_at INTEGER                          -- when it may be erased; NULL: it is kept
) STRICT;
CREATE INDEX run_status ON run (workflow, status, created_at, entity);
CREATE INDEX run_expires ON run (expires_at, entity) WHERE expires_at IS NOT NULL;
