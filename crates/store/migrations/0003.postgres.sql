-- Runs of workflows, for lists: their records are in their streams.
-- The same table as in the SQLite file of the same number.

CREATE TABLE run (
    entity       BYTEA            NOT NULL PRIMARY KEY,
    workflow     TEXT             COLLATE "C" NOT NULL,-- the class of the entity
    name         TEXT             COLLATE "C" NOT NULL,-- the name of the entity
    status       TEXT             COLLATE "C" NOT NULL,-- queued, waiting, paused, complete, errored, terminated
    created_at   BIGINT           NOT NULL,
    changed_at   BIGINT           NOT NULL,
    expires_at   BIGINT                         -- when it may be erased; NULL: it is kept
);
CREATE INDEX run_status ON run (workflow, status, created_at, entity);
CREATE INDEX run_expires ON run (expires_at, entity) WHERE expires_at IS NOT NULL;
