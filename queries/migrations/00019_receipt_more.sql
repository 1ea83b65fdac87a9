-- More of each receipt, the time of the last broadcast, and transactions by the hash of an attempt.

-- Each statement is a transaction of its own that locks one table, so that none of them can
-- deadlock with a commit under way. Repeating one that is done already changes nothing.
-- +goose NO TRANSACTION

-- +goose Up
-- receipt_more is of the receipt whose block hash begins with its first 8 bytes; an older program
-- changes a receipt without it. Then follow the number of logs (8 bytes), the cumulative gas (8),
-- and the address of the created contract (20), if there is one.
ALTER TABLE managed_tx
    ADD COLUMN IF NOT EXISTS receipt_more   BYTEA, -- NULL: unknown
    ADD COLUMN IF NOT EXISTS last_submit_at TIMESTAMPTZ;
ALTER TABLE tx_event ADD COLUMN IF NOT EXISTS receipt_more BYTEA;
-- A hash names one attempt of the ledger: its bytes contain chain, sender and nonce. Broadcasts
-- wait while the index is built.
CREATE UNIQUE INDEX IF NOT EXISTS tx_attempt_by_hash ON tx_attempt (tx_hash, submitter_id);
ALTER TABLE tx_attempt
    DROP CONSTRAINT IF EXISTS tx_attempt_hash,
    ADD CONSTRAINT tx_attempt_hash UNIQUE USING INDEX tx_attempt_by_hash;
-- min_node_schema stays: an older program writes and reads the columns that it knows.

-- +goose Down
-- +goose StatementBegin
DO $$
BEGIN
    LOCK TABLE submitter IN ACCESS EXCLUSIVE MODE;
    IF EXISTS (SELECT FROM submitter)
       AND coalesce(current_setting('fencepost.lose_ledger', TRUE), '') <> 'yes' THEN
        RAISE EXCEPTION 'the ledger holds submitters' USING ERRCODE = 'object_in_use';
    END IF;
END $$;
-- +goose StatementEnd
ALTER TABLE tx_attempt
    DROP CONSTRAINT IF EXISTS tx_attempt_hash,
    ADD CONSTRAINT tx_attempt_hash UNIQUE (submitter_id, tx_hash);
ALTER TABLE tx_event DROP COLUMN IF EXISTS receipt_more;
ALTER TABLE managed_tx
    DROP COLUMN IF EXISTS receipt_more, DROP COLUMN IF EXISTS last_submit_at;
