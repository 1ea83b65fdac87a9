-- No clock decides whether a fail-over may have lost the transaction of a top-up: the new primary's
-- may be behind the old one's, which dated the decision.

-- Each statement is a transaction of its own that locks one table at most, and may be repeated.
-- +goose NO TRANSACTION

-- +goose Up
-- How often the treasury had been protected when the top-up was decided. NULL: an older program has
-- decided it.
ALTER TABLE top_up ADD COLUMN IF NOT EXISTS protections BIGINT;

-- top_up_in_doubt reports whether the treasury was protected for lost commits after a decision. The
-- numbers of protections continue after a fail-over from a state that has the decision.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION top_up_in_doubt(treasury INT, decided_at TIMESTAMPTZ, counted BIGINT)
    RETURNS BOOLEAN STABLE LANGUAGE sql AS $$
    SELECT CASE WHEN counted IS NULL THEN top_up_may_be_lost(treasury, decided_at) ELSE EXISTS (
        SELECT FROM submitter_command p
         WHERE p.submitter_id = treasury AND p.kind = 'PROTECT'
           AND p.action = 'DATABASE_RESTORED' AND p.result = 'APPLIED' AND p.expect > counted) END
$$;

CREATE OR REPLACE FUNCTION top_up_is_in_force() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM submitter s WHERE s.submitter_id = NEW.submitter_id FOR KEY SHARE;
    IF EXISTS (SELECT FROM top_up u
                WHERE u.treasury_id = NEW.submitter_id AND u.request_id = NEW.request_id
                  AND (u.voided_at IS NOT NULL
                       OR top_up_in_doubt(u.treasury_id, u.created_at, u.protections))) THEN
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
                  AND (u.voided_at IS NOT NULL
                       OR top_up_may_be_lost(u.treasury_id, u.created_at))) THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END $$;

DROP FUNCTION IF EXISTS top_up_in_doubt;
-- +goose StatementEnd
ALTER TABLE top_up DROP COLUMN IF EXISTS protections;
