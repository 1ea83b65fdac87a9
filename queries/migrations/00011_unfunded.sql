-- +goose Up

-- A transaction that the account cannot afford has its own sub-state, with or without a nonce.
-- Existing rows stay unchanged: their owner writes the sub-state with the next retry, and its
-- event, so that a row and its newest event always agree.
ALTER TABLE managed_tx
    DROP CONSTRAINT managed_tx_sub_state_check,
    ADD CONSTRAINT managed_tx_sub_state_check CHECK (
        sub_state IN ('', 'PENDING', 'INCLUDED', 'BACKING_OFF', 'UNFUNDED')),
    ADD CONSTRAINT managed_tx_unfunded CHECK (
        sub_state <> 'UNFUNDED'
        OR receipt_block IS NULL
           AND state IN ('QUEUED', 'ALLOCATED', 'TRACKING', 'STUCK')
           AND (nonce IS NOT NULL OR reason = 'INSUFFICIENT_FUNDS'));
-- An older program would return no sub-state to callers, and would keep it after an endpoint has
-- accepted the transaction.
UPDATE ledger SET min_node_schema = 11;

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
UPDATE ledger SET min_node_schema = 9;
ALTER TABLE managed_tx
    DROP CONSTRAINT managed_tx_unfunded,
    DROP CONSTRAINT managed_tx_sub_state_check;
UPDATE managed_tx
   SET sub_state = CASE state WHEN 'QUEUED' THEN 'BACKING_OFF'
                              WHEN 'TRACKING' THEN 'PENDING'
                              ELSE '' END
 WHERE sub_state = 'UNFUNDED';
ALTER TABLE managed_tx
    ADD CONSTRAINT managed_tx_sub_state_check CHECK (
        sub_state IN ('', 'PENDING', 'INCLUDED', 'BACKING_OFF'));
