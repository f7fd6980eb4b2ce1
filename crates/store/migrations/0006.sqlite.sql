-- Entries: small values under sorted keys, each with a revision. A removed entry keeps its revision
-- until it expires, so that the revisions of a key only increase.

CREATE TABLE entry (
    space      TEXT    NOT NULL,                -- the list, for example blob/photos
    key        BLOB    NOT NULL,                -- lists are in the order of its bytes
    revision   INTEGER NOT NULL,                -- from 1, one more with every change
    value      TEXT,                            -- JSON; NULL: it was removed
    reference  BLOB,                            -- the id of a resource outside of the store, a file
    changed_at INTEGER NOT NULL,
    expires_at INTEGER,                         -- when the row may be deleted; NULL: it is kept
    PRIMARY KEY (space, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX entry_reference ON entry (reference) WHERE reference IS NOT NULL;
CREATE INDEX entry_expires ON entry (expires_at) WHERE expires_at IS NOT NULL;
