-- +goose Up

-- What was in the ledger and not final when that was restored may have run in the part that was lost, under a form that nobody knows here. So it never ends as
-- not run (executed = NO, which tells a caller that the same may be sent again): it ends as UNKNOWN then, and the reason says why. No other end is UNKNOWN.
ALTER TABLE managed_tx
    ADD COLUMN restored BOOLEAN NOT NULL DEFAULT FALSE,
    DROP CONSTRAINT managed_tx_executed,
    ADD CONSTRAINT managed_tx_executed CHECK (
        CASE state WHEN 'CONFIRMED' THEN executed = 'SUCCESS'
                   WHEN 'CANCELLED' THEN executed = CASE WHEN restored THEN 'UNKNOWN' ELSE 'NO' END
                   WHEN 'FAILED_FINAL' THEN executed IN ('REVERTED', CASE WHEN restored THEN 'UNKNOWN' ELSE 'NO' END)
                   ELSE executed = 'UNKNOWN' END),
    ADD CONSTRAINT managed_tx_restored CHECK (terminal_at IS NULL OR executed <> 'UNKNOWN' OR reason = 'RESTORED_UNKNOWN');
-- Nobody wrote down in a recovery of before what was open then: all that is open now may have been.
UPDATE managed_tx t SET restored = TRUE FROM ledger l WHERE l.feed_epoch > 1 AND t.terminal_at IS NULL;
-- An older program would still say NO, or mark nothing in a recovery.
UPDATE ledger SET min_node_schema = 9;

-- +goose Down
-- +goose StatementBegin
DO $$
BEGIN
    LOCK TABLE submitter IN ACCESS EXCLUSIVE MODE;
    IF EXISTS (SELECT FROM submitter) AND coalesce(current_setting('fencepost.lose_ledger', TRUE), '') <> 'yes' THEN
        RAISE EXCEPTION 'the ledger holds submitters' USING ERRCODE = 'object_in_use';
    END IF;
    -- Nobody could find the marks out again: what carries them would end as not run, or break the old law when this step is taken once more.
    IF EXISTS (SELECT FROM managed_tx WHERE restored) THEN
        RAISE EXCEPTION 'the ledger was restored' USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
END $$;
-- +goose StatementEnd
UPDATE ledger SET min_node_schema = 8;
ALTER TABLE managed_tx
    DROP CONSTRAINT managed_tx_restored,
    DROP CONSTRAINT managed_tx_executed,
    ADD CONSTRAINT managed_tx_executed CHECK (
        CASE state WHEN 'CONFIRMED' THEN executed = 'SUCCESS' WHEN 'CANCELLED' THEN executed = 'NO' WHEN 'FAILED_FINAL' THEN executed IN ('NO', 'REVERTED')
                   ELSE executed = 'UNKNOWN' END) NOT VALID,
    DROP COLUMN restored;
