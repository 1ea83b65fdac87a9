-- The hash chains of events and commands: see the migration that adds them. The texts below are
-- those that its triggers hash; package store hashes them itself.

-- ChainedTxs lists the transactions of a submitter in the order of their ids.
-- name: ChainedTxs :many
SELECT sqlc.embed(t),
       jsonb_build_array(t.submitter_id, t.tx_id, t.request_id, encode(t.request_hash, 'hex'),
                         t.caller, t.labels)::TEXT AS content
  FROM managed_tx t
 WHERE t.submitter_id = @submitter_id AND t.tx_id > @after::UUID
 ORDER BY t.tx_id
 LIMIT @max_rows::INT;

-- ChainedEvents lists the events of a submitter's transactions with ids from one to another.
-- name: ChainedEvents :many
SELECT e.tx_id, e.seq, e.kind, e.state, e.sub_state, e.executed, e.chain,
       jsonb_build_array(
           e.submitter_id, e.tx_id, e.seq, e.kind, e.state, e.sub_state, e.executed,
           encode(e.tx_hash, 'hex'), encode(e.receipt_tx_hash, 'hex'), e.receipt_block,
           encode(e.receipt_block_hash, 'hex'), e.receipt_success, e.receipt_gas_used,
           e.receipt_gas_price, e.reason, e.message, e.fencing_token,
           extract(epoch FROM e.created_at), e.new_fork, encode(e.above, 'hex'),
           encode(e.receipt_more, 'hex'))::TEXT AS content
  FROM tx_event e
 WHERE e.submitter_id = @submitter_id AND e.tx_id > @after::UUID AND e.tx_id <= @last::UUID
 ORDER BY e.tx_id, e.seq;

-- ChainedCommands lists the commands of a submitter, oldest first.
-- name: ChainedCommands :many
SELECT k.command_id, k.chain, (k.applied_at IS NOT NULL)::BOOLEAN AS applied,
       jsonb_build_array(
           k.submitter_id, k.command_id, k.kind, k.tx_id, k.action, k.expect, k.reason,
           k.operator, k.caller, k.chain_nonce, k.violations,
           extract(epoch FROM k.created_at))::TEXT AS content,
       jsonb_build_array(extract(epoch FROM k.applied_at), k.result,
                         k.fencing_token)::TEXT AS outcome
  FROM submitter_command k
 WHERE k.submitter_id = @submitter_id AND k.command_id > @after::BIGINT
 ORDER BY k.command_id
 LIMIT @max_rows::INT;

-- LastCheckpoint returns the newest checkpoint, and up to where the next one may go.
-- name: LastCheckpoint :one
SELECT c.series, c.no, c.upto_xid::TEXT AS upto, c.head,
       pg_snapshot_xmin(pg_current_snapshot())::TEXT AS xmin,
       (pg_snapshot_xmin(pg_current_snapshot()) < c.upto_xid)::BOOLEAN AS moved
  FROM audit_checkpoint c
 ORDER BY c.series DESC, c.no DESC
 LIMIT 1;

-- Checkpoints lists all checkpoints in their order. Of a window that is archived, events may have
-- been moved to an archive.
-- name: Checkpoints :many
SELECT (c.from_xid::TEXT::NUMERIC <= (SELECT l.trimmed_xid FROM ledger l))::BOOLEAN AS archived,
       c.series, c.no, c.from_xid::TEXT AS since, c.upto_xid::TEXT AS upto, c.events, c.commands,
       c.digest, c.head, c.created_at
  FROM audit_checkpoint c
 ORDER BY c.series, c.no;

-- WindowEnd returns a number before which about @most events follow @since; 0: there are fewer.
-- name: WindowEnd :one
SELECT coalesce((SELECT e.xid::TEXT FROM tx_event e
                  WHERE e.xid >= CAST(@since::TEXT AS XID8)
                  ORDER BY e.xid
                 OFFSET @most::INT
                  LIMIT 1), '0')::TEXT AS upto;

-- Window returns the digest of everything between two snapshots. Rows without a hash are older
-- than the hashes.
-- name: Window :one
SELECT e.events, k.commands, sha256(e.chains || k.chains)::BYTEA AS digest
  FROM (SELECT count(e.chain) AS events,
               coalesce(string_agg(e.chain, ''::BYTEA
                                   ORDER BY e.submitter_id, e.tx_id, e.seq), '') AS chains
          FROM tx_event e
         WHERE e.xid >= CAST(@since::TEXT AS XID8) AND e.xid < CAST(@upto::TEXT AS XID8)) e,
       (SELECT count(k.chain) AS commands,
               coalesce(string_agg(k.chain, ''::BYTEA
                                   ORDER BY k.submitter_id, k.command_id), '') AS chains
          FROM submitter_command k
         WHERE k.applied_xid >= CAST(@since::TEXT AS XID8)
           AND k.applied_xid < CAST(@upto::TEXT AS XID8)) k;

-- InsertCheckpoint adds the next checkpoint, unless another node has.
-- name: InsertCheckpoint :execrows
INSERT INTO audit_checkpoint (series, no, from_xid, upto_xid, events, commands, digest, head)
VALUES (@series, @no, CAST(@since::TEXT AS XID8), CAST(@upto::TEXT AS XID8), @events, @commands,
        @digest, @head)
ON CONFLICT DO NOTHING;
