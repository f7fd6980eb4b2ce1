-- Objects: the log of their turns, where each stands, and images of their pages.
-- The same tables as in the SQLite file of the same number.

CREATE TABLE head (                             -- where each object stands; as small as can be
    number        BIGINT  NOT NULL PRIMARY KEY, -- the position of its first turn: dense, unlike ids
    seq           BIGINT  NOT NULL,             -- its turns so far
    position      BIGINT  NOT NULL,             -- its last turn
    chk           BIGINT  NOT NULL              -- chained over all its turns
) WITH (fillfactor = 50);                       -- every turn updates its row: leave room to do it in place

CREATE TABLE base (                             -- up to which turn the images of an object hold it
    entity        BYTEA   NOT NULL PRIMARY KEY,
    number        BIGINT  NOT NULL,             -- of its head
    seq           BIGINT  NOT NULL,             -- the turn; 0: none
    position      BIGINT  NOT NULL,
    chk           BIGINT  NOT NULL,
    pages         BIGINT  NOT NULL,             -- the length of its database then
    history_bytes BIGINT  NOT NULL,             -- of the deltas up to there that are kept
    parts_seq     BIGINT  NOT NULL,             -- the turn that images are being written for
    parts         BIGINT  NOT NULL              -- how many parts of them are there
);
CREATE UNIQUE INDEX base_number ON base (number);

CREATE TABLE turn (
    position      BIGINT  NOT NULL PRIMARY KEY,
    entity        BYTEA   NOT NULL,
    seq           BIGINT  NOT NULL,             -- its number, from 1
    prev          BIGINT  NOT NULL,             -- the position of the turn before; 0: it is the first
    at            BIGINT  NOT NULL,
    cause         BIGINT,                       -- the message that was delivered, if it was one
    sent          BIGINT  NOT NULL,             -- messages that it sent
    chk           BIGINT  NOT NULL,
    input         TEXT    NOT NULL,             -- what it was about: the name of the message
    delta         BYTEA   NOT NULL              -- what it changed, to be read in both directions
);

CREATE TABLE image (
    entity        BYTEA   NOT NULL,
    page          BIGINT  NOT NULL,             -- from 1
    seq           BIGINT  NOT NULL,             -- the turn after which the page looked like this
    crc           BIGINT  NOT NULL,             -- of the whole page
    data          BYTEA   NOT NULL,             -- the page without its zeros
    PRIMARY KEY (entity, page)
);
