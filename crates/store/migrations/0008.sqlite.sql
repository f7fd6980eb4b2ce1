-- Acknowledged commits that this database was found to lack, and what was decided about it.

CREATE TABLE IF NOT EXISTS loss (
    lineage      INTEGER          NOT NULL PRIMARY KEY, -- counts from 1: the history that follows it
    batch_from   INTEGER          NOT NULL,     -- the batches of the owner that noticed it
    batch_to     INTEGER          NOT NULL,
    kept         INTEGER          NOT NULL,     -- the last position that was found
    lost         INTEGER          NOT NULL,     -- the last position that was acknowledged
    owner        TEXT             NOT NULL,     -- who noticed it, for people
    found_at     INTEGER          NOT NULL,
    begins       INTEGER                        -- the new history is behind this position; NULL: undecided
);
