-- Keys are compared byte by byte. The order of a language changes with the C library or the ICU
-- version; an index that was built in the old order then misses keys that it holds, and a
-- request_id could be accepted a second time.

-- Each statement is a transaction of its own that locks one table, so that none of them can
-- deadlock with a commit under way. Repeating one that is done already changes nothing.
-- +goose NO TRANSACTION

-- +goose Up
ALTER TABLE managed_tx ALTER COLUMN request_id TYPE TEXT COLLATE "C";
ALTER TABLE submitter ALTER COLUMN name TYPE TEXT COLLATE "C";
ALTER TABLE node ALTER COLUMN node_id TYPE TEXT COLLATE "C";
ALTER TABLE tx_label
    ALTER COLUMN key TYPE TEXT COLLATE "C",
    ALTER COLUMN value TYPE TEXT COLLATE "C";
-- min_node_schema stays: no statement depends on the order of keys.

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
ALTER TABLE tx_label
    ALTER COLUMN key TYPE TEXT COLLATE "default",
    ALTER COLUMN value TYPE TEXT COLLATE "default";
ALTER TABLE node ALTER COLUMN node_id TYPE TEXT COLLATE "default";
ALTER TABLE submitter ALTER COLUMN name TYPE TEXT COLLATE "default";
ALTER TABLE managed_tx ALTER COLUMN request_id TYPE TEXT COLLATE "default";
