-- Less for each move to write. With room on its page a row's next version stays beside it, and no index learns of it, unless what an index is about has changed.
-- The feed is found by its xid alone: what else orders it, it has in its rows. And what has no nonce has no place among the nonces.

-- +goose Up
ALTER TABLE managed_tx SET (fillfactor = 50);
DROP INDEX tx_event_feed;
CREATE INDEX tx_event_feed ON tx_event (xid);
ALTER TABLE managed_tx DROP CONSTRAINT managed_tx_nonce;
CREATE UNIQUE INDEX managed_tx_nonce ON managed_tx (submitter_id, nonce) WHERE nonce IS NOT NULL;
-- min_node_schema stays: the columns and the laws are the same, and no statement names an index. While the indexes are made, nothing is written.

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
