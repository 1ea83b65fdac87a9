-- Each move writes less. With room on its page, the next version of a row stays on that page, and
-- no index is written unless an indexed column has changed (a HOT update). The feed needs only the
-- xid in its index: its other sort columns are read from the rows. Transactions without a nonce are
-- left out of the index of nonces.

-- +goose Up
-- The new indexes are built first, next to the old ones. Meanwhile reads and lease renewals
-- continue, and other writes wait. Only the exchange blocks everything, for a moment. The first
-- lock is stronger than CREATE INDEX needs, so that a waiting writer holds no lock that the
-- exchange needs.
LOCK TABLE managed_tx, tx_event IN EXCLUSIVE MODE;
ALTER TABLE managed_tx SET (fillfactor = 50);
CREATE UNIQUE INDEX managed_tx_nonce_taken ON managed_tx (submitter_id, nonce)
    WHERE nonce IS NOT NULL;
CREATE INDEX tx_event_xid ON tx_event (xid);
-- In the order in which readers of the feed lock them.
LOCK TABLE tx_event, managed_tx IN ACCESS EXCLUSIVE MODE;
ALTER TABLE managed_tx DROP CONSTRAINT managed_tx_nonce;
ALTER INDEX managed_tx_nonce_taken RENAME TO managed_tx_nonce;
DROP INDEX tx_event_feed;
ALTER INDEX tx_event_xid RENAME TO tx_event_feed;
-- min_node_schema stays: columns and constraints are the same, and no statement names an index.

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
DROP INDEX managed_tx_nonce;
ALTER TABLE managed_tx ADD CONSTRAINT managed_tx_nonce UNIQUE (submitter_id, nonce);
DROP INDEX tx_event_feed;
CREATE INDEX tx_event_feed ON tx_event (xid, submitter_id, tx_id, seq);
ALTER TABLE managed_tx SET (fillfactor = 60);
