-- Intents: the only writes that need no lease. They queue a transaction with its first event,
-- cancel a queued transaction, or send a command to the owner.

-- InsertTxs queues many transactions at once, in their order. It inserts nothing for a request_id
-- that is taken, a submitter that is paused, protected, in mode EXTERNAL or not on chain_id, an
-- account that is not an active member of the intent's pool, a transaction past not_after or beyond
-- an enforced quota, or a void top-up. The caller finds the reason with a new statement, which sees
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
           unnest(@chain_ids::BIGINT[])     AS chain_id, -- of the submitter, as the node knows it
           unnest(@quotas::INT[])           AS quota,    -- its number, below; 0: none
           unnest(@pool_ids::INT[])         AS pool_id   -- 0: none
), member AS MATERIALIZED (
    SELECT m.pool_id, m.submitter_id FROM pool_member m
     WHERE m.pool_id = ANY(@pool_ids::INT[]) AND m.status = 'ACTIVE'
), open_to AS MATERIALIZED (
    SELECT s.submitter_id, s.chain_id FROM submitter s
     WHERE s.submitter_id = ANY(@submitter_ids::INT[]) AND s.status = 'ACTIVE'
       AND s.mode <> 'EXTERNAL'
       AND NOT s.submitter_id IN (SELECT n.submitter_id FROM submitter_nonce_cursor n
                                   WHERE n.submitter_id = ANY(@submitter_ids::INT[])
                                     AND n.protect_reason IS NOT NULL)
), quota AS MATERIALIZED (
    -- of a caller on a chain, with the sums of all that it wants queued
    SELECT unnest(@quota_nos::INT[])                        AS quota,
           unnest(@quota_callers::TEXT[])                   AS caller,
           unnest(@quota_chains::BIGINT[])                  AS chain_id,
           unnest(@enforced::BOOLEAN[])                     AS enforced, -- else only reported
           NULLIF(unnest(@day_values::TEXT[]), '')::NUMERIC AS day_value,
           NULLIF(unnest(@day_gases::BIGINT[]), 0)          AS day_gas,
           NULLIF(unnest(@rates::FLOAT8[]), 0)::NUMERIC     AS rate,     -- per second
           NULLIF(unnest(@bursts::FLOAT8[]), 0)::NUMERIC    AS burst,
           unnest(@sum_values::TEXT[])::NUMERIC             AS sum_value,
           unnest(@sum_gases::TEXT[])::NUMERIC              AS sum_gas,
           unnest(@sum_creates::BIGINT[])                   AS sum_creates,
           -- read once, or a day that ends meanwhile counts twice
           (clock_timestamp() AT TIME ZONE 'UTC')::DATE     AS today
), usage AS MATERIALIZED (
    -- Usually all of a caller's transactions fit together, repeats included. Then none of them is
    -- examined alone, which would cost more than the rest.
    SELECT l.*,
           (l.value + l.sum_value <= l.day_value) IS NOT FALSE
           AND (l.gas + l.sum_gas <= l.day_gas) IS NOT FALSE
           AND (l.level + l.sum_creates <= l.burst) IS NOT FALSE AS fits
      FROM (
        -- Locked before anything is inserted: the rows below are sorted after they were selected.
        -- The level that a rate leaves is at most its burst: more was accepted under a higher
        -- rate, or where it was only reported. Without a rate the level is 0.
        SELECT q.*, clock_timestamp() AS read_at, greatest(u.day, q.today) AS day,
               CASE WHEN u.day >= q.today THEN u.value ELSE 0 END AS value,
               CASE WHEN u.day >= q.today THEN u.gas ELSE 0 END AS gas,
               greatest(0, least(u.creates, q.burst) - q.rate
                   * greatest(0, extract(epoch FROM clock_timestamp() - u.creates_at))) AS level
          FROM quota q
          JOIN caller_usage u ON u.caller = q.caller AND u.chain_id = q.chain_id
         ORDER BY u.caller, u.chain_id
           FOR NO KEY UPDATE OF u) l
), possible AS MATERIALIZED (
    -- Queued if its quota has room: see queued. Empty if all fits.
    SELECT DISTINCT ON (i.pool_id, CASE WHEN i.pool_id = 0 THEN i.submitter_id END, i.request_id)
           i.queue_seq
      FROM intent i
     WHERE EXISTS (SELECT FROM usage u WHERE NOT u.fits)
       AND ((i.submitter_id, i.chain_id)
            IN (SELECT o.submitter_id, o.chain_id FROM open_to o)) IS TRUE
       AND (i.pool_id = 0
            OR (i.pool_id, i.submitter_id) IN (SELECT m.pool_id, m.submitter_id FROM member m))
       AND (i.not_after = 0
            OR 'epoch'::TIMESTAMPTZ + i.not_after * INTERVAL '1 microsecond' > clock_timestamp())
       AND NOT EXISTS (SELECT FROM managed_tx t
                        WHERE t.submitter_id = i.submitter_id AND t.request_id = i.request_id)
       AND NOT EXISTS (SELECT FROM managed_tx t
                        WHERE t.pool_id = NULLIF(i.pool_id, 0) AND t.request_id = i.request_id)
     ORDER BY i.pool_id, CASE WHEN i.pool_id = 0 THEN i.submitter_id END, i.request_id, i.queue_seq
), examined AS MATERIALIZED (
    -- The transactions of a caller that do not fit together. One that is not queued for another
    -- reason, such as a repeat, counts nothing, and is not refused.
    SELECT i.queue_seq, i.tx_id, i.request_id, u.enforced,
           (quota_admit(ARRAY[u.value, u.gas, u.level], ARRAY[i.value_wei::NUMERIC, i.gas_limit, 1],
                        ARRAY[coalesce(u.day_value, -1), coalesce(u.day_gas, -1),
                              coalesce(u.burst, -1), u.enforced::INT])
            OVER (PARTITION BY i.quota ORDER BY i.queue_seq
                  ROWS UNBOUNDED PRECEDING))[4]::INT AS exceeded
      FROM intent i
      JOIN usage u ON u.quota = i.quota
     WHERE NOT u.fits
       AND (i.queue_seq IN (SELECT p.queue_seq FROM possible p)) IS TRUE
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
     WHERE ((i.submitter_id, i.chain_id)
            IN (SELECT o.submitter_id, o.chain_id FROM open_to o)) IS TRUE
       AND (i.pool_id = 0
            OR (i.pool_id, i.submitter_id) IN (SELECT m.pool_id, m.submitter_id FROM member m))
       AND (i.not_after = 0
            OR 'epoch'::TIMESTAMPTZ + i.not_after * INTERVAL '1 microsecond' > clock_timestamp())
       AND (i.quota = 0
            OR i.quota IN (SELECT u.quota FROM usage u WHERE u.fits)
            OR i.queue_seq IN (SELECT e.queue_seq FROM examined e
                                WHERE e.exceeded = 0 OR NOT e.enforced))
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
      -- no join: it would compare each with each
      FROM (SELECT max(x.caller) AS caller, max(x.chain_id) AS chain_id, max(x.day) AS day,
                   max(x.read_at) AS read_at, sum(x.value) AS value, sum(x.gas) AS gas,
                   sum(x.creates) AS creates
              FROM (SELECT y.quota, y.caller, y.chain_id, y.day, y.read_at, y.value, y.gas,
                           y.level AS creates
                      FROM usage y
                     UNION ALL
                    SELECT i.quota, NULL, NULL, NULL, NULL, i.value_wei::NUMERIC, i.gas_limit, 1
                      FROM intent i
                     WHERE i.quota > 0
                       AND (i.queue_seq IN (SELECT q.queue_seq FROM queued q)) IS TRUE) x
             GROUP BY x.quota
            HAVING count(*) > 1) n
     WHERE u.caller = n.caller AND u.chain_id = n.chain_id
)
SELECT q.tx_id, q.request_id, q.queue_seq, q.created_at, q.updated_at, 0 AS exceeded
  FROM queued q
 UNION ALL
-- beyond a quota: 1 is value, 2 is gas, 3 is the rate
SELECT encode(e.tx_id, 'hex')::UUID, e.request_id, e.queue_seq, clock_timestamp(),
       clock_timestamp(), e.exceeded
  FROM examined e
 WHERE e.exceeded > 0;

-- CancelQueued cancels a transaction that never had a nonce. A requeued one may have been executed,
-- which only its owner can find out. It waits for a commit that is taking a nonce, and then finds
-- nothing to cancel. The row is locked before the update: an UPDATE would take its xid before it
-- waits, and its event would be in the feed before the event that it waited for. A transaction of a
-- ledger that lost commits may have been executed: see txn/restored.go. One for a reserved nonce
-- was signed by a client, or alone can fill the nonce. This needs no owner; the command is still
-- recorded if the caller gives an operator or a reason.
-- name: CancelQueued :one
WITH queued AS MATERIALIZED (
    SELECT t.submitter_id, t.tx_id,
           t.restored OR commits_may_be_lost(t.submitter_id) AS restored
      FROM managed_tx t
     WHERE t.submitter_id = @submitter_id AND t.tx_id = @tx_id AND t.state = 'QUEUED'
       AND t.requeued = 0 AND t.reservation_id IS NULL
       FOR NO KEY UPDATE
), cancelled AS (
    UPDATE managed_tx t
       SET state = 'CANCELLED', sub_state = '', version = t.version + 1,
           restored = q.restored,
           executed = CASE WHEN q.restored THEN 'UNKNOWN' ELSE 'NO' END,
           reason = CASE WHEN q.restored THEN @restored_reason::TEXT ELSE @reason::TEXT END,
           last_error = CASE WHEN q.restored THEN @restored_error::TEXT ELSE '' END,
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
