-- +goose Up

-- The oldest schema version whose programs still work on this schema. A migration that is
-- compatible with them (a column with a default, an index, a wider check) leaves the number
-- unchanged; one that is not sets it to its own version. Each later migration states which of the
-- two it is.
ALTER TABLE ledger ADD COLUMN min_node_schema BIGINT NOT NULL DEFAULT 8;

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
ALTER TABLE ledger DROP COLUMN min_node_schema;
