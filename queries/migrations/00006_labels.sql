-- +goose Up

-- Labels by which a caller finds a transaction. They come with the transaction and never change, so
-- they are stored twice: in the row, for its readers, and in a table whose only index serves a
-- list, newest first, without a scan. Transactions without labels, and moves, pay nothing for that.
-- A GIN index on the row would be written again by each move that is not a HOT update, and could
-- not page in order.
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
    IF EXISTS (SELECT FROM submitter)
       AND coalesce(current_setting('fencepost.lose_ledger', TRUE), '') <> 'yes' THEN
        RAISE EXCEPTION 'the ledger holds submitters' USING ERRCODE = 'object_in_use';
    END IF;
END $$;
-- +goose StatementEnd
DROP TABLE tx_label;
ALTER TABLE managed_tx DROP COLUMN labels;
