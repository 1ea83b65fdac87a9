-- +goose Up

-- What a caller wants to find a transaction by. It is asked for with the transaction and never changed, so it is kept twice: in the row, for whoever reads that,
-- and in a table whose only index serves a list, newest first, without a scan. Transactions without labels, and moves, pay nothing for that; a GIN index on the row
-- would be written again by each move that is no HOT update, and could not page in order.
ALTER TABLE managed_tx ADD COLUMN labels JSONB NOT NULL DEFAULT '{}';

CREATE TABLE tx_label (
    submitter_id INT NOT NULL,
    key          TEXT NOT NULL CHECK (key ~ '^[a-z][a-z0-9._/-]{0,62}$'),
    value        TEXT NOT NULL CHECK (char_length(value) <= 128),
    tx_id        UUID NOT NULL,
    PRIMARY KEY (submitter_id, key, value, tx_id)
);

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
DROP TABLE tx_label;
ALTER TABLE managed_tx DROP COLUMN labels;
