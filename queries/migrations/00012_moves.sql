-- The law of moves as the trigger's condition: the server calls the function only for a move that
-- breaks the law. An AFTER trigger sees the final row and need not lock it again.

-- +goose Up
-- Waits for running writes, holds no other lock meanwhile, and does not block readers.
-- +goose StatementBegin
CREATE OR REPLACE TRIGGER move_is_legal AFTER UPDATE ON managed_tx FOR EACH ROW WHEN (
    NEW.version < OLD.version OR NEW.version > OLD.version + 1
    OR (NEW.state <> OLD.state AND NEW.version = OLD.version)
    OR NEW.state <> OLD.state AND NOT (OLD.state, NEW.state) IN (
        ('QUEUED', 'ALLOCATED'), ('QUEUED', 'CONFIRMED'),
        ('QUEUED', 'FAILED_FINAL'), ('QUEUED', 'CANCELLED'),
        ('ALLOCATED', 'TRACKING'), ('ALLOCATED', 'STUCK'), ('ALLOCATED', 'CONFIRMED'),
        ('ALLOCATED', 'FAILED_FINAL'), ('ALLOCATED', 'CANCELLED'),
        ('TRACKING', 'STUCK'), ('TRACKING', 'CONFIRMED'),
        ('TRACKING', 'FAILED_FINAL'), ('TRACKING', 'CANCELLED'),
        ('STUCK', 'QUEUED'), ('STUCK', 'TRACKING'), ('STUCK', 'CONFIRMED'),
        ('STUCK', 'FAILED_FINAL'), ('STUCK', 'CANCELLED'),
        ('CONFIRMED', 'STUCK'), ('FAILED_FINAL', 'STUCK'), ('CANCELLED', 'STUCK')))
    EXECUTE FUNCTION move_is_legal();

CREATE OR REPLACE FUNCTION move_is_legal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION
        'transaction %: no legal move leads from % of version % to % of version %',
        OLD.tx_id, OLD.state, OLD.version, NEW.state, NEW.version;
END $$;
-- +goose StatementEnd
-- min_node_schema stays: the law is the same.

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
CREATE OR REPLACE TRIGGER move_is_legal BEFORE UPDATE ON managed_tx
    FOR EACH ROW EXECUTE FUNCTION move_is_legal();
CREATE OR REPLACE FUNCTION move_is_legal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.version < OLD.version OR NEW.version > OLD.version + 1
       OR (NEW.state <> OLD.state AND NEW.version = OLD.version) THEN
        RAISE EXCEPTION 'transaction %: version % to % with state % to %',
            OLD.tx_id, OLD.version, NEW.version, OLD.state, NEW.state;
    END IF;
    IF NEW.state <> OLD.state AND NOT (OLD.state, NEW.state) IN (
        ('QUEUED', 'ALLOCATED'), ('QUEUED', 'CONFIRMED'),
        ('QUEUED', 'FAILED_FINAL'), ('QUEUED', 'CANCELLED'),
        ('ALLOCATED', 'TRACKING'), ('ALLOCATED', 'STUCK'), ('ALLOCATED', 'CONFIRMED'),
        ('ALLOCATED', 'FAILED_FINAL'), ('ALLOCATED', 'CANCELLED'),
        ('TRACKING', 'STUCK'), ('TRACKING', 'CONFIRMED'),
        ('TRACKING', 'FAILED_FINAL'), ('TRACKING', 'CANCELLED'),
        ('STUCK', 'QUEUED'), ('STUCK', 'TRACKING'), ('STUCK', 'CONFIRMED'),
        ('STUCK', 'FAILED_FINAL'), ('STUCK', 'CANCELLED'),
        ('CONFIRMED', 'STUCK'), ('FAILED_FINAL', 'STUCK'), ('CANCELLED', 'STUCK')) THEN
        RAISE EXCEPTION 'transaction %: no legal move leads from % to %',
            OLD.tx_id, OLD.state, NEW.state;
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
