-- Checks of the laws against the ledger itself: each statement returns the rows that break a law,
-- and none if the law holds. They run in one snapshot of one submitter. Transactions with a nonce
-- below @from_nonce are left out. Of those without a nonce, only the head of the queue is checked,
-- unless @whole asks for all. The two cases are separate branches, so that a history of cancelled
-- transactions costs a standing audit nothing.

-- SetStatementTimeout changes the limit for the statements of this transaction: a full audit takes
-- longer than a caller may wait.
-- name: SetStatementTimeout :exec
SELECT set_config('statement_timeout', @millis::TEXT, TRUE);

-- name: AuditSubmitter :one
SELECT s.max_in_flight, l.fencing_token AS lease_token,
       (n.submitter_id IS NOT NULL)::BOOLEAN AS started,
       coalesce(n.next_nonce, 0)::BIGINT AS next_nonce,
       coalesce(n.init_nonce, 0)::BIGINT AS init_nonce,
       coalesce(n.protections, 0)::BIGINT AS protections,
       (n.protect_reason IS NOT NULL)::BOOLEAN AS protected,
       coalesce(n.fencing_token, 0)::BIGINT AS cursor_token,
       (SELECT count(*) FROM managed_tx t
         WHERE t.submitter_id = s.submitter_id AND t.nonce IS NOT NULL
           AND t.released_at IS NULL) AS in_flight,
       -- one of them took its nonce after the owner applied the newest change of the limit
       (NOT EXISTS (SELECT FROM submitter_command k
                     WHERE k.submitter_id = s.submitter_id AND k.kind = 'UPDATE'
                       AND k.applied_at IS NULL)
        AND EXISTS (SELECT FROM managed_tx t
                      JOIN tx_attempt a ON a.submitter_id = t.submitter_id AND a.tx_id = t.tx_id
                                       AND a.nonce = t.nonce AND a.kind = 'ORIGINAL'
                     WHERE t.submitter_id = s.submitter_id AND t.nonce IS NOT NULL
                       AND t.released_at IS NULL
                       AND a.created_at > coalesce(
                           (SELECT max(k.applied_at) FROM submitter_command k
                             WHERE k.submitter_id = s.submitter_id AND k.kind = 'UPDATE'),
                           '-infinity')))::BOOLEAN AS taken_since_limit,
       (CASE WHEN n.submitter_id IS NULL THEN
             EXISTS (SELECT FROM managed_tx t
                      WHERE t.submitter_id = @submitter_id AND t.nonce IS NOT NULL)
             OR EXISTS (SELECT FROM nonce_gap g WHERE g.submitter_id = @submitter_id)
        ELSE FALSE END)::BOOLEAN AS used_unstarted
  FROM submitter s
  JOIN submitter_lease l ON l.submitter_id = s.submitter_id
  LEFT JOIN submitter_nonce_cursor n ON n.submitter_id = s.submitter_id
 WHERE s.submitter_id = @submitter_id;

-- AuditNumbers walks up the nonces: each use must begin where the previous ones end. at_cursor
-- marks the end of the walk, where the cursor must stand.
-- name: AuditNumbers :many
WITH used AS (
    SELECT t.nonce AS first_nonce, t.nonce AS last_nonce, t.tx_id, FALSE AS at_cursor
      FROM managed_tx t
     WHERE t.submitter_id = @submitter_id AND t.nonce >= @from_nonce::BIGINT
    UNION ALL
    SELECT greatest(g.first_nonce, @from_nonce::BIGINT), g.last_nonce, g.tx_id, FALSE
      FROM nonce_gap g
     WHERE g.submitter_id = @submitter_id AND g.last_nonce >= @from_nonce::BIGINT
       -- a requeued transaction that was executed has its nonce again
       AND NOT EXISTS (SELECT FROM managed_tx t
                        WHERE t.submitter_id = g.submitter_id AND t.tx_id = g.tx_id
                          AND t.nonce = g.first_nonce)
       -- gaps do not overlap: of those that begin below, only the last one can reach this far
       AND g.first_nonce >= coalesce((SELECT max(b.first_nonce) FROM nonce_gap b
                                       WHERE b.submitter_id = @submitter_id
                                         AND b.first_nonce <= @from_nonce::BIGINT), 0)
    UNION ALL
    -- a reservation explains a nonce without a transaction
    SELECT x.nonce, x.nonce, NULL, FALSE
      FROM external_nonce x
     WHERE x.submitter_id = @submitter_id AND x.nonce >= @from_nonce::BIGINT
       AND NOT EXISTS (SELECT FROM managed_tx t
                        WHERE t.submitter_id = x.submitter_id AND t.nonce = x.nonce)
    UNION ALL
    SELECT n.next_nonce, n.next_nonce, NULL, TRUE
      FROM submitter_nonce_cursor n WHERE n.submitter_id = @submitter_id
), walk AS (
    SELECT u.first_nonce, u.last_nonce, u.tx_id, u.at_cursor,
           coalesce(max(u.last_nonce) OVER (
                        ORDER BY u.at_cursor, u.first_nonce, u.last_nonce
                         ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) + 1,
                    greatest(@from_nonce::BIGINT, @init_nonce::BIGINT)) AS due
      FROM used u
)
SELECT w.first_nonce::BIGINT AS first_nonce, w.last_nonce::BIGINT AS last_nonce,
       coalesce(w.tx_id, '00000000-0000-0000-0000-000000000000')::UUID AS tx_id,
       w.at_cursor::BOOLEAN AS at_cursor, w.due::BIGINT AS due
  FROM walk w
 WHERE w.first_nonce <> w.due
 ORDER BY w.at_cursor, w.first_nonce
 LIMIT @max_rows::INT;

-- AuditEvents compares a transaction with its events. Those of some final ones are in an archive.
-- name: AuditEvents :many
WITH scope AS (
    SELECT t.submitter_id, t.tx_id, t.version, t.state, t.executed, t.fencing_token, t.requeued
      FROM managed_tx t
     WHERE t.submitter_id = @submitter_id AND t.nonce >= @from_nonce::BIGINT
       AND t.trimmed_at IS NULL
    UNION ALL
    (SELECT t.submitter_id, t.tx_id, t.version, t.state, t.executed, t.fencing_token, t.requeued
       FROM managed_tx t
      WHERE t.submitter_id = @submitter_id AND t.nonce IS NULL AND t.terminal_at IS NULL
      ORDER BY t.queue_seq
      LIMIT CASE WHEN NOT @whole::BOOLEAN THEN @queue_head::INT END)
    UNION ALL
    SELECT t.submitter_id, t.tx_id, t.version, t.state, t.executed, t.fencing_token, t.requeued
      FROM managed_tx t
     WHERE @whole AND t.submitter_id = @submitter_id
       AND t.nonce IS NULL AND t.terminal_at IS NOT NULL
       AND t.trimmed_at IS NULL
)
SELECT t.tx_id, t.version, t.state, t.executed,
       e.event_count::BIGINT AS event_count,
       e.first_seq::BIGINT AS first_seq, e.last_seq::BIGINT AS last_seq,
       e.last_state::TEXT AS last_state, e.last_executed::TEXT AS last_executed,
       e.token_falls::BIGINT AS token_falls,
       greatest(e.newest_token, t.fencing_token)::BIGINT AS newest_token,
       t.requeued, e.requeues::BIGINT AS requeues
  FROM scope t
 CROSS JOIN LATERAL (
       SELECT count(*) AS event_count,
              coalesce(min(v.seq), 0) AS first_seq, coalesce(max(v.seq), 0) AS last_seq,
              coalesce((array_agg(v.state ORDER BY v.seq DESC))[1], '') AS last_state,
              coalesce((array_agg(v.executed ORDER BY v.seq DESC))[1], '') AS last_executed,
              -- callers write events with token 0
              count(*) FILTER (WHERE v.fencing_token > 0
                                 AND v.fencing_token < v.token_before) AS token_falls,
              coalesce(max(v.fencing_token), 0) AS newest_token,
              count(*) FILTER (WHERE v.kind = 'REQUEUED') AS requeues
         FROM (SELECT e.seq, e.kind, e.state, e.executed, e.fencing_token,
                      max(e.fencing_token) OVER (
                          ORDER BY e.seq
                           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS token_before
                 FROM tx_event e
                WHERE e.submitter_id = t.submitter_id AND e.tx_id = t.tx_id) v) e
 WHERE e.event_count <> t.version OR e.first_seq <> 1 OR e.last_seq <> t.version
    OR e.last_state <> t.state OR e.last_executed <> t.executed OR e.token_falls > 0
    OR greatest(e.newest_token, t.fencing_token) > @lease_token::BIGINT
    OR e.requeues <> t.requeued
 LIMIT @max_rows::INT;

-- AuditAttempts compares a transaction with its attempts: at least one for its nonce, none for a
-- nonce that it neither has nor gave up, and one that matches its receipt: an attempt for its
-- nonce, or one that was executed before a requeue.
-- name: AuditAttempts :many
WITH scope AS (
    SELECT t.submitter_id, t.tx_id, t.nonce, t.tx_hash, t.receipt_tx_hash, t.requeued
      FROM managed_tx t
     WHERE t.submitter_id = @submitter_id AND t.nonce >= @from_nonce::BIGINT
    UNION ALL
    (SELECT t.submitter_id, t.tx_id, t.nonce, t.tx_hash, t.receipt_tx_hash, t.requeued
       FROM managed_tx t
      WHERE t.submitter_id = @submitter_id AND t.nonce IS NULL AND t.terminal_at IS NULL
      ORDER BY t.queue_seq
      LIMIT CASE WHEN NOT @whole::BOOLEAN THEN @queue_head::INT END)
    UNION ALL
    SELECT t.submitter_id, t.tx_id, t.nonce, t.tx_hash, t.receipt_tx_hash, t.requeued
      FROM managed_tx t
     WHERE @whole AND t.submitter_id = @submitter_id
       AND t.nonce IS NULL AND t.terminal_at IS NOT NULL
)
SELECT t.tx_id, coalesce(t.nonce, -1)::BIGINT AS nonce,
       a.for_nonce::BIGINT AS for_nonce, a.unexpected::BIGINT AS unexpected,
       a.newest_token::BIGINT AS newest_token,
       (t.receipt_tx_hash IS NOT NULL AND NOT a.has_receipt)::BOOLEAN AS foreign_receipt,
       (t.tx_hash IS NOT NULL AND NOT a.has_hash)::BOOLEAN AS foreign_hash,
       t.requeued, g.given_up::BIGINT AS given_up
  FROM scope t
 CROSS JOIN LATERAL (
       SELECT count(*) AS given_up
         FROM nonce_gap g
        WHERE g.submitter_id = t.submitter_id AND g.tx_id = t.tx_id) g
 CROSS JOIN LATERAL (
       SELECT count(*) FILTER (WHERE a.nonce = t.nonce) AS for_nonce,
              count(*) FILTER (
                  WHERE a.nonce IS DISTINCT FROM t.nonce
                    AND NOT EXISTS (SELECT FROM nonce_gap o
                                     WHERE o.submitter_id = t.submitter_id AND o.tx_id = t.tx_id
                                       AND o.first_nonce = a.nonce
                                       AND o.last_nonce = a.nonce)) AS unexpected,
              coalesce(max(a.fencing_token), 0) AS newest_token,
              coalesce(bool_or((a.nonce = t.nonce OR t.requeued > 0)
                               AND a.tx_hash = t.receipt_tx_hash), FALSE) AS has_receipt,
              coalesce(bool_or((a.nonce = t.nonce OR t.requeued > 0)
                               AND a.tx_hash = t.tx_hash), FALSE) AS has_hash
         FROM tx_attempt a
        WHERE a.submitter_id = t.submitter_id AND a.tx_id = t.tx_id) a
 WHERE (t.nonce IS NOT NULL AND a.for_nonce = 0) OR a.unexpected > 0
    OR a.newest_token > @lease_token::BIGINT OR g.given_up <> t.requeued
    OR (t.receipt_tx_hash IS NOT NULL AND NOT a.has_receipt)
    OR (t.tx_hash IS NOT NULL AND NOT a.has_hash)
 LIMIT @max_rows::INT;

-- FinalTxs lists the final transactions to compare with the chain.
-- name: FinalTxs :many
SELECT t.tx_id, t.nonce::BIGINT AS nonce, t.state, t.executed,
       t.receipt_tx_hash, t.receipt_block, t.receipt_block_hash, t.receipt_success,
       t.receipt_gas_used, t.receipt_gas_price
  FROM managed_tx t
 WHERE t.submitter_id = @submitter_id AND t.nonce >= @from_nonce::BIGINT
   AND t.terminal_at IS NOT NULL
 ORDER BY t.nonce
 LIMIT @max_rows::INT;

-- RequeuedTxs lists requeued transactions without a nonce: still queued, or cancelled since. None
-- of their attempts may ever be on chain.
-- name: RequeuedTxs :many
SELECT t.tx_id, t.state, t.executed
  FROM managed_tx t
 WHERE t.submitter_id = @submitter_id AND t.nonce IS NULL AND t.requeued > 0
   AND t.tx_id > @after::UUID
 ORDER BY t.tx_id
 LIMIT @max_rows::INT;

-- name: AttemptHashes :many
SELECT a.tx_id, a.kind, a.nonce, a.tx_hash
  FROM tx_attempt a
 WHERE a.submitter_id = @submitter_id AND a.tx_id = ANY(@tx_ids::UUID[])
 ORDER BY a.tx_id, a.attempt_no;

-- WithoutIndexes makes the statements of this transaction read tables as a whole.
-- name: WithoutIndexes :exec
SELECT set_config('enable_indexscan', 'off', TRUE), set_config('enable_indexonlyscan', 'off', TRUE),
       set_config('enable_bitmapscan', 'off', TRUE);

-- DuplicateRequests finds request ids that name several transactions. It does not rest on the index
-- that forbids them: one that was built in another order of the language lets them in, and hides
-- them. The other collation keeps its order from being used.
-- name: DuplicateRequests :many
SELECT t.submitter_id, (t.request_id COLLATE "POSIX")::TEXT AS request_id, count(*) AS transactions,
       ((array_agg(t.tx_id ORDER BY t.queue_seq))[1])::UUID AS first_tx,
       ((array_agg(t.tx_id ORDER BY t.queue_seq))[2])::UUID AS second_tx
  FROM managed_tx t
 GROUP BY t.submitter_id, t.request_id COLLATE "POSIX"
HAVING count(*) > 1
 ORDER BY t.submitter_id, min(t.queue_seq)
 LIMIT @max_rows::INT;
