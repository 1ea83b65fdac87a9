package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// checkIntegrity compares the schema of the database with the constraints, indexes and triggers
// that hold the laws. A hand-made repair, a partial restore or an interrupted index build can leave
// one out, and nothing else would show it until a law is broken.
func (s *Store) checkIntegrity(ctx context.Context) error {
	present, err := s.own().SchemaObjects(ctx)
	if err != nil {
		return s.failed(ctx, "check the schema", err)
	}
	var missing []string
	for _, name := range schemaObjects {
		if !slices.Contains(present, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("store: check the schema: %w: missing or not in force: %s; "+
			"create them again as the migrations do, then run \"fencepost audit\"",
			ErrSchema, strings.Join(missing, ", "))
	}
	keys, err := s.own().LocaleKeys(ctx)
	if err != nil {
		return s.failed(ctx, "check the schema", err)
	}
	if len(keys) > 0 {
		return fmt.Errorf("store: check the schema: %w: keys are not compared byte by byte: %s; "+
			"give the columns COLLATE \"C\"", ErrSchema, strings.Join(keys, ", "))
	}
	return nil
}

// schemaObjects lists the constraints, indexes and triggers of the newest schema that hold a law or
// keep a statement fast, as "table.name". A test compares it with a fresh schema.
var schemaObjects = []string{
	"archive_lease.archive_lease_only_row_check",
	"archive_lease.archive_lease_only_row_fencing_token_key",
	"archive_lease.archive_lease_pkey",
	"audit_checkpoint.audit_checkpoint_pkey",
	"caller_usage.caller_usage_pkey",
	"chain.chain_chain_id_check",
	"chain.chain_genesis_hash_check",
	"chain.chain_pkey",
	"chain_pool_rules.chain_pool_rules_chain_id_check",
	"chain_pool_rules.chain_pool_rules_guessed_tip_check",
	"chain_pool_rules.chain_pool_rules_min_price_check",
	"chain_pool_rules.chain_pool_rules_min_tip_check",
	"chain_pool_rules.chain_pool_rules_pkey",
	"ledger.ledger_only_row_check",
	"ledger.ledger_pkey",
	"managed_tx.archived_is_final",
	"managed_tx.managed_tx_above_check",
	"managed_tx.managed_tx_accepted_attempt_check",
	"managed_tx.managed_tx_caller_check",
	"managed_tx.managed_tx_diagnosis_check",
	"managed_tx.managed_tx_ended",
	"managed_tx.managed_tx_ended_block_check",
	"managed_tx.managed_tx_executed",
	"managed_tx.managed_tx_executed_check",
	"managed_tx.managed_tx_final",
	"managed_tx.managed_tx_final_is_released",
	"managed_tx.managed_tx_gas_limit_check",
	"managed_tx.managed_tx_in_flight",
	"managed_tx.managed_tx_included",
	"managed_tx.managed_tx_last_answer_check",
	"managed_tx.managed_tx_max_fee_check",
	"managed_tx.managed_tx_nonce",
	"managed_tx.managed_tx_nonce_by_state",
	"managed_tx.managed_tx_nonce_check",
	"managed_tx.managed_tx_open",
	"managed_tx.managed_tx_pkey",
	"managed_tx.managed_tx_pool_request",
	"managed_tx.managed_tx_pooled_attempt_check",
	"managed_tx.managed_tx_queue",
	"managed_tx.managed_tx_receipt",
	"managed_tx.managed_tx_receipt_block_hash_check",
	"managed_tx.managed_tx_receipt_tx_hash_check",
	"managed_tx.managed_tx_rejected_check",
	"managed_tx.managed_tx_request",
	"managed_tx.managed_tx_request_hash_check",
	"managed_tx.managed_tx_request_id_check",
	"managed_tx.managed_tx_requeued_check",
	"managed_tx.managed_tx_restored",
	"managed_tx.managed_tx_slot_check",
	"managed_tx.managed_tx_speed_check",
	"managed_tx.managed_tx_state",
	"managed_tx.managed_tx_sub_state_check",
	"managed_tx.managed_tx_to_address_check",
	"managed_tx.managed_tx_tx_hash_check",
	"managed_tx.managed_tx_unfunded",
	"managed_tx.managed_tx_value_check",
	"managed_tx.managed_tx_version_check",
	"managed_tx.move_is_legal",
	"node.node_node_id_check",
	"node.node_pkey",
	"nonce_gap.gap_is_free",
	"nonce_gap.nonce_gap_check",
	"nonce_gap.nonce_gap_first_nonce_check",
	"nonce_gap.nonce_gap_pkey",
	"nonce_gap.nonce_gap_submitter_id_fkey",
	"nonce_gap.nonce_gap_tx",
	"pool.pool_chain_id_check",
	"pool.pool_name_check",
	"pool.pool_name_key",
	"pool.pool_pkey",
	"pool_member.pool_member_pkey",
	"pool_member.pool_member_pool_id_fkey",
	"pool_member.pool_member_status_check",
	"pool_member.pool_member_submitter_id_fkey",
	"sink_command.sink_command_action_check",
	"sink_command.sink_command_caller_check",
	"sink_command.sink_command_kind_check",
	"sink_command.sink_command_operator_check",
	"sink_command.sink_command_pkey",
	"sink_command.sink_command_reason_check",
	"sink_command.sink_command_sink_fkey",
	"sink_cursor.sink_cursor_operator_check",
	"sink_cursor.sink_cursor_pkey",
	"sink_cursor.sink_cursor_reason_check",
	"sink_cursor.sink_cursor_sink_fkey",
	"sink_cursor.sink_cursor_status_check",
	"sink_lease.sink_lease_pkey",
	"sink_lease.sink_lease_sink_check",
	"sink_lease.sink_lease_sink_fencing_token_key",
	"sink_parked.sink_parked_check",
	"sink_parked.sink_parked_due",
	"sink_parked.sink_parked_pkey",
	"sink_parked.sink_parked_reason_check",
	"sink_parked.sink_parked_sink_fkey",
	"submitter.submitter_address_check",
	"submitter.submitter_chain_id_address_key",
	"submitter.submitter_chain_id_check",
	"submitter.submitter_check",
	"submitter.submitter_max_fee_check",
	"submitter.submitter_max_in_flight",
	"submitter.submitter_mode_check",
	"submitter.submitter_name_check",
	"submitter.submitter_name_key",
	"submitter.submitter_on_failure_check",
	"submitter.submitter_pkey",
	"submitter.submitter_start_from_check",
	"submitter.submitter_status_check",
	"submitter_command.command_is_chained",
	"submitter_command.submitter_command_action_check",
	"submitter_command.submitter_command_applied",
	"submitter_command.submitter_command_caller_check",
	"submitter_command.submitter_command_cancel",
	"submitter_command.submitter_command_chain_nonce",
	"submitter_command.submitter_command_chain_nonce_check",
	"submitter_command.submitter_command_check",
	"submitter_command.submitter_command_kind",
	"submitter_command.submitter_command_newest",
	"submitter_command.submitter_command_operator_check",
	"submitter_command.submitter_command_pending",
	"submitter_command.submitter_command_pkey",
	"submitter_command.submitter_command_protect",
	"submitter_command.submitter_command_reason",
	"submitter_command.submitter_command_submitter_id_fkey",
	"submitter_command.submitter_command_tx",
	"submitter_command.submitter_command_violations",
	"submitter_lease.lease_needs_mode",
	"submitter_lease.lease_only_rises",
	"submitter_lease.submitter_lease_fence",
	"submitter_lease.submitter_lease_fencing_token_check",
	"submitter_lease.submitter_lease_pkey",
	"submitter_lease.submitter_lease_submitter_id_fkey",
	"submitter_nonce_cursor.cursor_only_rises",
	"submitter_nonce_cursor.submitter_nonce_cursor_check",
	"submitter_nonce_cursor.submitter_nonce_cursor_check1",
	"submitter_nonce_cursor.submitter_nonce_cursor_init_block_hash_check",
	"submitter_nonce_cursor.submitter_nonce_cursor_init_nonce_check",
	"submitter_nonce_cursor.submitter_nonce_cursor_pkey",
	"submitter_nonce_cursor.submitter_nonce_cursor_protections_check",
	"submitter_nonce_cursor.submitter_nonce_cursor_submitter_id_fkey",
	"submitter_settled.submitter_settled_erased_below_check",
	"submitter_settled.submitter_settled_pkey",
	"submitter_settled.submitter_settled_settled_below_check",
	"submitter_settled.submitter_settled_submitter_id_fkey",
	"tx_attempt.attempt_is_kept",
	"tx_attempt.tx_attempt_attempt_no_check",
	"tx_attempt.tx_attempt_gas_limit_check",
	"tx_attempt.tx_attempt_hash",
	"tx_attempt.tx_attempt_kind_check",
	"tx_attempt.tx_attempt_nonce_check",
	"tx_attempt.tx_attempt_pkey",
	"tx_attempt.tx_attempt_raw_tx_check",
	"tx_attempt.tx_attempt_submitter_id_tx_id_fkey",
	"tx_attempt.tx_attempt_tx_hash_check",
	"tx_event.event_is_chained",
	"tx_event.tx_event_above_check",
	"tx_event.tx_event_feed",
	"tx_event.tx_event_pkey",
	"tx_event.tx_event_seq_check",
	"tx_label.tx_label_key_check",
	"tx_label.tx_label_pkey",
	"tx_label.tx_label_value_check",
}
