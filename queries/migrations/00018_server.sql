-- The ledger records the server that it lives on, so that a copy elsewhere is recognized. Numbers
-- of transactions (xid), on which the feed rests, mean nothing on another server; and a standby
-- that is promoted may lack commits.

-- Each statement is a transaction of its own that locks one table, so that none of them can
-- deadlock with a commit under way. Repeating one that is done already changes nothing.
-- +goose NO TRANSACTION

-- +goose Up
ALTER TABLE ledger
    ADD COLUMN IF NOT EXISTS system_id       BIGINT, -- of initdb; NULL: the next node records it
    ADD COLUMN IF NOT EXISTS database_oid    BIGINT,
    ADD COLUMN IF NOT EXISTS timeline        INT,    -- rises with each promotion
    ADD COLUMN IF NOT EXISTS timeline_before INT,    -- the one before, since the last recovery
    ADD COLUMN IF NOT EXISTS timeline_xid    XID8;   -- events of timeline have no lower xid
-- The timeline under which an account was last compared with the chain, or registered.
ALTER TABLE submitter ADD COLUMN IF NOT EXISTS timeline INT;
-- The duration of a lease or heartbeat when it was last extended. No more than this can be left of
-- it, whatever the clock says since; NULL: unknown.
ALTER TABLE submitter_lease ADD COLUMN IF NOT EXISTS lasts INTERVAL;
ALTER TABLE node ADD COLUMN IF NOT EXISTS lasts INTERVAL;
UPDATE ledger
   SET system_id = s.system_identifier, database_oid = d.oid::BIGINT,
       timeline = greatest(c.timeline_id, r.min_recovery_end_timeline),
       -- two ledgers must not have the same epoch: a resume token names its ledger by it
       feed_epoch = greatest(feed_epoch + 1,
                             (extract(EPOCH FROM clock_timestamp()) * 1000)::BIGINT)
  FROM pg_control_system() s, pg_control_checkpoint() c, pg_control_recovery() r, pg_database d
 WHERE d.datname = current_database() AND system_id IS NULL;
UPDATE submitter SET timeline = (SELECT l.timeline FROM ledger l) WHERE timeline IS NULL;
-- min_node_schema stays: an older program compares nothing, and extends leases without lasts.

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
ALTER TABLE node DROP COLUMN IF EXISTS lasts;
ALTER TABLE submitter_lease DROP COLUMN IF EXISTS lasts;
ALTER TABLE submitter DROP COLUMN IF EXISTS timeline;
ALTER TABLE ledger
    DROP COLUMN IF EXISTS system_id, DROP COLUMN IF EXISTS database_oid,
    DROP COLUMN IF EXISTS timeline, DROP COLUMN IF EXISTS timeline_before,
    DROP COLUMN IF EXISTS timeline_xid;
