-- +goose Up

-- The requirements of a chain's nodes, learned from refusals, in wei per unit of gas; 0: unknown.
-- No method of a node reports them, so a process that starts would have to be refused again.
CREATE TABLE chain_pool_rules (
    chain_id    BIGINT PRIMARY KEY CHECK (chain_id > 0),
    min_tip     NUMERIC(78, 0) NOT NULL CHECK (min_tip >= 0),
    min_price   NUMERIC(78, 0) NOT NULL CHECK (min_price >= 0), -- of the fee cap, or a gas price
    guessed_tip NUMERIC(78, 0) NOT NULL CHECK (guessed_tip >= 0),
    fees_at     TIMESTAMPTZ NOT NULL, -- of the refusal that changed the fees
    typed_at    TIMESTAMPTZ -- of the last refusal of a type other than legacy; NULL: none
);
-- min_node_schema stays: an older program learns them again.

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
DROP TABLE chain_pool_rules;
