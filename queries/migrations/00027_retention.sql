-- Retention: signed bytes are erased once no owner can need them, and final transactions can be
-- archived. The row of an archived transaction stays with its key, nonce, outcome and hashes: a
-- repeated request_id names the same transaction forever.

-- Each statement locks one table, as in 00018, and may be repeated.
-- +goose NO TRANSACTION

-- +goose Up
ALTER TABLE managed_tx
    ADD COLUMN IF NOT EXISTS trimmed_at  TIMESTAMPTZ, -- its events are in an archive only
    ADD COLUMN IF NOT EXISTS archived_at TIMESTAMPTZ; -- and so are its call data and labels
ALTER TABLE tx_attempt ALTER COLUMN raw_tx DROP NOT NULL; -- NULL: erased
-- No removed event has a higher number (xid).
ALTER TABLE ledger ADD COLUMN IF NOT EXISTS trimmed_xid BIGINT NOT NULL DEFAULT 0;
-- The newest migration that the node's program knows; NULL: it is older than this one.
ALTER TABLE node ADD COLUMN IF NOT EXISTS knows_schema BIGINT;

-- All transactions with a nonce below settled_below are final, and an owner has compared them with
-- the chain for the last time. The signed bytes of those below erased_below are erased.
CREATE TABLE IF NOT EXISTS submitter_settled (
    submitter_id  INT PRIMARY KEY REFERENCES submitter,
    settled_below BIGINT NOT NULL CHECK (settled_below >= 0),
    erased_below  BIGINT NOT NULL CHECK (erased_below >= 0),
    fencing_token BIGINT NOT NULL,
    updated_at    TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

-- One process at a time archives, behind a fence like that of submitters.
CREATE TABLE IF NOT EXISTS archive_lease (
    only_row      BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (only_row),
    holder        TEXT NOT NULL DEFAULT '',
    fencing_token BIGINT NOT NULL DEFAULT 0,
    expires_at    TIMESTAMPTZ NOT NULL DEFAULT 'epoch',
    lasts         INTERVAL, -- the duration of the lease when it was last extended
    UNIQUE (only_row, fencing_token) -- makes the token a key column: see ARCHITECTURE.md
);
INSERT INTO archive_lease DEFAULT VALUES ON CONFLICT DO NOTHING;

-- Signed bytes may be erased, and nothing else of an attempt may change.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION attempt_is_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'attempt % of transaction % must not change', OLD.attempt_no, OLD.tx_id;
END $$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER attempt_is_kept AFTER UPDATE ON tx_attempt FOR EACH ROW WHEN (
    NEW.raw_tx IS NOT NULL
    OR (NEW.submitter_id, NEW.tx_id, NEW.attempt_no, NEW.kind, NEW.nonce, NEW.tx_hash)
       IS DISTINCT FROM
       (OLD.submitter_id, OLD.tx_id, OLD.attempt_no, OLD.kind, OLD.nonce, OLD.tx_hash))
    EXECUTE FUNCTION attempt_is_kept();

-- A transaction whose events are in an archive keeps its state: it is final, and no program can
-- broadcast it again.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION archived_is_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'transaction % is % and archived: it must not change', OLD.tx_id, OLD.state;
END $$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER archived_is_final AFTER UPDATE ON managed_tx FOR EACH ROW WHEN (
    (OLD.trimmed_at IS NOT NULL OR NEW.trimmed_at IS NOT NULL)
    AND (NEW.trimmed_at IS NULL OR NEW.terminal_at IS NULL
         OR (NEW.version, NEW.state, NEW.nonce, NEW.executed, NEW.request_hash)
            IS DISTINCT FROM
            (OLD.version, OLD.state, OLD.nonce, OLD.executed, OLD.request_hash)))
    EXECUTE FUNCTION archived_is_final();
-- min_node_schema stays: the bytes that an older program needs are not erased. The first archive
-- raises it, and needs all nodes to know this schema.

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
DROP TRIGGER IF EXISTS archived_is_final ON managed_tx;
DROP FUNCTION IF EXISTS archived_is_final;
DROP TRIGGER IF EXISTS attempt_is_kept ON tx_attempt;
DROP FUNCTION IF EXISTS attempt_is_kept;
DROP TABLE IF EXISTS archive_lease, submitter_settled;
ALTER TABLE node DROP COLUMN IF EXISTS knows_schema;
ALTER TABLE ledger DROP COLUMN IF EXISTS trimmed_xid;
-- Down loses signed bytes that are gone; a placeholder keeps the older constraint.
UPDATE tx_attempt SET raw_tx = '\x00' WHERE raw_tx IS NULL;
ALTER TABLE tx_attempt ALTER COLUMN raw_tx SET NOT NULL;
ALTER TABLE managed_tx
    DROP COLUMN IF EXISTS trimmed_at, DROP COLUMN IF EXISTS archived_at;
