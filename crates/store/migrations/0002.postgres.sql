-- Objects: the log of their turns, their heads, and images of their pages.
-- The same tables as in the SQLite file of the same number.

CREATE TABLE head (                             -- the head of each object; as small as possible
    number        BIGINT  NOT NULL PRIMARY KEY, -- the position of its first turn: dense, unlike ids
    seq           BIGINT  NOT NULL,             -- the number of its turns
    position      BIGINT  NOT NULL,             -- its last turn
    chk           BIGINT  NOT NULL              -- chained over all its turns
) WITH (fillfactor = 50);                       -- every turn updates its row: leave space to do it in place

CREATE TABLE base (                             -- the turn up to which the images contain an object
    entity        BYTEA   NOT NULL PRIMARY KEY,
    number        BIGINT  NOT NULL,             -- of its head
    seq           BIGINT  NOT NULL,             -- the turn; 0: none
    position      BIGINT  NOT NULL,
    chk           BIGINT  NOT NULL,
    pages         BIGINT  NOT NULL,             -- the length of its database then
    history_bytes BIGINT  NOT NULL,             -- of the deltas up to there that are kept
    parts_seq     BIGINT  NOT NULL,             -- the turn that images are being written for
    parts         BIGINT  NOT NULL              -- the number of parts written
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
    input         TEXT    NOT NULL,             -- the name of the message
    delta         BYTEA   NOT NULL              -- the changed pages, readable in both directions
);

CREATE TABLE image (
    entity        BYTEA   NOT NULL,
    page          BIGINT  NOT NULL,             -- from 1
    seq           BIGINT  NOT NULL,             -- the turn of the image
    crc           BIGINT  NOT NULL,             -- of the whole page
    data          BYTEA   NOT NULL,             -- the page without its zeros
    PRIMARY KEY (entity, page)
);
