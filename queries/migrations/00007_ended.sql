-- +goose Up

-- A transaction that became final as not executed, although it has attempts, may still be executed
-- after a reorg that is deeper than expected. Its attempts are tracked for as long as final
-- transactions with a receipt are audited. The index has few rows, and none that moves often.
ALTER TABLE managed_tx
    -- the head when it became final; NULL: it did not, or has a receipt
    ADD COLUMN ended_block BIGINT CHECK (ended_block > 0),
    ADD CONSTRAINT managed_tx_ended CHECK (ended_block IS NULL OR terminal_at IS NOT NULL);
CREATE INDEX managed_tx_ended ON managed_tx (submitter_id, ended_block)
    WHERE ended_block IS NOT NULL;

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
ALTER TABLE managed_tx DROP COLUMN ended_block;
