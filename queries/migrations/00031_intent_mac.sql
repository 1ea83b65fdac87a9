-- +goose Up

-- A code of the intent under a key outside the database: see docs/audit.md. NULL: none.
ALTER TABLE managed_tx ADD COLUMN mac BYTEA;
-- min_node_schema stays: an older program writes none, which nodes accept unless they require one.

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
ALTER TABLE managed_tx DROP COLUMN mac;
