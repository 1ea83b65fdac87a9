-- Decided top-ups whose transaction a fail-over may have lost: see docs/balances.md.

-- +goose Up

-- top_up_may_be_lost reports whether a decision on a ledger that lost commits came after a top-up:
-- its transaction may have been executed, and be unknown here. While such a protection is in force
-- the treasury takes no transactions, so nothing is decided in between.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION top_up_may_be_lost(treasury INT, decided_at TIMESTAMPTZ)
    RETURNS BOOLEAN STABLE LANGUAGE sql AS $$
    SELECT EXISTS (
        SELECT FROM submitter_command p
          JOIN submitter_command x ON x.submitter_id = p.submitter_id AND x.kind = 'EXIT_PROTECT'
                                  AND x.expect = p.expect AND x.result = 'APPLIED'
         WHERE p.submitter_id = treasury AND p.kind = 'PROTECT'
           AND p.action = 'DATABASE_RESTORED' AND p.result = 'APPLIED'
           AND x.applied_at > decided_at)
$$;

CREATE OR REPLACE FUNCTION top_up_is_in_force() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM submitter s WHERE s.submitter_id = NEW.submitter_id FOR KEY SHARE;
    IF EXISTS (SELECT FROM top_up u
                WHERE u.treasury_id = NEW.submitter_id AND u.request_id = NEW.request_id
                  AND (u.voided_at IS NOT NULL
                       OR top_up_may_be_lost(u.treasury_id, u.created_at))) THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
-- min_node_schema stays: an older program creates no such top-up either.

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

CREATE OR REPLACE FUNCTION top_up_is_in_force() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM submitter s WHERE s.submitter_id = NEW.submitter_id FOR KEY SHARE;
    IF EXISTS (SELECT FROM top_up u
                WHERE u.treasury_id = NEW.submitter_id AND u.request_id = NEW.request_id
                  AND u.voided_at IS NOT NULL) THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END $$;

DROP FUNCTION IF EXISTS top_up_may_be_lost;
-- +goose StatementEnd
