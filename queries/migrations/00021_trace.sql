-- +goose Up

-- W3C trace context of the request that created the transaction, so that spans of any owner join
-- its trace; NULL if the request was not traced.
ALTER TABLE managed_tx ADD COLUMN trace_parent TEXT;
-- min_node_schema stays: an older program stores no context, and ignores a stored one.

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
ALTER TABLE managed_tx DROP COLUMN trace_parent;
