-- +goose Up

-- A transaction that was not final when the ledger was restored may have been executed in the lost
-- part, under an attempt that this ledger does not have. Its outcome is therefore never executed =
-- NO, which would allow a caller to send the same again: it is UNKNOWN, and the reason states why.
-- No other final transaction is UNKNOWN.
ALTER TABLE managed_tx
    ADD COLUMN restored BOOLEAN NOT NULL DEFAULT FALSE,
    DROP CONSTRAINT managed_tx_executed,
    ADD CONSTRAINT managed_tx_executed CHECK (
        CASE state WHEN 'CONFIRMED' THEN executed = 'SUCCESS'
                   WHEN 'CANCELLED' THEN executed = CASE WHEN restored THEN 'UNKNOWN' ELSE 'NO' END
                   WHEN 'FAILED_FINAL' THEN
                       executed IN ('REVERTED', CASE WHEN restored THEN 'UNKNOWN' ELSE 'NO' END)
                   ELSE executed = 'UNKNOWN' END),
    ADD CONSTRAINT managed_tx_restored CHECK (
        terminal_at IS NULL OR executed <> 'UNKNOWN' OR reason = 'RESTORED_UNKNOWN');
-- An earlier recovery did not record which transactions were open then: every open one may have
-- been.
UPDATE managed_tx t SET restored = TRUE
  FROM ledger l
 WHERE l.feed_epoch > 1 AND t.terminal_at IS NULL;
-- An older program would still write NO, or mark nothing in a recovery.
UPDATE ledger SET min_node_schema = 9;

-- +goose Down
-- +goose StatementBegin
DO $$
BEGIN
    LOCK TABLE submitter IN ACCESS EXCLUSIVE MODE;
    IF EXISTS (SELECT FROM submitter)
       AND coalesce(current_setting('fencepost.lose_ledger', TRUE), '') <> 'yes' THEN
        RAISE EXCEPTION 'the ledger holds submitters' USING ERRCODE = 'object_in_use';
    END IF;
    -- The marks cannot be restored later: marked transactions would become final as not executed,
    -- or break the old constraint when this migration runs again.
    IF EXISTS (SELECT FROM managed_tx WHERE restored) THEN
        RAISE EXCEPTION 'the ledger was restored'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
END $$;
-- +goose StatementEnd
UPDATE ledger SET min_node_schema = 8;
ALTER TABLE managed_tx
    DROP CONSTRAINT managed_tx_restored,
    DROP CONSTRAINT managed_tx_executed,
    ADD CONSTRAINT managed_tx_executed CHECK (
        CASE state WHEN 'CONFIRMED' THEN executed = 'SUCCESS'
                   WHEN 'CANCELLED' THEN executed = 'NO'
                   WHEN 'FAILED_FINAL' THEN executed IN ('NO', 'REVERTED')
                   ELSE executed = 'UNKNOWN' END) NOT VALID,
    DROP COLUMN restored;
