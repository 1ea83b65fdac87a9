-- The registry: chains and submitters. It is not part of the ledger proper; a submitter is inserted
-- with its lease row.

-- name: RegisterChain :one
WITH added AS (
    INSERT INTO chain (chain_id, genesis_hash)
    VALUES (@chain_id, @genesis_hash)
    ON CONFLICT (chain_id) DO NOTHING
    RETURNING genesis_hash
)
SELECT a.genesis_hash FROM added a
UNION ALL
SELECT c.genesis_hash FROM chain c WHERE c.chain_id = @chain_id
LIMIT 1;

-- name: RegisterSubmitter :one
WITH added AS (
    INSERT INTO submitter (name, chain_id, address, signer, mode, max_in_flight, start_from,
                           on_failure, max_fee, timeline, directory_no)
    VALUES (@name, @chain_id, @address, @signer, @mode, @max_in_flight, @start_from,
            @on_failure, NULLIF(CAST(@max_fee::TEXT AS NUMERIC), 0),
            (SELECT l.timeline FROM ledger l), sqlc.narg(directory_no)::INT)
    ON CONFLICT DO NOTHING
    RETURNING submitter_id
), lease AS (
    INSERT INTO submitter_lease (submitter_id) SELECT a.submitter_id FROM added a
)
SELECT a.submitter_id FROM added a;

-- SubmittersOf lists the registered submitters with these names, as OwnedSubmitter but without
-- their pauses.
-- name: SubmittersOf :many
SELECT s.submitter_id, s.name, s.chain_id, s.address, s.signer, s.mode, s.max_in_flight, s.status,
       s.start_from, s.created_at, s.on_failure, coalesce(s.max_fee, 0)::TEXT AS max_fee,
       0::BIGINT AS pause_id
  FROM submitter s WHERE s.name = ANY(@names::TEXT[]);

-- SetStartFrom corrects how a submitter starts, while it has not started.
-- name: SetStartFrom :execrows
UPDATE submitter s SET start_from = @start_from
 WHERE s.submitter_id = @submitter_id
   AND NOT EXISTS (SELECT FROM submitter_nonce_cursor n WHERE n.submitter_id = s.submitter_id);

-- SetPolicies changes the policies of a submitter. Its owner reads them again when it applies the
-- UPDATE command that follows. NULL leaves a policy unchanged, even while another process changes
-- it. A submitter that becomes pipelined loses its owner, which may be an older program: see the
-- trigger lease_needs_mode. So does one that becomes external, or was: that changes nothing while
-- anything is queued, open or reserved (the trigger mode_needs_rest; rests keeps the owner then). A
-- limit that does not fit the mode changes nothing. A lower limit comes with the command: no nonce
-- is taken until the owner knows the limit (see Commit), and no audit takes the nonces in flight
-- for a violation.
-- name: SetPolicies :execrows
WITH wanted AS MATERIALIZED (
    SELECT s.submitter_id, s.mode AS old_mode, s.max_in_flight AS old_limit,
           coalesce(sqlc.narg(mode)::TEXT, s.mode) AS mode,
           CASE WHEN sqlc.narg(max_in_flight)::INT IS NOT NULL THEN sqlc.narg(max_in_flight)::INT
                WHEN coalesce(sqlc.narg(mode)::TEXT, s.mode) = 'STRICT' THEN 1
                WHEN s.mode = 'STRICT' AND sqlc.narg(mode)::TEXT = 'EXTERNAL'
                THEN @default_reservations::INT
                WHEN s.mode = 'STRICT' THEN @default_in_flight::INT
                ELSE s.max_in_flight END AS max_in_flight
      FROM submitter s
     WHERE s.submitter_id = @submitter_id
), rests AS MATERIALIZED (
    SELECT w.submitter_id
      FROM wanted w
     WHERE (w.mode <> 'STRICT' OR w.max_in_flight = 1)
       AND ((w.old_mode = 'EXTERNAL') = (w.mode = 'EXTERNAL')
            OR NOT EXISTS (SELECT FROM managed_tx t
                            WHERE t.submitter_id = w.submitter_id AND t.terminal_at IS NULL)
               AND NOT EXISTS (SELECT FROM external_nonce x
                                WHERE x.submitter_id = w.submitter_id AND x.state <> 'ACCEPTED')
               AND NOT EXISTS (SELECT FROM nonce_request q
                                WHERE q.submitter_id = w.submitter_id AND q.applied_at IS NULL))
), released AS (
    UPDATE submitter_lease l
       SET owner_node = '', fencing_token = l.fencing_token + 1, released = TRUE,
           expires_at = clock_timestamp()
      FROM wanted w
     WHERE l.submitter_id = w.submitter_id
       AND w.submitter_id IN (SELECT r.submitter_id FROM rests r)
       AND (w.old_mode = 'STRICT' AND w.mode <> 'STRICT'
            OR (w.old_mode = 'EXTERNAL') <> (w.mode = 'EXTERNAL'))
    RETURNING l.submitter_id
), asked AS (
    INSERT INTO submitter_command (submitter_id, kind, reason, operator, caller)
    SELECT w.submitter_id, 'UPDATE', @reason::TEXT, @operator::TEXT, @caller::TEXT
      FROM wanted w WHERE w.max_in_flight < w.old_limit
)
UPDATE submitter s
   SET on_failure    = coalesce(sqlc.narg(on_failure)::TEXT, s.on_failure),
       max_fee       = NULLIF(coalesce(CAST(sqlc.narg(max_fee)::TEXT AS NUMERIC), s.max_fee), 0),
       mode          = w.mode,
       max_in_flight = w.max_in_flight
  FROM wanted w
 WHERE s.submitter_id = w.submitter_id AND s.mode = w.old_mode
   AND (w.mode <> 'STRICT' OR w.max_in_flight = 1)
   AND (SELECT count(*) FROM released) >= 0; -- leases first, as in Commit

-- AccountsOf is read once per submitter: names and chains do not change.
-- name: AccountsOf :many
SELECT s.submitter_id, s.name, s.chain_id
  FROM submitter s WHERE s.submitter_id = ANY(@submitter_ids::INT[]);

-- name: SubmitterByName :one
SELECT s.submitter_id, s.name, coalesce(s.moved_to, '')::TEXT AS moved_to
  FROM submitter s WHERE s.name = @name;

-- name: SubmitterByAccount :one
SELECT s.submitter_id, s.name, coalesce(s.moved_to, '')::TEXT AS moved_to
  FROM submitter s WHERE s.chain_id = @chain_id AND s.address = @address;

-- Submitters also returns why a submitter is paused: of the pauses since the last resume, the
-- newest of the policy on_failure, which must not be overlooked, or else the newest. Only the
-- latest 1000 commands are searched. Queued transactions are counted up to @most_queued.
-- name: Submitters :many
SELECT s.submitter_id, s.name, s.chain_id, s.address, s.signer, s.mode, s.max_in_flight, s.status,
       s.start_from, s.created_at, s.on_failure, coalesce(s.max_fee, 0)::TEXT AS max_fee,
       coalesce(s.moved_to, '')::TEXT AS moved_to,
       l.owner_node, l.fencing_token, l.acquired_at, l.expires_at,
       (l.expires_at > clock_timestamp())::BOOLEAN AS live,
       n.next_nonce, n.init_nonce, n.protect_reason, n.protect_evidence, n.protect_at,
       n.protections,
       (SELECT k.chain_nonce FROM submitter_command k
         WHERE k.submitter_id = s.submitter_id AND n.protect_reason IS NOT NULL
           AND k.kind = 'PROTECT' AND k.expect = n.protections AND k.result = 'APPLIED'
         ORDER BY k.command_id DESC
         LIMIT 1) AS chain_nonce,
       (p.applied_at IS NOT NULL)::BOOLEAN AS pause_known,
       coalesce(p.command_id, 0)::BIGINT AS pause_id,
       coalesce(p.action, '')::TEXT AS pause_action,
       coalesce(p.reason, '')::TEXT AS pause_reason,
       coalesce(p.operator, '')::TEXT AS pause_operator,
       coalesce(p.applied_at, 'epoch')::TIMESTAMPTZ AS paused_at,
       (SELECT count(*)
          FROM (SELECT 1 FROM managed_tx t
                 WHERE t.submitter_id = s.submitter_id AND t.nonce IS NULL AND t.terminal_at IS NULL
                 ORDER BY t.queue_seq
                 LIMIT @most_queued::BIGINT) q) AS queued,
       (SELECT count(*) FROM managed_tx t
         WHERE t.submitter_id = s.submitter_id AND t.nonce IS NOT NULL
           AND t.terminal_at IS NULL) AS in_flight,
       coalesce((SELECT t.created_at FROM managed_tx t
                  WHERE t.submitter_id = s.submitter_id AND t.nonce IS NULL
                    AND t.terminal_at IS NULL AND t.approval <> 'WAITING'
                  ORDER BY t.queue_seq
                  LIMIT 1), 'epoch')::TIMESTAMPTZ AS queue_head_at,
       (EXISTS (SELECT FROM (SELECT t.sub_state FROM managed_tx t
                              WHERE t.submitter_id = s.submitter_id AND t.nonce IS NULL
                                AND t.terminal_at IS NULL AND t.approval <> 'WAITING'
                              ORDER BY t.queue_seq
                              LIMIT 8) h WHERE h.sub_state = 'UNFUNDED')
        OR EXISTS (SELECT FROM managed_tx t
                    WHERE t.submitter_id = s.submitter_id AND t.nonce IS NOT NULL
                      AND t.terminal_at IS NULL
                      AND t.sub_state = 'UNFUNDED'))::BOOLEAN AS unfunded
  FROM submitter s
  JOIN submitter_lease l ON l.submitter_id = s.submitter_id
  LEFT JOIN submitter_nonce_cursor n ON n.submitter_id = s.submitter_id
  LEFT JOIN LATERAL (
       SELECT k.command_id, k.action, k.reason, k.operator, k.applied_at
         FROM (SELECT c.command_id, c.kind, c.action, c.reason, c.operator, c.applied_at, c.result,
                      max(c.applied_at) FILTER (WHERE c.kind = 'RESUME' AND c.result = 'APPLIED')
                                        OVER () AS resumed_at
                 FROM (SELECT q.command_id, q.kind, q.action, q.reason, q.operator, q.applied_at,
                              q.result
                         FROM submitter_command q
                        WHERE q.submitter_id = s.submitter_id AND s.status = 'PAUSED'
                        ORDER BY q.command_id DESC
                        LIMIT 1000) c) k
        WHERE k.kind = 'PAUSE' AND k.result = 'APPLIED'
          AND k.applied_at > coalesce(k.resumed_at, '-infinity')
        ORDER BY (k.action = 'ON_FAILURE') DESC, k.applied_at DESC
        LIMIT 1) p ON TRUE
 WHERE s.name > @after_name AND (@submitter_id::INT = 0 OR s.submitter_id = @submitter_id::INT)
   AND (s.moved_to IS NULL OR @submitter_id::INT <> 0)
   AND (@any_name::BOOLEAN OR s.name = ANY(@names::TEXT[]))
 ORDER BY s.name
 LIMIT @max_rows::INT;

-- SavePoolRules records the requirements of a chain's nodes, learned from refusals. Ages are in
-- seconds before now; type_age is NULL if no type was refused.
-- name: SavePoolRules :exec
INSERT INTO chain_pool_rules (chain_id, min_tip, min_price, guessed_tip, fees_at, typed_at)
VALUES (@chain_id, CAST(@min_tip::TEXT AS NUMERIC), CAST(@min_price::TEXT AS NUMERIC),
        CAST(@guessed_tip::TEXT AS NUMERIC),
        clock_timestamp() - make_interval(secs => @fees_age::FLOAT8),
        clock_timestamp() - make_interval(secs => sqlc.narg(type_age)::FLOAT8))
ON CONFLICT (chain_id) DO UPDATE
   SET min_tip = EXCLUDED.min_tip, min_price = EXCLUDED.min_price,
       guessed_tip = EXCLUDED.guessed_tip, fees_at = EXCLUDED.fees_at,
       typed_at = greatest(EXCLUDED.typed_at, chain_pool_rules.typed_at);

-- PoolRules reads the record of SavePoolRules for the chain of a submitter.
-- name: PoolRules :one
SELECT r.min_tip, r.min_price, r.guessed_tip, (r.typed_at IS NOT NULL)::BOOLEAN AS typed,
       greatest(0, extract(EPOCH FROM clock_timestamp() - r.fees_at) * 1000)::BIGINT AS fees_age_ms,
       coalesce(greatest(0, extract(EPOCH FROM clock_timestamp() - r.typed_at) * 1000),
                0)::BIGINT AS type_age_ms
  FROM chain_pool_rules r
  JOIN submitter s ON s.chain_id = r.chain_id
 WHERE s.submitter_id = @submitter_id;
