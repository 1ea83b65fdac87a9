-- Migration 36 took every ledger for one that has lost no tombstones. But a backup from before that
-- migration has none, and an older node that opens it records the timeline of the restored server.
-- So the directory must answer for a ledger that no node has asked for yet.

-- +goose Up
-- Nodes that know moves ask at their start. A ledger without accounts has lost none.
UPDATE ledger SET moves_timeline = NULL
 WHERE EXISTS (SELECT FROM submitter)
   AND NOT EXISTS (SELECT FROM node n WHERE n.knows_schema >= 36);
-- min_node_schema stays: an older program gets no lease of an account with a tombstone.

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
