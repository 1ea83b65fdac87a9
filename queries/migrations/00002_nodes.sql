-- +goose Up

-- Nodes that work on this ledger. Membership only decides which node acquires a lease sooner;
-- correctness never depends on it.
CREATE TABLE node (
    -- "name/boot-uuid", as in submitter_lease
    node_id    TEXT PRIMARY KEY CHECK (char_length(node_id) BETWEEN 1 AND 255),
    chain_ids  BIGINT[] NOT NULL, -- the chains that it works on
    accepting  BOOLEAN NOT NULL,  -- false: full, or stopping
    started_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    expires_at TIMESTAMPTZ NOT NULL
) WITH (fillfactor = 50);

-- Nonces that no transaction of the ledger uses: another program used them, and an operator decided
-- to proceed (law L10). Ranges do not overlap.
CREATE TABLE nonce_gap (
    submitter_id  INT NOT NULL REFERENCES submitter,
    first_nonce   BIGINT NOT NULL CHECK (first_nonce >= 0),
    last_nonce    BIGINT NOT NULL CHECK (last_nonce >= first_nonce),
    tx_id         UUID,      -- the transaction that lost it; NULL: the cursor was moved past it
    reason        TEXT NOT NULL,
    fencing_token BIGINT NOT NULL,
    created_at    TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (submitter_id, first_nonce)
);
CREATE INDEX nonce_gap_tx ON nonce_gap (submitter_id, tx_id) WHERE tx_id IS NOT NULL;

-- +goose StatementBegin
-- A gap is a nonce below the cursor that no transaction has. Gaps are rare: only an operator's
-- decision pays for the reads of other tables. Taking a nonce costs nothing extra, because it takes
-- the nonce of the cursor, above all gaps.
CREATE FUNCTION gap_is_free() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM submitter_nonce_cursor n
                    WHERE n.submitter_id = NEW.submitter_id
                      AND n.init_nonce <= NEW.first_nonce AND NEW.last_nonce < n.next_nonce) THEN
        RAISE EXCEPTION
            'nonces % to % of submitter % are not below its cursor: '
            'they cannot have been passed over',
            NEW.first_nonce, NEW.last_nonce, NEW.submitter_id;
    END IF;
    IF EXISTS (SELECT FROM managed_tx t
                WHERE t.submitter_id = NEW.submitter_id
                  AND t.nonce BETWEEN NEW.first_nonce AND NEW.last_nonce) THEN
        RAISE EXCEPTION
            'nonces % to % of submitter % are not free: a transaction has one of them',
            NEW.first_nonce, NEW.last_nonce, NEW.submitter_id;
    END IF;
    IF EXISTS (SELECT FROM nonce_gap g
                WHERE g.submitter_id = NEW.submitter_id AND g.first_nonce <> NEW.first_nonce
                  AND g.first_nonce <= NEW.last_nonce AND g.last_nonce >= NEW.first_nonce) THEN
        RAISE EXCEPTION 'nonces % to % of submitter % are recorded as a gap already',
            NEW.first_nonce, NEW.last_nonce, NEW.submitter_id;
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION cursor_only_rises() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the nonce cursor of submitter % must not fall (% to %)',
        OLD.submitter_id, OLD.next_nonce, NEW.next_nonce;
END $$;
-- +goose StatementEnd
-- After the statement, because another part of it frees the nonce of the transaction.
CREATE TRIGGER gap_is_free AFTER INSERT ON nonce_gap
    FOR EACH ROW EXECUTE FUNCTION gap_is_free();
CREATE TRIGGER cursor_only_rises BEFORE UPDATE ON submitter_nonce_cursor FOR EACH ROW
    WHEN (NEW.next_nonce < OLD.next_nonce) EXECUTE FUNCTION cursor_only_rises();

-- protections counts them. The count is the number of the one in force, and an operator's decision
-- names it.
ALTER TABLE submitter_nonce_cursor
    ADD COLUMN protections BIGINT NOT NULL DEFAULT 0 CHECK (protections >= 0);

-- How often an operator requeued a transaction. Its earlier attempts have other nonces.
ALTER TABLE managed_tx
    ADD COLUMN requeued SMALLINT NOT NULL DEFAULT 0 CHECK (requeued >= 0);

ALTER TABLE submitter_command
    ADD COLUMN action   TEXT NOT NULL DEFAULT '' CHECK (char_length(action) <= 64),
    ADD COLUMN expect   BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN operator TEXT NOT NULL DEFAULT '' CHECK (char_length(operator) <= 128),
    DROP CONSTRAINT submitter_command_kind_check,
    DROP CONSTRAINT submitter_command_reason_check,
    DROP CONSTRAINT submitter_command_check1,
    ADD CONSTRAINT submitter_command_kind CHECK (
        kind IN ('PAUSE', 'RESUME', 'CANCEL', 'PROTECT', 'EXIT_PROTECT', 'RESOLVE')),
    ADD CONSTRAINT submitter_command_reason CHECK (char_length(reason) <= 4096),
    ADD CONSTRAINT submitter_command_tx
        CHECK ((kind IN ('CANCEL', 'RESOLVE')) = (tx_id IS NOT NULL));
-- A repeated PROTECT returns the same command until the owner has applied it.
CREATE UNIQUE INDEX submitter_command_protect ON submitter_command (submitter_id)
    WHERE kind = 'PROTECT' AND applied_at IS NULL;

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
DROP INDEX submitter_command_protect;
ALTER TABLE submitter_command
    DROP COLUMN action,
    DROP COLUMN expect,
    DROP COLUMN operator,
    DROP CONSTRAINT submitter_command_kind,
    DROP CONSTRAINT submitter_command_reason,
    DROP CONSTRAINT submitter_command_tx,
    ADD CONSTRAINT submitter_command_kind_check CHECK (kind IN ('PAUSE', 'RESUME', 'CANCEL')),
    ADD CONSTRAINT submitter_command_reason_check CHECK (char_length(reason) <= 512),
    ADD CONSTRAINT submitter_command_check1 CHECK ((kind = 'CANCEL') = (tx_id IS NOT NULL));
ALTER TABLE managed_tx DROP COLUMN requeued;
ALTER TABLE submitter_nonce_cursor DROP COLUMN protections;
DROP TRIGGER cursor_only_rises ON submitter_nonce_cursor;
DROP TABLE nonce_gap, node;
DROP FUNCTION gap_is_free, cursor_only_rises;
