-- Less for each move to write. With room on its page a row's next version stays beside it, and no index learns of it, unless what an index is about has changed.
-- The feed is found by its xid alone: what else orders it, it has in its rows. And what has no nonce has no place among the nonces.

-- +goose Up
-- The new indexes are made first, beside the old: reads and renewals of leases go on meanwhile, while all else that is written waits. Only then, for a moment,
-- is everything held up. Who writes must not hold anything while it waits, or the locks of that moment would not be had: to make an index keeps out less than this.
LOCK TABLE managed_tx, tx_event IN EXCLUSIVE MODE;
ALTER TABLE managed_tx SET (fillfactor = 50);
CREATE UNIQUE INDEX managed_tx_nonce_taken ON managed_tx (submitter_id, nonce) WHERE nonce IS NOT NULL;
CREATE INDEX tx_event_xid ON tx_event (xid);
LOCK TABLE tx_event, managed_tx IN ACCESS EXCLUSIVE MODE; -- in the order of those who read the feed
ALTER TABLE managed_tx DROP CONSTRAINT managed_tx_nonce;
ALTER INDEX managed_tx_nonce_taken RENAME TO managed_tx_nonce;
DROP INDEX tx_event_feed;
ALTER INDEX tx_event_xid RENAME TO tx_event_feed;
-- min_node_schema stays: the columns and the laws are the same, and no statement names an index.

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
DROP INDEX managed_tx_nonce;
ALTER TABLE managed_tx ADD CONSTRAINT managed_tx_nonce UNIQUE (submitter_id, nonce);
DROP INDEX tx_event_feed;
CREATE INDEX tx_event_feed ON tx_event (xid, submitter_id, tx_id, seq);
ALTER TABLE managed_tx SET (fillfactor = 60);
