-- A transaction above a limit of its caller's policy waits for the approval of another caller: see
-- docs/policies.md. It is queued, but no owner reads it, and no program can give it a nonce.

-- Each statement is a transaction of its own, and repeating one that is done already changes
-- nothing: a lock on managed_tx must not be held while another table is waited for, or while the
-- rows that are there are checked.
-- +goose NO TRANSACTION

-- +goose Up
ALTER TABLE managed_tx
    -- '': needs none; else WAITING or APPROVED
    ADD COLUMN IF NOT EXISTS approval     TEXT NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS approved_by  TEXT COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS approval_mac BYTEA; -- a code of the approval, as mac of the intent
ALTER TABLE managed_tx
    DROP CONSTRAINT IF EXISTS managed_tx_sub_state_check,
    ADD CONSTRAINT managed_tx_sub_state_check CHECK (
        sub_state IN ('', 'PENDING', 'INCLUDED', 'BACKING_OFF', 'UNFUNDED', 'AWAITING_APPROVAL'))
        NOT VALID,
    DROP CONSTRAINT IF EXISTS managed_tx_awaiting,
    ADD CONSTRAINT managed_tx_awaiting CHECK (
        sub_state <> 'AWAITING_APPROVAL' OR state = 'QUEUED' AND approval = 'WAITING') NOT VALID,
    DROP CONSTRAINT IF EXISTS managed_tx_approved,
    ADD CONSTRAINT managed_tx_approved CHECK (
        approval IN ('', 'WAITING')
        OR approval = 'APPROVED' AND approved_by <> '' AND approved_by <> caller) NOT VALID,
    DROP CONSTRAINT IF EXISTS managed_tx_approved_first,
    ADD CONSTRAINT managed_tx_approved_first CHECK (
        approval <> 'WAITING' OR nonce IS NULL) NOT VALID;
-- writes continue
ALTER TABLE managed_tx VALIDATE CONSTRAINT managed_tx_sub_state_check;
ALTER TABLE managed_tx VALIDATE CONSTRAINT managed_tx_awaiting;
ALTER TABLE managed_tx VALIDATE CONSTRAINT managed_tx_approved;
ALTER TABLE managed_tx VALIDATE CONSTRAINT managed_tx_approved_first;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION approval_is_legal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'transaction %: the approval % of % must not become % of %',
        OLD.tx_id, OLD.approval, OLD.approved_by, NEW.approval, NEW.approved_by;
END $$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER approval_is_legal AFTER UPDATE ON managed_tx FOR EACH ROW WHEN (
    (NEW.approval <> OLD.approval OR NEW.approved_by <> OLD.approved_by)
    AND NOT (OLD.approval = 'WAITING' AND NEW.approval = 'APPROVED'
             AND OLD.state = 'QUEUED' AND NEW.state = 'QUEUED'))
    EXECUTE FUNCTION approval_is_legal();

-- The transactions that wait, for the one statement that lets them expire. A row is removed with
-- the decision, or once it is due.
CREATE TABLE IF NOT EXISTS tx_approval (
    submitter_id INT NOT NULL,
    tx_id        UUID NOT NULL,
    expires_at   TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (submitter_id, tx_id)
);
CREATE INDEX IF NOT EXISTS tx_approval_expires ON tx_approval (expires_at);

ALTER TABLE submitter_command
    DROP CONSTRAINT IF EXISTS submitter_command_kind,
    DROP CONSTRAINT IF EXISTS submitter_command_tx,
    ADD CONSTRAINT submitter_command_kind CHECK (
        kind IN ('PAUSE', 'RESUME', 'CANCEL', 'PROTECT', 'EXIT_PROTECT', 'RESOLVE',
                 'SPEED_UP', 'UPDATE', 'APPROVE', 'DENY')) NOT VALID,
    ADD CONSTRAINT submitter_command_tx CHECK (
        (kind IN ('CANCEL', 'RESOLVE', 'SPEED_UP', 'APPROVE', 'DENY')) = (tx_id IS NOT NULL))
        NOT VALID;
ALTER TABLE submitter_command VALIDATE CONSTRAINT submitter_command_kind;
ALTER TABLE submitter_command VALIDATE CONSTRAINT submitter_command_tx;
-- min_node_schema stays: an older program creates no transaction that waits, and a constraint
-- refuses its nonce for one. It would retry that one until it stops, so approvals are configured
-- once all nodes know them.

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
DELETE FROM submitter_command WHERE kind IN ('APPROVE', 'DENY');
ALTER TABLE submitter_command
    DROP CONSTRAINT IF EXISTS submitter_command_kind,
    DROP CONSTRAINT IF EXISTS submitter_command_tx,
    ADD CONSTRAINT submitter_command_kind CHECK (
        kind IN ('PAUSE', 'RESUME', 'CANCEL', 'PROTECT', 'EXIT_PROTECT', 'RESOLVE',
                 'SPEED_UP', 'UPDATE')),
    ADD CONSTRAINT submitter_command_tx
        CHECK ((kind IN ('CANCEL', 'RESOLVE', 'SPEED_UP')) = (tx_id IS NOT NULL));
DROP TABLE IF EXISTS tx_approval;
DROP TRIGGER IF EXISTS approval_is_legal ON managed_tx;
DROP FUNCTION IF EXISTS approval_is_legal;
ALTER TABLE managed_tx
    DROP CONSTRAINT IF EXISTS managed_tx_approved_first,
    DROP CONSTRAINT IF EXISTS managed_tx_approved,
    DROP CONSTRAINT IF EXISTS managed_tx_awaiting,
    DROP CONSTRAINT IF EXISTS managed_tx_sub_state_check;
UPDATE managed_tx SET sub_state = '' WHERE sub_state = 'AWAITING_APPROVAL';
ALTER TABLE managed_tx
    ADD CONSTRAINT managed_tx_sub_state_check CHECK (
        sub_state IN ('', 'PENDING', 'INCLUDED', 'BACKING_OFF', 'UNFUNDED')),
    DROP COLUMN IF EXISTS approval_mac,
    DROP COLUMN IF EXISTS approved_by,
    DROP COLUMN IF EXISTS approval;
