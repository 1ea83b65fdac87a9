-- +goose Up

-- A transaction above a limit of its caller's policy waits for the approval of another caller: see
-- docs/policies.md. It is queued, but no owner reads it, and no program can give it a nonce. Rows
-- that are there satisfy the constraints, so they are not read (NOT VALID).
ALTER TABLE managed_tx
    -- '': needs none; else WAITING or APPROVED
    ADD COLUMN approval     TEXT NOT NULL DEFAULT '',
    ADD COLUMN approved_by  TEXT COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN approval_mac BYTEA, -- a code of the approval, as mac of the intent
    DROP CONSTRAINT managed_tx_sub_state_check,
    ADD CONSTRAINT managed_tx_sub_state_check CHECK (
        sub_state IN ('', 'PENDING', 'INCLUDED', 'BACKING_OFF', 'UNFUNDED', 'AWAITING_APPROVAL'))
        NOT VALID,
    ADD CONSTRAINT managed_tx_awaiting CHECK (
        sub_state <> 'AWAITING_APPROVAL' OR state = 'QUEUED' AND approval = 'WAITING') NOT VALID,
    ADD CONSTRAINT managed_tx_approved CHECK (
        approval IN ('', 'WAITING')
        OR approval = 'APPROVED' AND approved_by <> '' AND approved_by <> caller) NOT VALID,
    ADD CONSTRAINT managed_tx_approved_first CHECK (
        approval <> 'WAITING' OR nonce IS NULL) NOT VALID;

-- +goose StatementBegin
CREATE FUNCTION approval_is_legal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'transaction %: the approval % of % must not become % of %',
        OLD.tx_id, OLD.approval, OLD.approved_by, NEW.approval, NEW.approved_by;
END $$;
-- +goose StatementEnd
CREATE TRIGGER approval_is_legal AFTER UPDATE ON managed_tx FOR EACH ROW WHEN (
    (NEW.approval <> OLD.approval OR NEW.approved_by <> OLD.approved_by)
    AND NOT (OLD.approval = 'WAITING' AND NEW.approval = 'APPROVED'
             AND OLD.state = 'QUEUED' AND NEW.state = 'QUEUED'))
    EXECUTE FUNCTION approval_is_legal();

-- The transactions that wait, for the one statement that lets them expire. A row is removed with
-- the decision, or once it is due.
CREATE TABLE tx_approval (
    submitter_id INT NOT NULL,
    tx_id        UUID NOT NULL,
    expires_at   TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (submitter_id, tx_id)
);
CREATE INDEX tx_approval_expires ON tx_approval (expires_at);

ALTER TABLE submitter_command
    DROP CONSTRAINT submitter_command_kind,
    DROP CONSTRAINT submitter_command_tx,
    ADD CONSTRAINT submitter_command_kind CHECK (
        kind IN ('PAUSE', 'RESUME', 'CANCEL', 'PROTECT', 'EXIT_PROTECT', 'RESOLVE',
                 'SPEED_UP', 'UPDATE', 'APPROVE', 'DENY')),
    ADD CONSTRAINT submitter_command_tx CHECK (
        (kind IN ('CANCEL', 'RESOLVE', 'SPEED_UP', 'APPROVE', 'DENY')) = (tx_id IS NOT NULL));
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
    DROP CONSTRAINT submitter_command_kind,
    DROP CONSTRAINT submitter_command_tx,
    ADD CONSTRAINT submitter_command_kind CHECK (
        kind IN ('PAUSE', 'RESUME', 'CANCEL', 'PROTECT', 'EXIT_PROTECT', 'RESOLVE',
                 'SPEED_UP', 'UPDATE')),
    ADD CONSTRAINT submitter_command_tx
        CHECK ((kind IN ('CANCEL', 'RESOLVE', 'SPEED_UP')) = (tx_id IS NOT NULL));
DROP TABLE tx_approval;
DROP TRIGGER approval_is_legal ON managed_tx;
DROP FUNCTION approval_is_legal;
ALTER TABLE managed_tx
    DROP CONSTRAINT managed_tx_approved_first,
    DROP CONSTRAINT managed_tx_approved,
    DROP CONSTRAINT managed_tx_awaiting,
    DROP CONSTRAINT managed_tx_sub_state_check;
UPDATE managed_tx SET sub_state = '' WHERE sub_state = 'AWAITING_APPROVAL';
ALTER TABLE managed_tx
    ADD CONSTRAINT managed_tx_sub_state_check CHECK (
        sub_state IN ('', 'PENDING', 'INCLUDED', 'BACKING_OFF', 'UNFUNDED')),
    DROP COLUMN approval_mac,
    DROP COLUMN approved_by,
    DROP COLUMN approval;
