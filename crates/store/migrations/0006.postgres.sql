-- Entries: small values under sorted keys, each with a revision.
-- The same table as in the SQLite file of the same number.

CREATE TABLE entry (
    space      TEXT    COLLATE "C" NOT NULL,    -- the list, for example blob/photos
    key        BYTEA   NOT NULL,                -- lists are in the order of its bytes
    revision   BIGINT  NOT NULL,                -- from 1, one more with every change
    value      TEXT,                            -- JSON; NULL: it was removed
    reference  BYTEA,                           -- the id of a resource outside of the store, a file
    changed_at BIGINT  NOT NULL,
    expires_at BIGINT,                          -- when the row may be deleted; NULL: it is kept
    PRIMARY KEY (space, key)
);
CREATE INDEX entry_reference ON entry (reference) WHERE reference IS NOT NULL;
CREATE INDEX entry_expires ON entry (expires_at) WHERE expires_at IS NOT NULL;
