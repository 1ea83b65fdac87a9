-- +goose Up

-- Nodes that work on this ledger. Membership decides who takes what sooner; correctness never rests on it.
CREATE TABLE node (
    node_id    TEXT PRIMARY KEY CHECK (char_length(node_id) BETWEEN 1 AND 255), -- "name/boot-uuid", as the leases have it
    chain_ids  BIGINT[] NOT NULL,                                                -- the chains that it works on
    accepting  BOOLEAN NOT NULL,                                                 -- false: full, or stopping
    started_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    expires_at TIMESTAMPTZ NOT NULL
) WITH (fillfactor = 50);

-- Numbers that no transaction of the ledger uses: somebody else did, and an operator has decided to go on (law L10). Ranges do not overlap.
CREATE TABLE nonce_gap (
    submitter_id  INT NOT NULL REFERENCES submitter,
    first_nonce   BIGINT NOT NULL CHECK (first_nonce >= 0),
    last_nonce    BIGINT NOT NULL CHECK (last_nonce >= first_nonce),
    tx_id         UUID,                    -- the transaction that gave it up; NULL: the cursor was moved past it
    reason        TEXT NOT NULL,
    fencing_token BIGINT NOT NULL,
    created_at    TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (submitter_id, first_nonce)
);

-- protections counts them; the one in force has that number, and an operator's decision names it.
ALTER TABLE submitter_nonce_cursor ADD COLUMN protections BIGINT NOT NULL DEFAULT 0 CHECK (protections >= 0);

-- Times that an operator gave a transaction back to the queue. Its attempts of before have nonces of their own.
ALTER TABLE managed_tx ADD COLUMN requeued SMALLINT NOT NULL DEFAULT 0 CHECK (requeued >= 0);

ALTER TABLE submitter_command
    ADD COLUMN action   TEXT NOT NULL DEFAULT '' CHECK (char_length(action) <= 64),
    ADD COLUMN expect   BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN operator TEXT NOT NULL DEFAULT '' CHECK (char_length(operator) <= 128),
    DROP CONSTRAINT submitter_command_kind_check,
    DROP CONSTRAINT submitter_command_reason_check,
    DROP CONSTRAINT submitter_command_check1,
    ADD CONSTRAINT submitter_command_kind CHECK (kind IN ('PAUSE', 'RESUME', 'CANCEL', 'PROTECT', 'EXIT_PROTECT', 'RESOLVE')),
    ADD CONSTRAINT submitter_command_reason CHECK (char_length(reason) <= 4096),
    ADD CONSTRAINT submitter_command_tx CHECK ((kind IN ('CANCEL', 'RESOLVE')) = (tx_id IS NOT NULL));
-- Who protects again before the owner has done it gets the same command.
CREATE UNIQUE INDEX submitter_command_protect ON submitter_command (submitter_id) WHERE kind = 'PROTECT' AND applied_at IS NULL;

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
DROP INDEX submitter_command_protect;
ALTER TABLE submitter_command
    DROP COLUMN action, DROP COLUMN expect, DROP COLUMN operator,
    DROP CONSTRAINT submitter_command_kind, DROP CONSTRAINT submitter_command_reason, DROP CONSTRAINT submitter_command_tx,
    ADD CONSTRAINT submitter_command_kind_check CHECK (kind IN ('PAUSE', 'RESUME', 'CANCEL')),
    ADD CONSTRAINT submitter_command_reason_check CHECK (char_length(reason) <= 512),
    ADD CONSTRAINT submitter_command_check1 CHECK ((kind = 'CANCEL') = (tx_id IS NOT NULL));
ALTER TABLE managed_tx DROP COLUMN requeued;
ALTER TABLE submitter_nonce_cursor DROP COLUMN protections;
DROP TABLE nonce_gap, node;
