-- +goose Up

-- Who was authenticated when the row was written; '' where callers have no names. The operator
-- that a command names is a claim beside it.
ALTER TABLE managed_tx
    ADD COLUMN caller TEXT NOT NULL DEFAULT '' CHECK (char_length(caller) <= 128);
ALTER TABLE submitter_command
    ADD COLUMN caller TEXT NOT NULL DEFAULT '' CHECK (char_length(caller) <= 128);
-- min_node_schema stays: an older program records no caller.

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
ALTER TABLE submitter_command DROP COLUMN caller;
ALTER TABLE managed_tx DROP COLUMN caller;
