-- +goose Up

-- Several nonces of a pipelined submitter may be in flight. Slots above its limit, after that was
-- lowered, are released as their transactions are.
ALTER TABLE submitter
    DROP CONSTRAINT submitter_mode_check,
    ADD CONSTRAINT submitter_mode_check CHECK (mode IN ('STRICT', 'PIPELINED')),
    ADD CONSTRAINT submitter_max_in_flight CHECK (max_in_flight <= 1024);

-- Called only for a session whose program does not know pipelined submitters. It gets no lease of
-- one, and none while several nonces are in flight: the row looks as if another node had the lease.
-- +goose StatementBegin
CREATE FUNCTION lease_needs_mode() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM submitter s
                WHERE s.submitter_id = NEW.submitter_id AND s.mode <> 'STRICT')
       OR EXISTS (SELECT FROM managed_tx t
                   WHERE t.submitter_id = NEW.submitter_id AND t.nonce IS NOT NULL
                     AND t.released_at IS NULL AND t.slot > 0) THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER lease_needs_mode BEFORE UPDATE ON submitter_lease FOR EACH ROW
    WHEN (NEW.fencing_token <> OLD.fencing_token AND NEW.owner_node <> ''
          AND coalesce(current_setting('fencepost.modes', TRUE), '') NOT LIKE '%PIPELINED%')
    EXECUTE FUNCTION lease_needs_mode();
-- min_node_schema stays: an older program works on strict submitters, and gets no lease of others.

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
UPDATE submitter SET mode = 'STRICT', max_in_flight = 1 WHERE mode <> 'STRICT';
DROP TRIGGER lease_needs_mode ON submitter_lease;
DROP FUNCTION lease_needs_mode;
ALTER TABLE submitter
    DROP CONSTRAINT submitter_max_in_flight,
    DROP CONSTRAINT submitter_mode_check,
    ADD CONSTRAINT submitter_mode_check CHECK (mode IN ('STRICT'));
