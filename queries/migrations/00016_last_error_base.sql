-- +goose Up

-- The part of last_error to which a later RPC response was appended, so that the next response
-- replaces only that one.
ALTER TABLE managed_tx
    ADD COLUMN last_error_base TEXT NOT NULL DEFAULT ''; -- '': nothing was appended
-- min_node_schema stays: an older program rewrites last_error alone, and a base that last_error
-- does not begin with is ignored.

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
ALTER TABLE managed_tx DROP COLUMN last_error_base;
