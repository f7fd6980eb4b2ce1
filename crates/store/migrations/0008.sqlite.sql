-- Acknowledged commits that this database lacks, and the decision of the operator.

CREATE TABLE IF NOT EXISTS loss (
    lineage      INTEGER          NOT NULL PRIMARY KEY, -- counts from 1: the history that follows it
    batch_from   INTEGER          NOT NULL,     -- the batches of the owner that detected it
    batch_to     INTEGER          NOT NULL,
    kept         INTEGER          NOT NULL,     -- the last position that was found
    lost         INTEGER          NOT NULL,     -- the last position that was acknowledged
    owner        TEXT             NOT NULL,     -- the owner that detected it, for messages
    found_at     INTEGER          NOT NULL,
    begins       INTEGER                        -- the new history begins after this position; NULL: undecided
);
