-- Objects: the log of their turns, their heads, and images of their pages.
-- The log grows in the order of `position`, so that turns of many objects share the pages they are
-- written to; `prev` leads from a turn of an object to the one before it.

CREATE TABLE head (                             -- the head of each object; as small as possible
    number        INTEGER NOT NULL PRIMARY KEY, -- the position of its first turn: dense, unlike ids
    seq           INTEGER NOT NULL,             -- the number of its turns
    position      INTEGER NOT NULL,             -- its last turn
    chk           INTEGER NOT NULL              -- chained over all its turns
) STRICT;

CREATE TABLE base (                             -- the turn up to which the images contain an object
    entity        BLOB    NOT NULL PRIMARY KEY,
    number        INTEGER NOT NULL,             -- of its head
    seq           INTEGER NOT NULL,             -- the turn; 0: none
    position      INTEGER NOT NULL,
    chk           INTEGER NOT NULL,
    pages         INTEGER NOT NULL,             -- the length of its database then
    history_bytes INTEGER NOT NULL,             -- of the deltas up to there that are kept
    parts_seq     INTEGER NOT NULL,             -- the turn that images are being written for
    parts         INTEGER NOT NULL              -- the number of parts written
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX base_number ON base (number);

CREATE TABLE turn (
    position      INTEGER NOT NULL PRIMARY KEY,
    entity        BLOB    NOT NULL,
    seq           INTEGER NOT NULL,             -- its number, from 1
    prev          INTEGER NOT NULL,             -- the position of the turn before; 0: it is the first
    at            INTEGER NOT NULL,
    cause         INTEGER,                      -- the message that was delivered, if it was one
    sent          INTEGER NOT NULL,             -- messages that it sent
    chk           INTEGER NOT NULL,
    input         TEXT    NOT NULL,             -- the name of the message
    delta         BLOB    NOT NULL              -- the changed pages, readable in both directions
) STRICT;

CREATE TABLE image (
    entity        BLOB    NOT NULL,
    page          INTEGER NOT NULL,             -- from 1
    seq           INTEGER NOT NULL,             -- the turn of the image
    crc           INTEGER NOT NULL,             -- of the whole page
    data          BLOB    NOT NULL,             -- the page without its zeros
    PRIMARY KEY (entity, page)
) STRICT, WITHOUT ROWID;
