-- Migration 36 took every ledger for one that has lost no tombstones. But a backup from before that
-- migration has none, and an older node that opens it records the timeline of the restored server.
-- So the directory must answer for a ledger that no node has asked for yet.

-- +goose Up
-- Nodes that know moves ask at their start. A ledger without accounts has lost none. No node that
-- knows this migration has started without it: it ran while the ledger was restored, as one did
-- that was recorded before migration 36. The version table has the local time of the session.
UPDATE ledger SET moves_timeline = NULL
 WHERE EXISTS (SELECT FROM submitter)
   AND NOT EXISTS (SELECT FROM node n
                    WHERE n.knows_schema BETWEEN 36 AND 39
                      AND n.started_at > (SELECT max(g.tstamp)::TIMESTAMPTZ
                                            FROM goose_db_version g
                                           WHERE g.version_id = 36 AND g.is_applied));
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
