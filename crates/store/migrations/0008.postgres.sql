-- Acknowledged commits that this database was found to lack, and what was decided about it.

CREATE TABLE IF NOT EXISTS loss (
    lineage      BIGINT           NOT NULL PRIMARY KEY, -- counts from 1: the history that follows it
    batch_from   BIGINT           NOT NULL,     -- the batches of the owner that noticed it
    batch_to     BIGINT           NOT NULL,
    kept         BIGINT           NOT NULL,     -- the last position that was found
    lost         BIGINT           NOT NULL,     -- the last position that was acknowledged
    owner        TEXT             NOT NULL,     -- who noticed it, for people
    found_at     BIGINT           NOT NULL,
    begins       BIGINT                         -- the new history is behind this position; NULL: undecided
);
