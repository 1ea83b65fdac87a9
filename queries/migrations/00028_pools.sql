-- Pools: sets of submitters of one chain. A create names a pool, and the ledger chooses a member.

-- Each statement is a transaction of its own, and repeating one that is done already changes
-- nothing: a lock on managed_tx must not be held while another table is waited for.
-- +goose NO TRANSACTION

-- +goose Up
CREATE TABLE IF NOT EXISTS pool (
    pool_id    INT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       TEXT COLLATE "C" NOT NULL UNIQUE CHECK (name ~ '^[a-z][a-z0-9._-]{0,63}$'),
    chain_id   BIGINT NOT NULL CHECK (chain_id > 0),
    created_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
);
-- Rows stay after a member was removed: its transactions stay in the pool.
CREATE TABLE IF NOT EXISTS pool_member (
    pool_id      INT NOT NULL REFERENCES pool,
    submitter_id INT NOT NULL REFERENCES submitter,
    status       TEXT NOT NULL CHECK (status IN ('ACTIVE', 'DRAINING', 'REMOVED')),
    changed_at   TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (pool_id, submitter_id)
);
-- The pool that a transaction was created with. The unique index makes (pool, request_id) the name
-- of one transaction for ever, and not once for each account.
ALTER TABLE managed_tx ADD COLUMN IF NOT EXISTS pool_id INT;
-- Creates wait while the index is built. It is empty.
CREATE UNIQUE INDEX IF NOT EXISTS managed_tx_pool_request ON managed_tx (pool_id, request_id)
    WHERE pool_id IS NOT NULL;
-- The name of the pool is a label of its transactions, under a key that callers cannot set.
ALTER TABLE tx_label
    DROP CONSTRAINT IF EXISTS tx_label_key_check,
    ADD CONSTRAINT tx_label_key_check
        CHECK (key = '@pool' OR key ~ '^[a-z][a-z0-9._/-]{0,62}$') NOT VALID;
ALTER TABLE tx_label VALIDATE CONSTRAINT tx_label_key_check; -- writes continue
-- min_node_schema stays: an older program creates no transaction with a pool.

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
DELETE FROM tx_label WHERE key = '@pool';
ALTER TABLE tx_label
    DROP CONSTRAINT IF EXISTS tx_label_key_check,
    ADD CONSTRAINT tx_label_key_check CHECK (key ~ '^[a-z][a-z0-9._/-]{0,62}$');
ALTER TABLE managed_tx DROP COLUMN IF EXISTS pool_id;
DROP TABLE IF EXISTS pool_member;
DROP TABLE IF EXISTS pool;
