-- Acknowledged commits that this database lacks, and the decision of the operator.

CREATE TABLE IF NOT EXISTS loss (
    lineage      BIGINT           NOT NULL PRIMARY KEY, -- counts from 1: the history that follows it
    batch_from   BIGINT           NOT NULL,     -- the batches of the owner that detected it
    batch_to     BIGINT           NOT NULL,
    kept         BIGINT           NOT NULL,     -- the last position that was found
    lost         BIGINT           NOT NULL,     -- the last position that was acknowledged
    owner        TEXT             NOT NULL,     -- the owner that detected it, for messages
    found_at     BIGINT           NOT NULL,
    begins       BIGINT                         -- the new history begins after this position; NULL: undecided
);
