-- +goose Up

-- The keys of the violations that a protection was asked for. The auditor compares keys, never
-- the words of the evidence.
ALTER TABLE submitter_command
    ADD COLUMN violations TEXT[], -- NULL: not asked for by an auditor, or not recorded
    ADD CONSTRAINT submitter_command_violations CHECK (violations IS NULL OR kind = 'PROTECT');
-- min_node_schema stays: an older program records none, and its evidence is compared by words.

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
ALTER TABLE submitter_command DROP COLUMN violations;
