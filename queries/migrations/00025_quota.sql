-- +goose Up

-- The use of quotas by a caller on a chain: see docs/policies.md. A row is locked while a
-- transaction is counted, so that all nodes agree.
CREATE TABLE caller_usage (
    caller     TEXT COLLATE "C" NOT NULL,
    chain_id   BIGINT NOT NULL,
    day        DATE NOT NULL DEFAULT 'epoch',     -- UTC, of value and gas
    value      NUMERIC NOT NULL DEFAULT 0,        -- in wei
    gas        NUMERIC NOT NULL DEFAULT 0,        -- sum of the gas limits
    creates    NUMERIC NOT NULL DEFAULT 0,        -- level of a bucket that leaks at the rate
    creates_at TIMESTAMPTZ NOT NULL DEFAULT 'epoch',
    PRIMARY KEY (caller, chain_id)
) WITH (fillfactor = 50);

-- One step of quota_admit. A state is the used value, gas and creates, and the first limit that the
-- last transaction exceeds (1 to 3; 0: none). Limits below 0 do not exist. With most[4] = 0 limits
-- are reported and not enforced.
-- +goose StatementBegin
CREATE FUNCTION quota_step(state NUMERIC[], used NUMERIC[], wanted NUMERIC[], most NUMERIC[])
    RETURNS NUMERIC[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    exceeded INT := 0;
BEGIN
    IF state IS NULL THEN
        state := used;
    END IF;
    FOR k IN 1..3 LOOP
        IF exceeded = 0 AND most[k] >= 0 AND state[k] + wanted[k] > most[k] THEN
            exceeded := k;
        END IF;
    END LOOP;
    IF exceeded = 0 OR most[4] = 0 THEN
        RETURN ARRAY[state[1] + wanted[1], state[2] + wanted[2], state[3] + wanted[3], exceeded];
    END IF;
    RETURN ARRAY[state[1], state[2], state[3], exceeded];
END $$;
-- +goose StatementEnd

-- Admits transactions in their order while they fit: a large one that does not fit leaves room for
-- a smaller one after it.
CREATE AGGREGATE quota_admit(used NUMERIC[], wanted NUMERIC[], most NUMERIC[])
    (SFUNC = quota_step, STYPE = NUMERIC[]);
-- min_node_schema stays: an older program knows no quotas.

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
DROP AGGREGATE quota_admit(NUMERIC[], NUMERIC[], NUMERIC[]);
DROP FUNCTION quota_step;
DROP TABLE caller_usage;
