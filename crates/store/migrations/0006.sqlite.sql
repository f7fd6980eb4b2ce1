-- Entries: small values under keys that are listed in order, each with the number of its last change. What
-- was removed keeps its number until its time is over, so that numbers of one key only ever grow.

CREATE TABLE entry (
    space      TEXT    NOT NULL,                -- which list, for example blob/photos
    key        BLOB    NOT NULL,                -- lists are in the order of its bytes
    revision   INTEGER NOT NULL,                -- from 1, one more with every change
    value      TEXT,                            -- JSON; NULL: it was removed
    reference  BLOB,                            -- 16 bytes of what it needs outside of the store, a file
    changed_at INTEGER NOT NULL,
    expires_at INTEGER,                         -- when the row may go; NULL: it is kept
    PRIMARY KEY (space, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX entry_reference ON entry (reference) WHERE reference IS NOT NULL;
CREATE INDEX entry_expires ON entry (expires_at) WHERE expires_at IS NOT NULL;
