-- Intents: the only writes that need no lease. They queue a transaction with its first event,
-- cancel a queued transaction, or send a command to the owner.

-- InsertTxs queues many transactions at once, in their order. It inserts nothing for a request_id
-- that is taken, for a paused or protected submitter, one that is not an active member of the
-- intent's pool, or past not_after. The caller finds the reason with a new statement, which sees
-- the winner. Of two with the same key, the first is inserted. A key is (submitter, request_id),
-- and with a pool also (pool, request_id). The first 48 bits of each id are replaced with the
-- milliseconds of the database's clock, because lists are in the order of ids, and the clocks of
-- nodes differ.
-- name: InsertTxs :many
WITH intent AS MATERIALIZED (
    -- queue_seq and the time are taken here, because rows are inserted in another order
    SELECT nextval('queue_seq')             AS queue_seq,
           unnest(@submitter_ids::INT[])    AS submitter_id,
           overlay(uuid_send(unnest(@tx_ids::UUID[])) PLACING substring(int8send(
               floor(extract(epoch FROM clock_timestamp()) * 1000)::BIGINT) FROM 3)
               FROM 1 FOR 6)                AS tx_id,
           unnest(@request_ids::TEXT[])     AS request_id,
           unnest(@request_hashes::BYTEA[]) AS request_hash,
           unnest(@to_addresses::BYTEA[])   AS to_address, -- empty: contract creation
           unnest(@values_wei::TEXT[])      AS value_wei,
           unnest(@datas::BYTEA[])          AS data,
           unnest(@gas_limits::BIGINT[])    AS gas_limit,
           unnest(@speeds::TEXT[])          AS speed,
           unnest(@max_fees::TEXT[])        AS max_fee,    -- 0: none
           unnest(@not_after_us::BIGINT[])  AS not_after,  -- microseconds since 1970; 0: none
           unnest(@cancel_lates::BOOLEAN[]) AS cancel_late,
           unnest(@label_sets::TEXT[])      AS labels,     -- a JSON object each
           unnest(@callers::TEXT[])         AS caller,
           unnest(@trace_parents::TEXT[])   AS trace_parent, -- empty: not traced
           unnest(@macs::BYTEA[])           AS mac,          -- empty: none
           unnest(@approval_ms::BIGINT[])   AS approval_ms,  -- until it expires; 0: needs none
           -- 0: without quotas, 1: with, 2: with, but reported only
           unnest(@quotas::INT[])           AS quota,
           unnest(@day_values::TEXT[])      AS day_value,  -- below 0: no limit
           unnest(@day_gases::BIGINT[])     AS day_gas,    -- 0: no limit
           unnest(@rates::FLOAT8[])         AS rate,       -- per second; 0: no limit
           unnest(@pool_ids::INT[])         AS pool_id     -- 0: none
), member AS MATERIALIZED (
    SELECT m.pool_id, m.submitter_id FROM pool_member m
     WHERE m.pool_id = ANY(@pool_ids::INT[]) AND m.status = 'ACTIVE'
), open_to AS MATERIALIZED (
    SELECT s.submitter_id FROM submitter s
     WHERE s.submitter_id = ANY(@submitter_ids::INT[]) AND s.status = 'ACTIVE'
       AND s.mode <> 'EXTERNAL'
       AND NOT s.submitter_id IN (SELECT n.submitter_id FROM submitter_nonce_cursor n
                                   WHERE n.submitter_id = ANY(@submitter_ids::INT[])
                                     AND n.protect_reason IS NOT NULL)
), limited AS MATERIALIZED (
    -- looked up, as below
    SELECT i.queue_seq, i.submitter_id, i.tx_id, i.request_id, i.caller, i.quota, i.pool_id,
           i.value_wei::NUMERIC AS value, i.gas_limit, i.day_value::NUMERIC AS day_value,
           i.day_gas, i.rate,
           (SELECT s.chain_id FROM submitter s WHERE s.submitter_id = i.submitter_id) AS chain_id
      FROM intent i
     WHERE i.quota > 0
), today AS MATERIALIZED (
    -- read once, or a day that ends meanwhile counts twice
    SELECT (clock_timestamp() AT TIME ZONE 'UTC')::DATE AS day
), usage AS MATERIALIZED (
    -- locked before anything is inserted: the rows below are sorted after they were selected
    SELECT u.caller, u.chain_id, clock_timestamp() AS read_at,
           greatest(u.day, (SELECT d.day FROM today d)) AS day,
           CASE WHEN u.day >= (SELECT d.day FROM today d) THEN u.value ELSE 0 END AS value,
           CASE WHEN u.day >= (SELECT d.day FROM today d) THEN u.gas ELSE 0 END AS gas,
           u.creates, greatest(0, extract(epoch FROM clock_timestamp() - u.creates_at)) AS age
      FROM caller_usage u
     WHERE ((u.caller, u.chain_id)
            IN (SELECT i.caller, i.chain_id FROM limited i)) IS TRUE
     ORDER BY u.caller, u.chain_id
       FOR NO KEY UPDATE OF u
), total AS MATERIALIZED (
    -- Usually all of a caller's transactions fit together, repeats included. Then none of them is
    -- examined alone, which would cost more than the rest. The level that a rate leaves is at most
    -- its burst: more was accepted under a higher rate, or where it was only reported.
    SELECT w.caller, w.chain_id, w.day, w.read_at, w.used_value, w.used_gas, w.used_creates, w.age,
           greatest(0, least(w.used_creates, w.most_rate) - w.rate * w.age) AS level,
           (w.used_value + w.value <= w.day_value) IS NOT FALSE
           AND (w.used_gas + w.gas <= w.day_gas) IS NOT FALSE
           AND (greatest(0, least(w.used_creates, w.most_rate) - w.rate * w.age) + w.creates
                <= w.burst) IS NOT FALSE AS fits
           -- no join: it would compare each with each
      FROM (SELECT x.caller, x.chain_id, max(x.day) AS day, max(x.read_at) AS read_at,
                   max(x.used_value) AS used_value, max(x.used_gas) AS used_gas,
                   max(x.used_creates) AS used_creates, max(x.age) AS age,
                   count(*) - 1 AS creates, sum(x.value) AS value, sum(x.gas_limit) AS gas,
                   min(x.day_value) FILTER (WHERE x.day_value >= 0) AS day_value,
                   min(x.day_gas) FILTER (WHERE x.day_gas > 0) AS day_gas,
                   (min(x.rate) FILTER (WHERE x.rate > 0))::NUMERIC AS rate,
                   (min(greatest(1, x.rate)) FILTER (WHERE x.rate > 0))::NUMERIC AS burst,
                   (max(greatest(1, x.rate)) FILTER (WHERE x.rate > 0))::NUMERIC AS most_rate
              FROM (SELECT i.caller, i.chain_id, i.value, i.gas_limit, i.day_value, i.day_gas,
                           i.rate, NULL::DATE AS day, NULL::TIMESTAMPTZ AS read_at,
                           NULL::NUMERIC AS used_value, NULL::NUMERIC AS used_gas,
                           NULL::NUMERIC AS used_creates, NULL::NUMERIC AS age
                      FROM limited i
                     UNION ALL
                    SELECT u.caller, u.chain_id, NULL, NULL, NULL, NULL, NULL, u.day, u.read_at,
                           u.value, u.gas, u.creates, u.age
                      FROM usage u) x
             GROUP BY x.caller, x.chain_id) w
     WHERE w.read_at IS NOT NULL
), counted AS MATERIALIZED (
    -- A repeat counts nothing, and is not refused.
    SELECT i.queue_seq, i.tx_id, i.request_id, i.quota, i.caller, i.chain_id, i.value,
           i.gas_limit, u.used_value, u.used_gas,
           greatest(0, least(u.used_creates, greatest(1, i.rate::NUMERIC))
                       - i.rate::NUMERIC * u.age) AS level,
           ARRAY[i.day_value, CASE WHEN i.day_gas > 0 THEN i.day_gas ELSE -1 END,
                 CASE WHEN i.rate > 0 THEN greatest(1, i.rate::NUMERIC) ELSE -1 END,
                 CASE WHEN i.quota = 1 THEN 1 ELSE 0 END] AS most
      FROM limited i
      JOIN total u ON u.caller = i.caller AND u.chain_id = i.chain_id
     WHERE NOT u.fits
       AND NOT EXISTS (SELECT FROM managed_tx t
                        WHERE t.submitter_id = i.submitter_id AND t.request_id = i.request_id)
       AND NOT EXISTS (SELECT FROM managed_tx t
                        WHERE t.pool_id = NULLIF(i.pool_id, 0) AND t.request_id = i.request_id)
), admitted AS MATERIALIZED (
    SELECT i.queue_seq, i.tx_id, i.request_id, i.quota, i.caller, i.chain_id, i.value,
           i.gas_limit, 0 AS exceeded
      FROM limited i
     WHERE ((i.caller, i.chain_id)
            IN (SELECT u.caller, u.chain_id FROM total u WHERE u.fits)) IS TRUE
     UNION ALL
    SELECT c.queue_seq, c.tx_id, c.request_id, c.quota, c.caller, c.chain_id, c.value,
           c.gas_limit,
           ((quota_admit(ARRAY[c.used_value, c.used_gas, c.level],
                         ARRAY[c.value, c.gas_limit, 1], c.most)
             OVER (PARTITION BY c.caller, c.chain_id ORDER BY c.queue_seq
                   ROWS UNBOUNDED PRECEDING))::NUMERIC[])[4]::INT AS exceeded
      FROM counted c
), queued AS (
    INSERT INTO managed_tx (submitter_id, tx_id, request_id, request_hash,
                            queue_seq, to_address, value, data, gas_limit,
                            speed, max_fee, not_after, cancel_late, labels, caller, trace_parent,
                            pool_id, mac, sub_state, approval)
    SELECT i.submitter_id, encode(i.tx_id, 'hex')::UUID, i.request_id, i.request_hash,
           i.queue_seq, NULLIF(i.to_address, ''), i.value_wei::NUMERIC, i.data, i.gas_limit,
           i.speed, NULLIF(i.max_fee::NUMERIC, 0),
           -- An interval is multiplied by a float, which is not exact to the microsecond in the
           -- year 2300. So seconds and microseconds are separate.
           CASE WHEN i.not_after > 0 THEN
               'epoch'::TIMESTAMPTZ + i.not_after / 1000000 * INTERVAL '1 second'
               + i.not_after % 1000000 * INTERVAL '1 microsecond' END,
           i.cancel_late, i.labels::JSONB, i.caller, NULLIF(i.trace_parent, ''),
           NULLIF(i.pool_id, 0), NULLIF(i.mac, ''),
           CASE WHEN i.approval_ms > 0 THEN 'AWAITING_APPROVAL' ELSE '' END,
           CASE WHEN i.approval_ms > 0 THEN 'WAITING' ELSE '' END
      FROM intent i
     -- looked up; a join would compare each row with each other: see Commit
     WHERE (i.submitter_id IN (SELECT o.submitter_id FROM open_to o)) IS TRUE
       AND (i.pool_id = 0
            OR (i.pool_id, i.submitter_id) IN (SELECT m.pool_id, m.submitter_id FROM member m))
       AND (i.not_after = 0
            OR 'epoch'::TIMESTAMPTZ + i.not_after * INTERVAL '1 microsecond' > clock_timestamp())
       AND (i.quota = 0
            OR (i.queue_seq IN (SELECT a.queue_seq FROM admitted a
                                 WHERE a.exceeded = 0 OR a.quota = 2)) IS TRUE)
     -- two nodes that insert the same keys must not deadlock; each key has the request_id
     ORDER BY i.request_id, i.pool_id, i.submitter_id, i.queue_seq
    ON CONFLICT DO NOTHING
    RETURNING submitter_id, tx_id, request_id, queue_seq, version, state, sub_state, executed,
              reason, last_error, labels, created_at, updated_at
), awaiting AS (
    INSERT INTO tx_approval (submitter_id, tx_id, expires_at)
    SELECT i.submitter_id, encode(i.tx_id, 'hex')::UUID,
           clock_timestamp() + make_interval(secs => i.approval_ms / 1000.0)
      FROM intent i
     WHERE i.approval_ms > 0
       AND (i.queue_seq IN (SELECT q.queue_seq FROM queued q)) IS TRUE
), labelled AS (
    INSERT INTO tx_label (submitter_id, key, value, tx_id)
    SELECT q.submitter_id, l.key, l.value, q.tx_id
      FROM queued q
     CROSS JOIN LATERAL jsonb_each_text(q.labels) l
     WHERE q.labels <> '{}'
), event_recorded AS (
    INSERT INTO tx_event (submitter_id, tx_id, seq, kind, state, sub_state, executed, reason,
                          message)
    SELECT q.submitter_id, q.tx_id, q.version, 'QUEUED', q.state, q.sub_state, q.executed, q.reason,
           q.last_error
      FROM queued q
), used AS (
    UPDATE caller_usage u
       SET day = n.day, value = n.value, gas = n.gas, creates = n.creates, creates_at = n.read_at
      FROM (SELECT x.caller, x.chain_id, max(x.day) AS day, max(x.read_at) AS read_at,
                   sum(x.value) AS value, sum(x.gas) AS gas, sum(x.creates) AS creates
              FROM (SELECT n.caller, n.chain_id, n.day, n.read_at, n.used_value AS value,
                           n.used_gas AS gas, n.level AS creates
                      FROM total n
                     UNION ALL
                    SELECT a.caller, a.chain_id, NULL, NULL, a.value, a.gas_limit, 1
                      FROM admitted a
                     WHERE (a.queue_seq IN (SELECT q.queue_seq FROM queued q)) IS TRUE) x
             GROUP BY x.caller, x.chain_id
            HAVING count(*) > 1) n
     WHERE u.caller = n.caller AND u.chain_id = n.chain_id
)
SELECT q.tx_id, q.request_id, q.queue_seq, q.created_at, q.updated_at, 0 AS exceeded
  FROM queued q
 UNION ALL
-- beyond a quota: 1 is value, 2 is gas, 3 is the rate
SELECT encode(a.tx_id, 'hex')::UUID, a.request_id, a.queue_seq, clock_timestamp(),
       clock_timestamp(), a.exceeded
  FROM admitted a
 WHERE a.exceeded > 0;

-- CancelQueued cancels a transaction that never had a nonce. A requeued one may have been executed,
-- which only its owner can find out. It waits for a commit that is taking a nonce, and then finds
-- nothing to cancel. The row is locked before the update: an UPDATE would take its xid before it
-- waits, and its event would be in the feed before the event that it waited for. A transaction of a
-- restored ledger may have been executed: see txn.Tx.Restored. One for a reserved nonce was signed
-- by a client, or alone can fill the nonce. This needs no owner; the command is still recorded if
-- the caller gives an operator or a reason.
-- name: CancelQueued :one
WITH queued AS MATERIALIZED (
    SELECT t.submitter_id, t.tx_id FROM managed_tx t
     WHERE t.submitter_id = @submitter_id AND t.tx_id = @tx_id AND t.state = 'QUEUED'
       AND t.requeued = 0 AND t.reservation_id IS NULL
       FOR NO KEY UPDATE
), cancelled AS (
    UPDATE managed_tx t
       SET state = 'CANCELLED', sub_state = '', version = t.version + 1,
           executed = CASE WHEN t.restored THEN 'UNKNOWN' ELSE 'NO' END,
           reason = CASE WHEN t.restored THEN @restored_reason::TEXT ELSE @reason::TEXT END,
           last_error = CASE WHEN t.restored THEN @restored_error::TEXT ELSE '' END,
           cancel_requested = TRUE,
           terminal_at = clock_timestamp(), updated_at = clock_timestamp()
      FROM queued q
     WHERE t.submitter_id = q.submitter_id AND t.tx_id = q.tx_id
    RETURNING t.*
), event_recorded AS (
    INSERT INTO tx_event (submitter_id, tx_id, seq, kind, state, sub_state, executed, reason,
                          message)
    SELECT c.submitter_id, c.tx_id, c.version, 'CANCELLED', c.state, c.sub_state, c.executed,
           c.reason, c.last_error
      FROM cancelled c
), command_recorded AS (
    INSERT INTO submitter_command (submitter_id, kind, tx_id, reason, operator, caller,
                                   applied_at, result)
    SELECT c.submitter_id, 'CANCEL', c.tx_id, @why::TEXT, @operator::TEXT, @caller::TEXT,
           clock_timestamp(), 'APPLIED'
      FROM cancelled c
     WHERE @why::TEXT <> '' OR @operator::TEXT <> '' OR @caller::TEXT <> ''
)
SELECT c.version FROM cancelled c;

-- name: InsertCommand :one
INSERT INTO submitter_command (submitter_id, kind, tx_id, action, expect, reason, operator,
                               caller, chain_nonce, violations)
VALUES (@submitter_id, @kind, sqlc.narg('tx_id')::UUID, @action, @expect, @reason, @operator,
        @caller, sqlc.narg('chain_nonce')::BIGINT, sqlc.narg('violations')::TEXT[])
ON CONFLICT DO NOTHING
RETURNING command_id;

-- PendingCommand is the command of this kind, and for the same transaction, that no owner has
-- applied.
-- name: PendingCommand :one
SELECT k.command_id FROM submitter_command k
 WHERE k.submitter_id = @submitter_id AND k.kind = @kind AND k.applied_at IS NULL
   AND k.tx_id IS NOT DISTINCT FROM sqlc.narg('tx_id')::UUID
 ORDER BY k.command_id
 LIMIT 1;

-- name: CommandResult :one
SELECT coalesce(k.result, '')::TEXT AS result
  FROM submitter_command k
 WHERE k.submitter_id = @submitter_id AND k.command_id = @command_id;

-- ProtectionsFor lists the newest protections that were requested with one reason and applied. It
-- searches all commands, because the latest may all be of another kind.
-- name: ProtectionsFor :many
SELECT k.reason, k.violations FROM submitter_command k
 WHERE k.submitter_id = @submitter_id AND k.kind = 'PROTECT' AND k.action = @action
   AND k.result = 'APPLIED'
 ORDER BY k.command_id DESC
 LIMIT @max_rows::INT;

-- Commands lists the commands of a submitter, newest first, applied or not.
-- name: Commands :many
SELECT k.command_id, k.kind, k.tx_id, k.action, k.expect, k.reason, k.operator, k.caller,
       k.created_at, k.applied_at, coalesce(k.result, '')::TEXT AS result, s.name AS submitter
  FROM submitter_command k
  JOIN submitter s ON s.submitter_id = k.submitter_id
 WHERE k.submitter_id = @submitter_id AND k.command_id < @before::BIGINT
 ORDER BY k.command_id DESC
 LIMIT @max_rows::INT;

-- CommandsOf lists the commands of the submitters with these names, as Commands does. It reads no
-- command of another submitter.
-- name: CommandsOf :many
SELECT k.command_id, k.kind, k.tx_id, k.action, k.expect, k.reason, k.operator, k.caller,
       k.created_at, k.applied_at, coalesce(k.result, '')::TEXT AS result, s.name AS submitter
  FROM submitter s
 CROSS JOIN LATERAL (
       SELECT c.command_id, c.kind, c.tx_id, c.action, c.expect, c.reason, c.operator, c.caller,
              c.created_at, c.applied_at, c.result
         FROM submitter_command c
        WHERE c.submitter_id = s.submitter_id AND c.command_id < @before::BIGINT
        ORDER BY c.command_id DESC
        LIMIT @max_rows::INT) k
 WHERE s.name = ANY(@names::TEXT[]) AND s.moved_to IS NULL
 ORDER BY k.command_id DESC
 LIMIT @max_rows::INT;

-- AllCommands lists the commands of the submitters with these names, or of all, as Commands does.
-- It walks the newest commands, so it suits callers of many submitters.
-- name: AllCommands :many
SELECT k.command_id, k.kind, k.tx_id, k.action, k.expect, k.reason, k.operator, k.caller,
       k.created_at, k.applied_at, coalesce(k.result, '')::TEXT AS result, s.name AS submitter
  FROM submitter_command k
  JOIN submitter s ON s.submitter_id = k.submitter_id
 WHERE k.command_id < @before::BIGINT AND s.moved_to IS NULL
   AND (@any_name::BOOLEAN OR s.name = ANY(@names::TEXT[]))
 ORDER BY k.command_id DESC
 LIMIT @max_rows::INT;
