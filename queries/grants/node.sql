-- What a node needs, and nothing else: it cannot change the schema, remove a row of the ledger, or
-- rewrite an event or a signed attempt. $schema and $role stand for quoted names.
REVOKE ALL ON ALL TABLES IN SCHEMA $schema FROM $role;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA $schema FROM $role;
REVOKE ALL ON SCHEMA $schema FROM $role;
GRANT USAGE ON SCHEMA $schema TO $role;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA $schema TO $role;
GRANT SELECT ON $schema.goose_db_version, $schema.ledger TO $role;
-- A node records where the ledger is, a fail-over, and answers of the directory.
GRANT UPDATE (system_id, database_oid, timeline, timeline_before, timeline_xid, moves_timeline)
    ON $schema.ledger TO $role;
GRANT SELECT, INSERT
    ON $schema.audit_checkpoint, $schema.pool, $schema.chain, $schema.nonce_gap, $schema.tx_event,
       $schema.tx_label, $schema.top_up
    TO $role;
GRANT SELECT, INSERT, UPDATE
    ON $schema.chain_pool_rules, $schema.submitter, $schema.submitter_lease,
       $schema.submitter_nonce_cursor,
       $schema.managed_tx, $schema.submitter_command, $schema.pool_member
    TO $role;
GRANT SELECT, INSERT, UPDATE
    ON $schema.sink_lease, $schema.sink_cursor, $schema.caller_usage,
       $schema.account_balance
    TO $role;
GRANT SELECT, INSERT ON $schema.sink_command TO $role;
GRANT SELECT, INSERT, UPDATE, DELETE
    ON $schema.node, $schema.sink_parked,
       $schema.tx_approval
    TO $role;
GRANT SELECT, INSERT, UPDATE ON $schema.submitter_settled TO $role;
GRANT SELECT
    ON $schema.archive_lease, $schema.directory_ledger, $schema.directory_move,
       $schema.account_arrival
    TO $role;
GRANT SELECT, INSERT ON $schema.directory_account TO $role;
-- The signed bytes: whoever reads them can broadcast them. A trigger lets them only be erased.
GRANT SELECT, INSERT ON $schema.tx_attempt, $schema.signed_tx TO $role;
GRANT UPDATE (raw_tx) ON $schema.tx_attempt TO $role;
GRANT UPDATE (raw_tx) ON $schema.signed_tx TO $role;
GRANT SELECT, INSERT ON $schema.nonce_hash TO $role;
GRANT SELECT, INSERT, UPDATE ON $schema.nonce_request, $schema.external_nonce TO $role;
