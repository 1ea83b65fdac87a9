-- The hash of the first event of a transaction reads its row. In a ledger without statistics the
-- planner chose the index of request ids, and walked the transactions of the account.

-- +goose Up
-- The key is compared once more as a whole, which only changes the estimate: see Commit.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION event_is_chained() RETURNS trigger LANGUAGE plpgsql
    SET enable_seqscan = off AS $$
DECLARE
    previous BYTEA;
BEGIN
    IF NEW.seq = 1 THEN
        SELECT sha256(convert_to(jsonb_build_array(
                   t.submitter_id, t.tx_id, t.request_id, encode(t.request_hash, 'hex'), t.caller,
                   t.labels)::TEXT, 'UTF8'))
          INTO previous
          FROM managed_tx t
         WHERE t.submitter_id = NEW.submitter_id AND t.tx_id = NEW.tx_id
           AND (t.submitter_id, t.tx_id) >= (NEW.submitter_id, NEW.tx_id);
    ELSE
        SELECT e.chain INTO previous
          FROM tx_event e
         WHERE e.submitter_id = NEW.submitter_id AND e.tx_id = NEW.tx_id AND e.seq = NEW.seq - 1;
    END IF;
    NEW.chain := sha256(coalesce(previous, '') || convert_to(jsonb_build_array(
        NEW.submitter_id, NEW.tx_id, NEW.seq, NEW.kind, NEW.state, NEW.sub_state, NEW.executed,
        encode(NEW.tx_hash, 'hex'), encode(NEW.receipt_tx_hash, 'hex'), NEW.receipt_block,
        encode(NEW.receipt_block_hash, 'hex'), NEW.receipt_success, NEW.receipt_gas_used,
        NEW.receipt_gas_price, NEW.reason, NEW.message, NEW.fencing_token,
        extract(epoch FROM NEW.created_at), NEW.new_fork, encode(NEW.above, 'hex'),
        encode(NEW.receipt_more, 'hex'))::TEXT, 'UTF8'));
    RETURN NEW;
END $$;
-- +goose StatementEnd
-- min_node_schema stays: the hashes are the same.

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

CREATE OR REPLACE FUNCTION event_is_chained() RETURNS trigger LANGUAGE plpgsql
    SET enable_seqscan = off AS $$
DECLARE
    previous BYTEA;
BEGIN
    IF NEW.seq = 1 THEN
        SELECT sha256(convert_to(jsonb_build_array(
                   t.submitter_id, t.tx_id, t.request_id, encode(t.request_hash, 'hex'), t.caller,
                   t.labels)::TEXT, 'UTF8'))
          INTO previous
          FROM managed_tx t
         WHERE t.submitter_id = NEW.submitter_id AND t.tx_id = NEW.tx_id;
    ELSE
        SELECT e.chain INTO previous
          FROM tx_event e
         WHERE e.submitter_id = NEW.submitter_id AND e.tx_id = NEW.tx_id AND e.seq = NEW.seq - 1;
    END IF;
    NEW.chain := sha256(coalesce(previous, '') || convert_to(jsonb_build_array(
        NEW.submitter_id, NEW.tx_id, NEW.seq, NEW.kind, NEW.state, NEW.sub_state, NEW.executed,
        encode(NEW.tx_hash, 'hex'), encode(NEW.receipt_tx_hash, 'hex'), NEW.receipt_block,
        encode(NEW.receipt_block_hash, 'hex'), NEW.receipt_success, NEW.receipt_gas_used,
        NEW.receipt_gas_price, NEW.reason, NEW.message, NEW.fencing_token,
        extract(epoch FROM NEW.created_at), NEW.new_fork, encode(NEW.above, 'hex'),
        encode(NEW.receipt_more, 'hex'))::TEXT, 'UTF8'));
    RETURN NEW;
END $$;
-- +goose StatementEnd
