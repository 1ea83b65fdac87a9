-- Decided top-ups that an operator ends before they have a transaction: see docs/balances.md.

-- Each statement is a transaction of its own that locks one table at most, and may be repeated.
-- +goose NO TRANSACTION

-- +goose Up
ALTER TABLE top_up ADD COLUMN IF NOT EXISTS voided_at TIMESTAMPTZ; -- NULL: it is in force

-- A node may have read the top-up before it became void. Its transaction is not inserted: the
-- request_id stays unknown. VoidTopUp locks the treasury, so one of the two waits for the other.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION top_up_is_in_force() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM submitter s WHERE s.submitter_id = NEW.submitter_id FOR KEY SHARE;
    IF EXISTS (SELECT FROM top_up u
                WHERE u.treasury_id = NEW.submitter_id AND u.request_id = NEW.request_id
                  AND u.voided_at IS NOT NULL) THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER top_up_is_in_force BEFORE INSERT ON managed_tx
    FOR EACH ROW WHEN (NEW.caller = '@top-up') EXECUTE FUNCTION top_up_is_in_force();
-- min_node_schema stays: an older program creates no void top-up either. It decides no further one
-- of such an account.

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
DROP TRIGGER IF EXISTS top_up_is_in_force ON managed_tx;
DROP FUNCTION IF EXISTS top_up_is_in_force;
ALTER TABLE top_up DROP COLUMN IF EXISTS voided_at;
