-- The rights of "fencepost archive": it reads all but the signed bytes, removes events, labels and
-- requests about nonces, and empties call data. $schema and $role stand for quoted names.
REVOKE ALL ON ALL TABLES IN SCHEMA $schema FROM $role;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA $schema FROM $role;
REVOKE ALL ON SCHEMA $schema FROM $role;
GRANT USAGE ON SCHEMA $schema TO $role;
GRANT SELECT
    ON $schema.goose_db_version, $schema.ledger, $schema.submitter, $schema.node,
       $schema.submitter_settled, $schema.sink_cursor, $schema.sink_parked, $schema.managed_tx,
       $schema.tx_event, $schema.tx_label, $schema.nonce_request, $schema.external_nonce
    TO $role;
GRANT SELECT (submitter_id, tx_id, attempt_no, kind, nonce, tx_hash, gas_limit, fee_cap, tip,
              legacy, fencing_token, created_at)
    ON $schema.tx_attempt TO $role;
GRANT UPDATE (min_node_schema, trimmed_xid, system_id, database_oid, timeline, timeline_before,
              timeline_xid)
    ON $schema.ledger TO $role;
GRANT UPDATE (trimmed_at, archived_at, data, labels) ON $schema.managed_tx TO $role;
GRANT DELETE ON $schema.tx_event, $schema.tx_label, $schema.nonce_request TO $role;
GRANT SELECT, UPDATE ON $schema.archive_lease TO $role;
