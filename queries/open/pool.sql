-- Pools: sets of submitters of one chain that accept transactions together.

-- name: InsertPool :execrows
INSERT INTO pool (name, chain_id) VALUES (@name, @chain_id) ON CONFLICT (name) DO NOTHING;

-- Pools lists pools by name, or those with the given names.
-- name: Pools :many
SELECT p.pool_id, p.name, p.chain_id, p.created_at FROM pool p
 WHERE p.name > @after_name AND (@any_name::BOOLEAN OR p.name = ANY(@names::TEXT[]))
 ORDER BY p.name
 LIMIT @max_rows::INT;

-- SetPoolMember adds a member or changes its status, and records the command. It does nothing if
-- the submitter is on another chain, or was never a member and is not to be added; to be added, it
-- must not be in mode EXTERNAL, whose transactions clients sign.
-- name: SetPoolMember :one
WITH wanted AS MATERIALIZED (
    SELECT p.pool_id, p.name, s.submitter_id, s.mode
      FROM pool p JOIN submitter s ON s.chain_id = p.chain_id
     WHERE p.pool_id = @pool_id AND s.submitter_id = @submitter_id
), changed AS (
    INSERT INTO pool_member (pool_id, submitter_id, status)
    SELECT w.pool_id, w.submitter_id, @status::TEXT FROM wanted w
     WHERE CASE WHEN @status::TEXT = 'ACTIVE' THEN w.mode <> 'EXTERNAL'
                ELSE EXISTS (SELECT FROM pool_member m
                              WHERE m.pool_id = @pool_id AND m.submitter_id = @submitter_id) END
    ON CONFLICT (pool_id, submitter_id) DO UPDATE
       SET status = EXCLUDED.status, changed_at = clock_timestamp()
     WHERE pool_member.status <> EXCLUDED.status
    RETURNING pool_id, submitter_id
), command_recorded AS (
    INSERT INTO submitter_command (submitter_id, kind, action, reason, operator, caller, applied_at,
                                   result)
    SELECT c.submitter_id, 'UPDATE', 'POOL_' || @status::TEXT,
           concat_ws(': ', 'pool ' || w.name, NULLIF(@reason::TEXT, '')), @operator::TEXT,
           @caller::TEXT, clock_timestamp(), 'APPLIED'
      FROM changed c JOIN wanted w ON w.submitter_id = c.submitter_id
)
SELECT (SELECT count(*) FROM wanted)::BIGINT AS on_chain,
       (SELECT count(*) FROM wanted w WHERE w.mode = 'EXTERNAL')::BIGINT AS external,
       (SELECT count(*) FROM changed)::BIGINT AS changed;

-- PoolMembers lists the members of pools with all that matters to a choice: whether they accept
-- transactions, whether they lack funds (as in Totals), and their queues, counted up to @most.
-- name: PoolMembers :many
SELECT m.pool_id, m.submitter_id, s.name, m.status, m.changed_at,
       (s.status = 'PAUSED')::BOOLEAN AS paused,
       (s.mode = 'EXTERNAL')::BOOLEAN AS external,
       (n.protect_reason IS NOT NULL)::BOOLEAN AS protected,
       (EXISTS (SELECT FROM (SELECT t.sub_state FROM managed_tx t
                              WHERE t.submitter_id = m.submitter_id AND t.nonce IS NULL
                                AND t.terminal_at IS NULL AND t.approval <> 'WAITING'
                              ORDER BY t.queue_seq
                              LIMIT 8) h WHERE h.sub_state = 'UNFUNDED')
        OR EXISTS (SELECT FROM managed_tx t
                    WHERE t.submitter_id = m.submitter_id AND t.nonce IS NOT NULL
                      AND t.terminal_at IS NULL
                      AND t.sub_state = 'UNFUNDED'))::BOOLEAN AS unfunded,
       (SELECT count(*)
          FROM (SELECT 1 FROM managed_tx t
                 WHERE t.submitter_id = m.submitter_id AND t.nonce IS NULL AND t.terminal_at IS NULL
                   AND t.approval <> 'WAITING'
                 ORDER BY t.queue_seq
                 LIMIT @most::BIGINT) q) AS queued,
       (SELECT count(*) FROM managed_tx t
         WHERE t.submitter_id = m.submitter_id AND t.nonce IS NOT NULL
           AND t.terminal_at IS NULL) AS in_flight
  FROM pool_member m
  JOIN submitter s ON s.submitter_id = m.submitter_id
  LEFT JOIN submitter_nonce_cursor n ON n.submitter_id = m.submitter_id
 WHERE m.pool_id = ANY(@pool_ids::INT[]) AND m.status <> 'REMOVED'
 ORDER BY m.pool_id, s.name
 LIMIT @max_rows::INT;

-- TxsByPoolRequest is TxsByRequest for transactions that were created with a pool.
-- name: TxsByPoolRequest :many
SELECT sqlc.embed(t), s.name AS submitter_name, coalesce(s.moved_to, '')::TEXT AS moved_to,
       (CASE WHEN t.receipt_tx_hash IS NULL THEN '' ELSE
            coalesce((SELECT a.kind FROM tx_attempt a
                       WHERE a.submitter_id = t.submitter_id AND a.tx_hash = t.receipt_tx_hash
                         AND (a.tx_hash, a.submitter_id) >= (t.receipt_tx_hash, t.submitter_id)),
                     '') END)::TEXT AS receipt_kind
  FROM (SELECT unnest(@pool_ids::INT[]) AS pool_id,
               unnest(@request_ids::TEXT[]) AS request_id) k
  JOIN managed_tx t ON t.pool_id = k.pool_id AND t.request_id = k.request_id
  JOIN submitter s ON s.submitter_id = t.submitter_id;

-- name: IsPoolMember :one
SELECT EXISTS (SELECT FROM pool_member m
                WHERE m.pool_id = @pool_id AND m.submitter_id = @submitter_id);

-- name: PoolOf :one
SELECT p.name FROM managed_tx t JOIN pool p ON p.pool_id = t.pool_id
 WHERE t.submitter_id = @submitter_id AND t.tx_id = @tx_id
   AND (t.submitter_id, t.tx_id) >= (@submitter_id, @tx_id);
