-- Objects: the log of their turns, where each stands, and images of their pages.
-- The log grows in the order of `position`, so that turns of many objects share the pages they are
-- written to; `prev` leads from a turn of an object to the one before it.

CREATE TABLE head (                             -- where each object stands; as small as can be
    number        INTEGER NOT NULL PRIMARY KEY, -- the position of its first turn: dense, unlike ids
    seq           INTEGER NOT NULL,             -- its turns so far
    position      INTEGER NOT NULL,             -- its last turn
    chk           INTEGER NOT NULL              -- chained over all its turns
) STRICT;

CREATE TABLE base (                             -- up to which turn the images of an object hold it
    entity        BLOB    NOT NULL PRIMARY KEY,
    number        INTEGER NOT NULL,             -- of its head
    seq           INTEGER NOT NULL,             -- the turn; 0: none
    position      INTEGER NOT NULL,
    chk           INTEGER NOT NULL,
    pages         INTEGER NOT NULL,             -- the length of its database then
    history_bytes INTEGER NOT NULL,             -- of the deltas up to there that are kept
    parts_seq     INTEGER NOT NULL,             -- the turn that images are being written for
    parts         INTEGER NOT NULL              -- how many parts of them are there
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
    input         TEXT    NOT NULL,             -- what it was about: the name of the message
    delta         BLOB    NOT NULL              -- what it changed, to be read in both directions
) STRICT;

CREATE TABLE image (
    entity        BLOB    NOT NULL,
    page          INTEGER NOT NULL,             -- from 1
    seq           INTEGER NOT NULL,             -- the turn after which the page looked like this
    crc           INTEGER NOT NULL,             -- of the whole page
    data          BLOB    NOT NULL,             -- the page without its zeros
    PRIMARY KEY (entity, page)
) STRICT, WITHOUT ROWID;
