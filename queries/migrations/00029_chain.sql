-- +goose Up

-- Evidence of changes by hand: see docs/audit.md. Each event has a hash of itself and of the event
-- before it, and the first one of the intent. NULL: older than this migration. Triggers compute
-- them, so that no program can omit them, and no caller waits for another account.
ALTER TABLE tx_event ADD COLUMN chain BYTEA;
ALTER TABLE submitter_command
    ADD COLUMN chain BYTEA,
    ADD COLUMN applied_xid XID8; -- of the transaction that applied it
CREATE INDEX submitter_command_applied ON submitter_command (applied_xid);

-- +goose StatementBegin
CREATE FUNCTION event_is_chained() RETURNS trigger LANGUAGE plpgsql
    SET enable_seqscan = off AS $$
DECLARE
    previous BYTEA;
BEGIN
    IF NEW.seq = 1 THEN
        SELECT sha256(convert_to(jsonb_build_array(
                   t.submitter_id, t.tx_id, t.request_id, encode(t.request_hash, 'hex'), t.caller,
                   t.labels)::TEXT, 'UTF8'))
          INTO previous
          FROM managed_tx t
         WHERE t.submitter_id = NEW.submitter_id AND t.tx_id = NEW.tx_id;
    ELSE
        SELECT e.chain INTO previous
          FROM tx_event e
         WHERE e.submitter_id = NEW.submitter_id AND e.tx_id = NEW.tx_id AND e.seq = NEW.seq - 1;
    END IF;
    NEW.chain := sha256(coalesce(previous, '') || convert_to(jsonb_build_array(
        NEW.submitter_id, NEW.tx_id, NEW.seq, NEW.kind, NEW.state, NEW.sub_state, NEW.executed,
        encode(NEW.tx_hash, 'hex'), encode(NEW.receipt_tx_hash, 'hex'), NEW.receipt_block,
        encode(NEW.receipt_block_hash, 'hex'), NEW.receipt_success, NEW.receipt_gas_used,
        NEW.receipt_gas_price, NEW.reason, NEW.message, NEW.fencing_token,
        extract(epoch FROM NEW.created_at), NEW.new_fork, encode(NEW.above, 'hex'),
        encode(NEW.receipt_more, 'hex'))::TEXT, 'UTF8'));
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER event_is_chained BEFORE INSERT ON tx_event
    FOR EACH ROW EXECUTE FUNCTION event_is_chained();

-- The hash of a command covers the request, and once it is applied also the result. A later change
-- by hand does not change the hash.
-- +goose StatementBegin
CREATE FUNCTION command_is_chained() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        NEW.chain := sha256(convert_to(jsonb_build_array(
            NEW.submitter_id, NEW.command_id, NEW.kind, NEW.tx_id, NEW.action, NEW.expect,
            NEW.reason, NEW.operator, NEW.caller, NEW.chain_nonce, NEW.violations,
            extract(epoch FROM NEW.created_at))::TEXT, 'UTF8'));
    ELSE
        NEW.chain := OLD.chain;
        NEW.applied_xid := OLD.applied_xid;
        IF OLD.applied_at IS NOT NULL THEN
            RETURN NEW;
        END IF;
    END IF;
    IF NEW.applied_at IS NOT NULL THEN
        NEW.applied_xid := pg_current_xact_id();
        NEW.chain := sha256(NEW.chain || convert_to(jsonb_build_array(
            extract(epoch FROM NEW.applied_at), NEW.result, NEW.fencing_token)::TEXT, 'UTF8'));
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER command_is_chained BEFORE INSERT OR UPDATE ON submitter_command
    FOR EACH ROW EXECUTE FUNCTION command_is_chained();

-- Hashes of everything that was committed between two snapshots, chained over all accounts: they
-- show that whole transactions were removed. A window has the events and applied commands with
-- from_xid <= xid < upto_xid, all of which had ended. A ledger that moved to another server begins
-- a new series, because numbers of transactions begin there again.
CREATE TABLE audit_checkpoint (
    series     BIGINT NOT NULL,
    no         BIGINT NOT NULL,
    from_xid   XID8 NOT NULL,
    upto_xid   XID8 NOT NULL,
    events     BIGINT NOT NULL,
    commands   BIGINT NOT NULL,
    digest     BYTEA NOT NULL, -- of the window
    head       BYTEA NOT NULL, -- of this row and the head before it
    created_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (series, no)
);
INSERT INTO audit_checkpoint (series, no, from_xid, upto_xid, events, commands, digest, head)
VALUES (1, 0, pg_snapshot_xmin(pg_current_snapshot()), pg_snapshot_xmin(pg_current_snapshot()),
        0, 0, '', sha256(''));
-- min_node_schema stays: triggers chain the events and commands of an older program.

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
DROP TABLE audit_checkpoint;
DROP TRIGGER command_is_chained ON submitter_command;
DROP FUNCTION command_is_chained;
DROP TRIGGER event_is_chained ON tx_event;
DROP FUNCTION event_is_chained;
DROP INDEX submitter_command_applied;
ALTER TABLE submitter_command DROP COLUMN applied_xid, DROP COLUMN chain;
ALTER TABLE tx_event DROP COLUMN chain;
