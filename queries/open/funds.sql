-- Balances of accounts, and their top-ups. No lease is needed: a top-up is an intent, and its key
-- lets one of several nodes decide.

-- FundsOf returns, for each account, the last judgement of its balance, the newest top-up with the
-- state of its transaction (empty: there is none yet, or a fail-over may have lost it), and the
-- amount of the last 24 hours. A void top-up counts only for last_no.
-- name: FundsOf :many
SELECT s.submitter_id, clock_timestamp()::TIMESTAMPTZ AS read_at,
       coalesce(b.low, FALSE)::BOOLEAN AS low, coalesce(b.falls, 0)::BIGINT AS falls,
       coalesce(b.top_up_held, '')::TEXT AS held,
       coalesce(u.no, 0)::BIGINT AS no, coalesce(u.treasury_id, 0)::INT AS treasury_id,
       coalesce(f.name, '')::TEXT AS treasury,
       coalesce(u.request_id, '')::TEXT AS request_id, coalesce(u.amount, 0)::TEXT AS amount,
       coalesce(u.created_at, 'epoch')::TIMESTAMPTZ AS created_at,
       coalesce(t.tx_id::TEXT, '')::TEXT AS tx_id, coalesce(t.state, '')::TEXT AS state,
       coalesce(t.sub_state, '')::TEXT AS sub_state,
       coalesce(t.receipt_block, 0)::BIGINT AS receipt_block,
       coalesce(t.receipt_block_hash, ''::BYTEA)::BYTEA AS receipt_hash,
       coalesce(t.terminal_at, 'epoch')::TIMESTAMPTZ AS final_at,
       coalesce(u.mac, ''::BYTEA)::BYTEA AS mac,
       (u.no IS NOT NULL AND t.tx_id IS NULL
        AND top_up_in_doubt(u.treasury_id, u.created_at, u.protections))::BOOLEAN AS may_be_lost,
       (SELECT coalesce(sum(d.amount), 0)::TEXT FROM top_up d
         WHERE d.submitter_id = s.submitter_id AND d.voided_at IS NULL
           AND d.created_at > clock_timestamp() - INTERVAL '1 day') AS day_amount,
       (SELECT coalesce(max(d.no), 0)::BIGINT FROM top_up d
         WHERE d.submitter_id = s.submitter_id) AS last_no
  FROM submitter s
  LEFT JOIN account_balance b ON b.submitter_id = s.submitter_id
  LEFT JOIN LATERAL (
       SELECT n.no, n.treasury_id, n.request_id, n.amount, n.mac, n.created_at, n.protections
         FROM top_up n
        WHERE n.submitter_id = s.submitter_id AND n.voided_at IS NULL
        ORDER BY n.no DESC
        LIMIT 1) u ON TRUE
  LEFT JOIN submitter f ON f.submitter_id = u.treasury_id
  LEFT JOIN managed_tx t ON t.submitter_id = u.treasury_id AND t.request_id = u.request_id
 WHERE s.submitter_id = ANY(@submitter_ids::INT[]);

-- DecideTopUp records the top-up @no if it follows the newest one, and the newest one that is not
-- void is final. The limit of 24 hours must allow the amount, and the reading that it was decided
-- on is at most a minute old. Of several nodes the key lets one record it. The treasury is on the
-- chain of the account. It is locked, so that it does not move to another ledger meanwhile.
-- name: DecideTopUp :execrows
WITH treasury AS MATERIALIZED (
    SELECT m.submitter_id, m.chain_id FROM submitter m
     WHERE m.submitter_id = @treasury_id AND m.mode <> 'EXTERNAL' AND m.moved_to IS NULL
       FOR KEY SHARE
)
INSERT INTO top_up (submitter_id, no, treasury_id, request_id, amount, mac, protections)
SELECT s.submitter_id, @no::BIGINT, f.submitter_id, @request_id::TEXT,
       CAST(@amount::TEXT AS NUMERIC), sqlc.narg(mac)::BYTEA,
       coalesce((SELECT c.protections FROM submitter_nonce_cursor c
                  WHERE c.submitter_id = f.submitter_id), 0)
  FROM submitter s
  JOIN treasury f ON f.chain_id = s.chain_id
  LEFT JOIN LATERAL (
       SELECT n.no, n.treasury_id, n.request_id FROM top_up n
        WHERE n.submitter_id = s.submitter_id AND n.voided_at IS NULL
        ORDER BY n.no DESC
        LIMIT 1) u ON TRUE
  LEFT JOIN managed_tx t ON t.submitter_id = u.treasury_id AND t.request_id = u.request_id
 WHERE s.submitter_id = @submitter_id
   AND @read_at::TIMESTAMPTZ > clock_timestamp() - INTERVAL '1 minute'
   AND (SELECT coalesce(max(d.no), 0) FROM top_up d
         WHERE d.submitter_id = @submitter_id) + 1 = @no::BIGINT
   AND (u.no IS NULL OR t.state IN ('CONFIRMED', 'FAILED_FINAL', 'CANCELLED'))
   AND (SELECT coalesce(sum(d.amount), 0) FROM top_up d
         WHERE d.submitter_id = @submitter_id AND d.voided_at IS NULL
           AND d.created_at > clock_timestamp() - INTERVAL '1 day')
       + CAST(@amount::TEXT AS NUMERIC) <= CAST(@day_limit::TEXT AS NUMERIC)
    ON CONFLICT DO NOTHING;

-- LockTopUp returns the number of the newest top-up of an account, and locks its treasury: the next
-- statement sees each transaction that was inserted for it, and none can be inserted meanwhile.
-- name: LockTopUp :one
SELECT u.no FROM top_up u
  JOIN submitter f ON f.submitter_id = u.treasury_id
 WHERE u.submitter_id = @submitter_id
 ORDER BY u.no DESC
 LIMIT 1
   FOR UPDATE OF f;

-- VoidTopUp ends a top-up and records the command, or returns the transaction of the top-up and
-- whether it is final. It needs the lock of LockTopUp, and a snapshot that is newer. A void top-up
-- stays void.
-- name: VoidTopUp :one
WITH voided AS (
    UPDATE top_up u
       SET voided_at = clock_timestamp()
     WHERE u.submitter_id = @submitter_id AND u.no = @no AND u.voided_at IS NULL
       AND NOT EXISTS (SELECT FROM managed_tx t
                        WHERE t.submitter_id = u.treasury_id AND t.request_id = u.request_id)
    RETURNING u.submitter_id, u.no
), command_recorded AS (
    INSERT INTO submitter_command (submitter_id, kind, action, reason, operator, applied_at,
                                   result)
    SELECT v.submitter_id, 'UPDATE', 'TOP_UP_VOIDED',
           concat_ws(': ', 'top-up ' || v.no, NULLIF(@reason::TEXT, '')), @operator::TEXT,
           clock_timestamp(), 'APPLIED'
      FROM voided v
)
SELECT t.tx_id, (t.terminal_at IS NOT NULL)::BOOLEAN AS final
  FROM top_up u
  LEFT JOIN managed_tx t ON t.submitter_id = u.treasury_id AND t.request_id = u.request_id
 WHERE u.submitter_id = @submitter_id AND u.no = @no;

-- OpenBalances makes the rows that judgements are recorded in.
-- name: OpenBalances :exec
INSERT INTO account_balance (submitter_id)
SELECT i.submitter_id FROM unnest(@submitter_ids::INT[]) AS i(submitter_id)
 ORDER BY i.submitter_id
    ON CONFLICT DO NOTHING;

-- RecordLow records that an account became low, or no longer is. A reading of an older block than
-- the last judgement, as of an endpoint that lags, changes nothing, unless that judgement is some
-- minutes old: its block may be wrong. At the same block an account only falls, by a reading
-- after the last judgement. It reports each change once, and with @emit writes the event of a fall:
-- an event of the account, in the feed of events.
-- name: RecordLow :one
WITH held AS MATERIALIZED (
    -- locked first, as in CancelQueued
    SELECT b.submitter_id FROM account_balance b
      JOIN submitter s ON s.submitter_id = b.submitter_id AND s.moved_to IS NULL
     WHERE b.submitter_id = @submitter_id AND b.low <> @low::BOOLEAN
       AND (b.block < @block::BIGINT
            OR b.block = @block::BIGINT AND @low::BOOLEAN AND b.judged_at < @read_at::TIMESTAMPTZ
            OR b.judged_at < clock_timestamp() - INTERVAL '10 minutes')
       FOR NO KEY UPDATE OF b
       FOR KEY SHARE OF s -- a tombstone waits, and copies the event
), judged AS (
    UPDATE account_balance b
       SET low = @low::BOOLEAN, falls = b.falls + CASE WHEN @low::BOOLEAN THEN 1 ELSE 0 END,
           -- an account that came from another ledger has brought its events
           events = greatest(b.events, coalesce((SELECT max(e.seq) FROM tx_event e
                                                  WHERE e.submitter_id = @submitter_id
                                                    AND e.tx_id = @stream::UUID), 0))
                    + CASE WHEN @low::BOOLEAN AND @emit::BOOLEAN THEN 1 ELSE 0 END,
           block = @block::BIGINT, judged_at = clock_timestamp(), changed_at = clock_timestamp()
      FROM held h
     WHERE b.submitter_id = h.submitter_id
    RETURNING b.submitter_id, b.falls, b.events
), event_recorded AS (
    INSERT INTO tx_event (submitter_id, tx_id, seq, kind, state, sub_state, executed, reason,
                          message)
    SELECT j.submitter_id, @stream::UUID, j.events, 'LOW_BALANCE', '', '', 'UNKNOWN', '',
           @message::TEXT
      FROM judged j
     WHERE @low::BOOLEAN AND @emit::BOOLEAN
)
SELECT j.falls FROM judged j;

-- RecordHeld records why an account gets no top-up, and reports each change once.
-- name: RecordHeld :execrows
UPDATE account_balance b
   SET top_up_held = @held::TEXT, changed_at = clock_timestamp()
 WHERE b.submitter_id = @submitter_id AND b.top_up_held <> @held::TEXT;
