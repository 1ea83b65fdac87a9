-- +goose Up

-- The keys of the violations for which an auditor requested the protection. The auditor compares
-- keys, never the evidence text.
ALTER TABLE submitter_command
    ADD COLUMN violations TEXT[], -- NULL: not requested by an auditor, or not recorded
    ADD CONSTRAINT submitter_command_violations CHECK (violations IS NULL OR kind = 'PROTECT');
-- min_node_schema stays: an older program records none, and its evidence is compared by text.

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
