-- What the owner of a submitter reads. Under its lease nobody else writes these rows, except that
-- callers add to the queue, cancel what is queued and add commands; that part is Inbox.

-- name: OwnedSubmitter :one
SELECT s.submitter_id, s.name, s.chain_id, s.address, s.signer, s.mode, s.max_in_flight, s.status, s.start_from, s.created_at,
       s.on_failure, coalesce(s.max_fee, 0)::TEXT AS max_fee
  FROM submitter s WHERE s.submitter_id = @submitter_id;

-- FailedOver reports whether the database failed over, or was restored, since the account was last
-- compared with the chain.
-- name: FailedOver :one
SELECT (s.timeline IS DISTINCT FROM l.timeline)::BOOLEAN AS failed_over
  FROM submitter s, ledger l WHERE s.submitter_id = @submitter_id;

-- Cursor is where a submitter stands. The block of the nonce before it is not told of what was
-- given back to the queue: it may have ended by a form of another nonce, in an older one.
-- name: Cursor :one
SELECT n.next_nonce, n.init_nonce, n.protect_reason, n.protect_evidence, n.protect_at, n.protections,
       coalesce((SELECT t.receipt_block FROM managed_tx t
                  WHERE t.submitter_id = n.submitter_id AND t.nonce = n.next_nonce - 1 AND t.requeued = 0), 0)::BIGINT AS last_block
  FROM submitter_nonce_cursor n WHERE n.submitter_id = @submitter_id;

-- OpenTxs are all transactions of a submitter that have a nonce and are not final, lowest nonce
-- first.
-- name: OpenTxs :many
SELECT sqlc.embed(t), coalesce(greatest(0, extract(EPOCH FROM t.due_at - clock_timestamp()) * 1000), 0)::BIGINT AS due_ms,
       coalesce(least(31536000000, ceil(extract(EPOCH FROM t.not_after - clock_timestamp()) * 1000)), 0)::BIGINT AS late_ms, -- a year at most: who waits longer asks again
       coalesce(greatest(0, extract(EPOCH FROM clock_timestamp() - t.waiting_since) * 1000), 0)::BIGINT AS waited_ms
  FROM managed_tx t
 WHERE t.submitter_id = @submitter_id AND t.nonce IS NOT NULL AND t.terminal_at IS NULL
 ORDER BY t.nonce;

-- name: OpenAttempts :many
SELECT a.tx_id, a.attempt_no, a.kind, a.nonce, a.tx_hash, a.raw_tx, a.gas_limit, a.fee_cap, a.tip, a.legacy,
       greatest(0, extract(EPOCH FROM clock_timestamp() - a.created_at) * 1000)::BIGINT AS age_ms
  FROM tx_attempt a
  JOIN managed_tx t ON t.submitter_id = a.submitter_id AND t.tx_id = a.tx_id AND (t.submitter_id, t.tx_id) >= (a.submitter_id, a.tx_id)
 WHERE t.submitter_id = @submitter_id AND t.nonce IS NOT NULL AND t.terminal_at IS NULL
 ORDER BY a.tx_id, a.attempt_no;

-- SignedAttempts are all forms of one transaction with their bytes, those of before a REQUEUE among
-- them.
-- name: SignedAttempts :many
SELECT a.tx_id, a.attempt_no, a.kind, a.nonce, a.tx_hash, a.raw_tx, a.gas_limit, a.fee_cap, a.tip, a.legacy,
       greatest(0, extract(EPOCH FROM clock_timestamp() - a.created_at) * 1000)::BIGINT AS age_ms
  FROM tx_attempt a
 WHERE a.submitter_id = @submitter_id AND a.tx_id = @tx_id
 ORDER BY a.attempt_no;

-- InboxTxs is the head of each queue: by state and never behind a moving cursor, since numbers of
-- the queue commit out of order. Each row also says whether any of these submitters has a command:
-- mostly none has, and then there is nothing more to ask.
-- name: InboxTxs :many
SELECT sqlc.embed(t), coalesce(greatest(0, extract(EPOCH FROM t.due_at - clock_timestamp()) * 1000), 0)::BIGINT AS due_ms,
       coalesce(least(31536000000, ceil(extract(EPOCH FROM t.not_after - clock_timestamp()) * 1000)), 0)::BIGINT AS late_ms,
       coalesce(greatest(0, extract(EPOCH FROM clock_timestamp() - t.waiting_since) * 1000), 0)::BIGINT AS waited_ms,
       EXISTS (SELECT FROM submitter_command k WHERE k.applied_at IS NULL AND k.submitter_id = ANY(@submitter_ids::INT[])) AS asked
  FROM (SELECT unnest(@submitter_ids::INT[]) AS submitter_id) s
 CROSS JOIN LATERAL (
       SELECT q.submitter_id, q.tx_id, CAST(q.ctid AS TID) AS at FROM managed_tx q
        WHERE q.submitter_id = s.submitter_id AND q.nonce IS NULL AND q.terminal_at IS NULL
        ORDER BY q.queue_seq
        LIMIT @head::INT) h
  JOIN managed_tx t ON t.submitter_id = h.submitter_id AND t.tx_id = h.tx_id AND t.ctid = h.at -- see ListTxs
 ORDER BY t.submitter_id, t.queue_seq;

-- Asked are those of the submitters that have a command which is not applied.
-- name: Asked :many
SELECT DISTINCT k.submitter_id FROM submitter_command k WHERE k.applied_at IS NULL AND k.submitter_id = ANY(@submitter_ids::INT[]);

-- InboxCommands are the oldest of each submitter: however many one has, the others' are seen.
-- name: InboxCommands :many
SELECT k.submitter_id, k.command_id, k.kind, k.tx_id, k.action, k.expect, k.reason, k.operator
  FROM (SELECT unnest(@submitter_ids::INT[]) AS submitter_id) s
 CROSS JOIN LATERAL (
       SELECT c.submitter_id, c.command_id, c.kind, c.tx_id, c.action, c.expect, c.reason, c.operator
         FROM submitter_command c
        WHERE c.submitter_id = s.submitter_id AND c.applied_at IS NULL
        ORDER BY c.command_id
        LIMIT @most::INT) k
 ORDER BY k.submitter_id, k.command_id;

-- RecentFinals are the final transactions with a receipt whose block is less than so many below
-- that of the newest, highest nonce first: what a reorg that is still believed possible could
-- reach. With them come those that ended as never run no longer ago than that, although there are
-- signed forms of them.
-- name: RecentFinals :many
WITH newest AS MATERIALIZED (
    SELECT q.tx_id, q.receipt_block FROM managed_tx q
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
)
SELECT sqlc.embed(t)
  FROM reached r
  JOIN managed_tx t ON t.submitter_id = @submitter_id AND t.tx_id = r.tx_id AND (t.submitter_id, t.tx_id) >= (@submitter_id, r.tx_id)
 WHERE t.terminal_at IS NOT NULL
 ORDER BY t.nonce DESC NULLS LAST;
