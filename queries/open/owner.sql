-- The reads of a submitter's owner. Under its lease no other node writes these rows. But callers
-- add to the queue, cancel queued transactions and add commands: that part is Inbox.

-- OwnedSubmitter also returns the pause that Submitters shows; 0: none.
-- name: OwnedSubmitter :one
SELECT s.submitter_id, s.name, s.chain_id, s.address, s.signer, s.mode, s.max_in_flight, s.status,
       s.start_from, s.created_at, s.on_failure, coalesce(s.max_fee, 0)::TEXT AS max_fee,
       coalesce((
           SELECT k.command_id
             FROM (SELECT c.command_id, c.kind, c.action, c.applied_at, c.result,
                          max(c.applied_at) FILTER (WHERE c.kind = 'RESUME'
                                                      AND c.result = 'APPLIED')
                                            OVER () AS resumed_at
                     FROM (SELECT q.command_id, q.kind, q.action, q.applied_at, q.result
                             FROM submitter_command q
                            WHERE q.submitter_id = s.submitter_id AND s.status = 'PAUSED'
                            ORDER BY q.command_id DESC
                            LIMIT 1000) c) k
            WHERE k.kind = 'PAUSE' AND k.result = 'APPLIED'
              AND k.applied_at > coalesce(k.resumed_at, '-infinity')
            ORDER BY (k.action = 'ON_FAILURE') DESC, k.applied_at DESC
            LIMIT 1), 0)::BIGINT AS pause_id
  FROM submitter s WHERE s.submitter_id = @submitter_id;

-- FailedOver reports whether the database failed over, or was restored, since the account was last
-- compared with the chain, and whether commits may have been lost since: not if it only moved here.
-- name: FailedOver :one
SELECT (s.timeline IS DISTINCT FROM l.timeline)::BOOLEAN AS failed_over,
       commits_may_be_lost(s.submitter_id)::BOOLEAN AS may_have_lost
  FROM submitter s, ledger l WHERE s.submitter_id = @submitter_id;

-- Cursor returns the nonce cursor of a submitter. last_block, the block of the nonce before it, is
-- 0 for a requeued transaction: that may have been executed under another nonce, in an older block.
-- name: Cursor :one
SELECT n.next_nonce, n.init_nonce, n.protect_reason, n.protect_evidence, n.protect_at,
       n.protections,
       coalesce((SELECT t.receipt_block FROM managed_tx t
                  WHERE t.submitter_id = n.submitter_id AND t.nonce = n.next_nonce - 1
                    AND t.requeued = 0), 0)::BIGINT AS last_block
  FROM submitter_nonce_cursor n WHERE n.submitter_id = @submitter_id;

-- ProtectedTx returns which of these transactions a protection is about: its nonce seemed to be
-- used elsewhere. None once an operator has resolved any transaction under that protection.
-- name: ProtectedTx :one
SELECT e.tx_id
  FROM submitter_nonce_cursor n
  JOIN tx_event e ON e.submitter_id = n.submitter_id AND e.tx_id = ANY(@tx_ids::UUID[])
                 AND e.kind = 'STUCK' AND e.reason = n.protect_reason
                 AND e.message = n.protect_evidence
 WHERE n.submitter_id = @submitter_id AND n.protect_reason = 'NONCE_USED_ELSEWHERE'
   AND NOT EXISTS (SELECT FROM submitter_command k
                    WHERE k.submitter_id = n.submitter_id AND k.kind = 'RESOLVE'
                      AND k.action IN ('FAIL', 'FAIL_UNPROVEN', 'REQUEUE', 'REQUEUE_UNPROVEN')
                      AND k.result = 'APPLIED' AND k.applied_at >= n.protect_at)
 LIMIT 1;

-- LossDecided reports whether an operator has ended a later protection of a submitter for a ledger
-- that lost commits.
-- name: LossDecided :one
SELECT EXISTS (
    SELECT FROM submitter_command p
      JOIN submitter_command x ON x.submitter_id = p.submitter_id AND x.kind = 'EXIT_PROTECT'
                              AND x.expect = p.expect AND x.result = 'APPLIED'
     WHERE p.submitter_id = @submitter_id AND p.kind = 'PROTECT'
       AND p.action = 'DATABASE_RESTORED' AND p.result = 'APPLIED'
       AND p.expect > @protections)::BOOLEAN AS decided;

-- OpenTxs lists the transactions of a submitter that have a nonce and are not final, lowest nonce
-- first. late_ms is at most a year: for a longer time the owner reads it again.
-- name: OpenTxs :many
SELECT sqlc.embed(t),
       coalesce(greatest(0, extract(EPOCH FROM t.due_at - clock_timestamp()) * 1000),
                0)::BIGINT AS due_ms,
       coalesce(least(31536000000,
                      ceil(extract(EPOCH FROM t.not_after - clock_timestamp()) * 1000)),
                0)::BIGINT AS late_ms,
       coalesce(greatest(0, extract(EPOCH FROM clock_timestamp() - t.waiting_since) * 1000),
                0)::BIGINT AS waited_ms
  FROM managed_tx t
 WHERE t.submitter_id = @submitter_id AND t.nonce IS NOT NULL AND t.terminal_at IS NULL
 ORDER BY t.nonce;

-- name: OpenAttempts :many
SELECT a.tx_id, a.attempt_no, a.kind, a.nonce, a.tx_hash, a.raw_tx, a.gas_limit, a.fee_cap, a.tip,
       a.legacy,
       greatest(0, extract(EPOCH FROM clock_timestamp() - a.created_at) * 1000)::BIGINT AS age_ms
  FROM tx_attempt a
  JOIN managed_tx t ON t.submitter_id = a.submitter_id AND t.tx_id = a.tx_id
                   AND (t.submitter_id, t.tx_id) >= (a.submitter_id, a.tx_id)
 WHERE t.submitter_id = @submitter_id AND t.nonce IS NOT NULL AND t.terminal_at IS NULL
 ORDER BY a.tx_id, a.attempt_no;

-- SignedAttempts lists all attempts of one transaction with their bytes, including those from
-- before a requeue.
-- name: SignedAttempts :many
SELECT a.tx_id, a.attempt_no, a.kind, a.nonce, a.tx_hash, a.raw_tx, a.gas_limit, a.fee_cap, a.tip,
       a.legacy,
       greatest(0, extract(EPOCH FROM clock_timestamp() - a.created_at) * 1000)::BIGINT AS age_ms
  FROM tx_attempt a
 WHERE a.submitter_id = @submitter_id AND a.tx_id = @tx_id
 ORDER BY a.attempt_no;

-- InboxTxs reads the head of each queue: by state and never after a remembered position, because
-- queue numbers commit out of order. A transaction that awaits an approval is not in the queue;
-- once approved it has the place of its acceptance. Each row also has whether any of these
-- submitters has a command, which saves another query: mostly none has.
-- name: InboxTxs :many
SELECT sqlc.embed(t),
       coalesce(greatest(0, extract(EPOCH FROM t.due_at - clock_timestamp()) * 1000),
                0)::BIGINT AS due_ms,
       coalesce(least(31536000000,
                      ceil(extract(EPOCH FROM t.not_after - clock_timestamp()) * 1000)),
                0)::BIGINT AS late_ms,
       coalesce(greatest(0, extract(EPOCH FROM clock_timestamp() - t.waiting_since) * 1000),
                0)::BIGINT AS waited_ms,
       EXISTS (SELECT FROM submitter_command k
                WHERE k.applied_at IS NULL
                  AND k.submitter_id = ANY(@submitter_ids::INT[])) AS any_commands
  FROM (SELECT unnest(@submitter_ids::INT[]) AS submitter_id, unnest(@heads::INT[]) AS head) s
 CROSS JOIN LATERAL (
       SELECT q.submitter_id, q.tx_id, CAST(q.ctid AS TID) AS at FROM managed_tx q
        WHERE q.submitter_id = s.submitter_id AND q.nonce IS NULL AND q.terminal_at IS NULL
          AND q.approval <> 'WAITING'
        ORDER BY q.queue_seq
        LIMIT s.head) h
  JOIN managed_tx t ON t.submitter_id = h.submitter_id AND t.tx_id = h.tx_id
                   AND t.ctid = h.at -- see ListTxs
 ORDER BY t.submitter_id, t.queue_seq;

-- WithCommands lists which of the submitters have a command that is not applied.
-- name: WithCommands :many
SELECT DISTINCT k.submitter_id FROM submitter_command k
 WHERE k.applied_at IS NULL AND k.submitter_id = ANY(@submitter_ids::INT[]);

-- InboxCommands lists the oldest commands of each submitter, so that many commands of one do not
-- hide the commands of another.
-- name: InboxCommands :many
SELECT k.submitter_id, k.command_id, k.kind, k.tx_id, k.action, k.expect, k.reason, k.operator
  FROM (SELECT unnest(@submitter_ids::INT[]) AS submitter_id) s
 CROSS JOIN LATERAL (
       SELECT c.submitter_id, c.command_id, c.kind, c.tx_id, c.action, c.expect, c.reason,
              c.operator
         FROM submitter_command c
        WHERE c.submitter_id = s.submitter_id AND c.applied_at IS NULL
        ORDER BY c.command_id
        LIMIT @most::INT) k
 ORDER BY k.submitter_id, k.command_id;

-- RecentFinals lists the final transactions that a reorg could still reach, highest nonce first:
-- their receipts are less than @depth blocks below the newest one. It includes transactions that
-- became final as not executed within that depth although they have attempts. It searches the
-- newest @max_rows nonces; cut: lower ones may be within reach as well. Blocks include nonces in
-- order, except those of requeued transactions, so the lowest 16 are checked.
-- name: RecentFinals :many
WITH newest AS MATERIALIZED (
    SELECT q.tx_id, q.nonce, q.receipt_block FROM managed_tx q
     WHERE q.submitter_id = @submitter_id AND q.nonce IS NOT NULL
     ORDER BY q.nonce DESC
     LIMIT @max_rows::INT
), tip AS MATERIALIZED (
    SELECT coalesce(max(n.receipt_block), 0)::BIGINT AS block FROM newest n
), reached AS MATERIALIZED (
    SELECT n.tx_id FROM newest n, tip WHERE n.receipt_block + @depth::BIGINT > tip.block
     UNION ALL
    SELECT e.tx_id FROM (
        SELECT q.tx_id, q.ended_block FROM managed_tx q
         WHERE q.submitter_id = @submitter_id AND q.ended_block IS NOT NULL
         ORDER BY q.ended_block DESC
         LIMIT @max_rows::INT) e, tip
     WHERE e.ended_block + @depth::BIGINT > tip.block
), lowest AS MATERIALIZED (
    SELECT n.receipt_block FROM newest n ORDER BY n.nonce LIMIT 16
)
SELECT sqlc.embed(t),
       ((SELECT count(*) FROM newest) = @max_rows::INT
        AND coalesce((SELECT max(o.receipt_block) FROM lowest o) + @depth::BIGINT
                     > (SELECT tip.block FROM tip), TRUE))::BOOLEAN AS cut
  FROM reached r
  JOIN managed_tx t ON t.submitter_id = @submitter_id AND t.tx_id = r.tx_id
                   AND (t.submitter_id, t.tx_id) >= (@submitter_id, r.tx_id)
 WHERE t.terminal_at IS NOT NULL
 ORDER BY t.nonce DESC NULLS LAST;
