-- +goose Up

-- What ended as never run although there are signed forms of it may run yet, where a reorg goes deeper than any is believed to: those forms are followed for as
-- long as what ended by a receipt is audited. The index is of few rows, and never of those that are moved often.
ALTER TABLE managed_tx
    ADD COLUMN ended_block BIGINT CHECK (ended_block > 0), -- head when it ended so; NULL: it did not
    ADD CONSTRAINT managed_tx_ended CHECK (ended_block IS NULL OR terminal_at IS NOT NULL);
CREATE INDEX managed_tx_ended ON managed_tx (submitter_id, ended_block) WHERE ended_block IS NOT NULL;

-- +goose Down
-- +goose StatementBegin
DO $$
BEGIN
    LOCK TABLE submitter IN ACCESS EXCLUSIVE MODE;
    IF EXISTS (SELECT FROM submitter) AND coalesce(current_setting('fencepost.lose_ledger', TRUE), '') <> 'yes' THEN
        RAISE EXCEPTION 'the ledger holds submitters' USING ERRCODE = 'object_in_use';
    END IF;
END $$;
-- +goose StatementEnd
ALTER TABLE managed_tx DROP COLUMN ended_block;
