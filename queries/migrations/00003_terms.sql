-- +goose Up

-- A caller's conditions for sending a transaction, the chain's evidence about it, and the policy
-- for the transactions behind it.
ALTER TABLE managed_tx
    ADD COLUMN speed            TEXT NOT NULL DEFAULT '' CHECK (speed IN ('', 'SLOW', 'FAST')),
    -- wei per unit of gas; NULL: only the caps of chain and submitter apply
    ADD COLUMN max_fee          NUMERIC(78, 0) CHECK (max_fee > 0),
    -- no nonce is taken later
    ADD COLUMN not_after        TIMESTAMPTZ,
    ADD COLUMN cancel_late      BOOLEAN NOT NULL DEFAULT FALSE,
    -- the newest attempt that an RPC endpoint accepted; 0: none
    ADD COLUMN accepted_attempt SMALLINT NOT NULL DEFAULT 0 CHECK (accepted_attempt >= 0),
    -- since when the head of the queue waits for an external condition
    ADD COLUMN waiting_since    TIMESTAMPTZ,
    ADD COLUMN diagnosis        TEXT NOT NULL DEFAULT '' CHECK (
        diagnosis IN ('', 'IN_POOL', 'POSSIBLY_LOST', 'POSSIBLY_REPLACED', 'NONCE_CONSUMED')),
    -- the blocks on top of the receipt's block that events have reported: 8 bytes of number and 32
    -- of hash each
    ADD COLUMN above            BYTEA CHECK (octet_length(above) % 40 = 0);

ALTER TABLE tx_event
    ADD COLUMN new_fork BOOLEAN NOT NULL DEFAULT FALSE,
    ADD COLUMN above    BYTEA CHECK (octet_length(above) % 40 = 0);

ALTER TABLE submitter
    ADD COLUMN on_failure TEXT NOT NULL DEFAULT 'CONTINUE'
                          CHECK (on_failure IN ('CONTINUE', 'PAUSE')),
    ADD COLUMN max_fee    NUMERIC(78, 0) CHECK (max_fee > 0);

ALTER TABLE submitter_command
    DROP CONSTRAINT submitter_command_kind,
    DROP CONSTRAINT submitter_command_tx,
    ADD CONSTRAINT submitter_command_kind CHECK (
        kind IN ('PAUSE', 'RESUME', 'CANCEL', 'PROTECT', 'EXIT_PROTECT', 'RESOLVE',
                 'SPEED_UP', 'UPDATE')),
    ADD CONSTRAINT submitter_command_tx
        CHECK ((kind IN ('CANCEL', 'RESOLVE', 'SPEED_UP')) = (tx_id IS NOT NULL));

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
ALTER TABLE submitter_command
    DROP CONSTRAINT submitter_command_kind,
    DROP CONSTRAINT submitter_command_tx,
    ADD CONSTRAINT submitter_command_kind CHECK (
        kind IN ('PAUSE', 'RESUME', 'CANCEL', 'PROTECT', 'EXIT_PROTECT', 'RESOLVE')),
    ADD CONSTRAINT submitter_command_tx
        CHECK ((kind IN ('CANCEL', 'RESOLVE')) = (tx_id IS NOT NULL));
ALTER TABLE submitter DROP COLUMN on_failure, DROP COLUMN max_fee;
ALTER TABLE tx_event DROP COLUMN new_fork, DROP COLUMN above;
ALTER TABLE managed_tx
    DROP COLUMN speed,
    DROP COLUMN max_fee,
    DROP COLUMN not_after,
    DROP COLUMN cancel_late,
    DROP COLUMN accepted_attempt,
    DROP COLUMN waiting_since,
    DROP COLUMN diagnosis,
    DROP COLUMN above;
