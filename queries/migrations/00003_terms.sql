-- +goose Up

-- What a caller demands of how a transaction is sent, what the chain shows of it, and what becomes of those behind it.
ALTER TABLE managed_tx
    ADD COLUMN speed            TEXT NOT NULL DEFAULT '' CHECK (speed IN ('', 'SLOW', 'FAST')),
    ADD COLUMN max_fee          NUMERIC(78, 0) CHECK (max_fee > 0),                       -- wei per unit of gas; NULL: the caps of chain and submitter alone
    ADD COLUMN not_after        TIMESTAMPTZ,                                              -- no nonce is taken later
    ADD COLUMN cancel_late      BOOLEAN NOT NULL DEFAULT FALSE,
    ADD COLUMN accepted_attempt SMALLINT NOT NULL DEFAULT 0 CHECK (accepted_attempt >= 0), -- newest that a node said it took; 0: none
    ADD COLUMN waiting_since    TIMESTAMPTZ,                                              -- the head of the queue waits for something outside since then
    ADD COLUMN diagnosis        TEXT NOT NULL DEFAULT '' CHECK (diagnosis IN ('', 'IN_POOL', 'POSSIBLY_LOST', 'POSSIBLY_REPLACED', 'NONCE_CONSUMED')),
    ADD COLUMN above            BYTEA CHECK (octet_length(above) % 40 = 0);               -- blocks above the receipt's that were told: 8 bytes of number, 32 of hash each

ALTER TABLE tx_event
    ADD COLUMN new_fork BOOLEAN NOT NULL DEFAULT FALSE,
    ADD COLUMN above    BYTEA CHECK (octet_length(above) % 40 = 0);

ALTER TABLE submitter
    ADD COLUMN on_failure TEXT NOT NULL DEFAULT 'CONTINUE' CHECK (on_failure IN ('CONTINUE', 'PAUSE')),
    ADD COLUMN max_fee    NUMERIC(78, 0) CHECK (max_fee > 0);

ALTER TABLE submitter_command
    DROP CONSTRAINT submitter_command_kind,
    DROP CONSTRAINT submitter_command_tx,
    ADD CONSTRAINT submitter_command_kind CHECK (kind IN ('PAUSE', 'RESUME', 'CANCEL', 'PROTECT', 'EXIT_PROTECT', 'RESOLVE', 'SPEED_UP', 'UPDATE')),
    ADD CONSTRAINT submitter_command_tx CHECK ((kind IN ('CANCEL', 'RESOLVE', 'SPEED_UP')) = (tx_id IS NOT NULL));

-- +goose Down
-- +goose StatementBegin
DO $$
BEGIN
    LOCK TABLE submitter IN ACCESS EXCLUSIVE MODE;
    IF EXISTS (SELECT FROM submitter) AND coalesce(current_setting('fencepost.lose_ledger', TRUE), '') <> 'yes' THEN
        RAISE EXCEPTION 'the ledger holds submitters' USING ERRCODE = 'object_in_use';
    END IF;
END $$;
-- +goose StatementEnd
ALTER TABLE submitter_command
    DROP CONSTRAINT submitter_command_kind,
    DROP CONSTRAINT submitter_command_tx,
    ADD CONSTRAINT submitter_command_kind CHECK (kind IN ('PAUSE', 'RESUME', 'CANCEL', 'PROTECT', 'EXIT_PROTECT', 'RESOLVE')),
    ADD CONSTRAINT submitter_command_tx CHECK ((kind IN ('CANCEL', 'RESOLVE')) = (tx_id IS NOT NULL));
ALTER TABLE submitter DROP COLUMN on_failure, DROP COLUMN max_fee;
ALTER TABLE tx_event DROP COLUMN new_fork, DROP COLUMN above;
ALTER TABLE managed_tx
    DROP COLUMN speed, DROP COLUMN max_fee, DROP COLUMN not_after, DROP COLUMN cancel_late, DROP COLUMN accepted_attempt, DROP COLUMN waiting_since,
    DROP COLUMN diagnosis, DROP COLUMN above;
