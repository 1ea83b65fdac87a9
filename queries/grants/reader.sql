-- What a report or a dashboard needs: every table but the signed bytes (tx_attempt, signed_tx).
-- $schema and $role stand for quoted names.
REVOKE ALL ON ALL TABLES IN SCHEMA $schema FROM $role;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA $schema FROM $role;
REVOKE ALL ON SCHEMA $schema FROM $role;
GRANT USAGE ON SCHEMA $schema TO $role;
GRANT SELECT
    ON $schema.goose_db_version, $schema.ledger, $schema.chain, $schema.chain_pool_rules,
       $schema.nonce_gap, $schema.tx_event, $schema.tx_label,
       $schema.submitter, $schema.submitter_lease,
       $schema.submitter_nonce_cursor, $schema.managed_tx, $schema.submitter_command, $schema.node,
       $schema.pool, $schema.pool_member,
       $schema.nonce_request, $schema.external_nonce, $schema.nonce_hash,
       $schema.sink_lease, $schema.sink_cursor, $schema.sink_parked, $schema.sink_command,
       $schema.caller_usage, $schema.audit_checkpoint, $schema.tx_approval,
       $schema.submitter_settled, $schema.archive_lease,
       $schema.directory_ledger, $schema.directory_account, $schema.directory_move,
       $schema.account_arrival, $schema.account_balance, $schema.top_up
    TO $role;
