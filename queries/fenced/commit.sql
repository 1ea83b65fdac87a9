-- The only statement that writes the ledger. It carries the changes of many submitters. Each change
-- is done completely or not at all, and does not affect the others. First every guard is locked:
-- leases before cursors before transactions, each in key order and with every expectation as a
-- predicate. A row that a concurrent transaction changed is therefore checked in its newest
-- version. Only then is anything written, and each write must belong to a change in "ok".
--
-- "(...) IN (SELECT ...) IS TRUE" stands for a join. The planner would execute a join by comparing
-- each change with each other one if it takes the arrays for short; this form only allows a lookup
-- in a hash table. For the same reason scalar sub-selects replace EXISTS, which may become a read
-- of the whole table. Tables are read along their keys: see planFenced in package store. The key of
-- managed_tx is compared once more as a whole, which only changes the planner's estimate: in a
-- ledger that it takes for small, the index of request ids, which also begins with the submitter,
-- would cost the same, and the statement would walk along all transactions of the submitter.
--
-- name: Commit :many
WITH change AS (
    SELECT unnest(@change_no::INT[])              AS change_no,
           unnest(@submitter_id::INT[])           AS submitter_id,
           unnest(@fencing_token::BIGINT[])       AS fencing_token,
           unnest(@write_count::INT[])            AS write_count,
           unnest(@take_nonce::BIGINT[])          AS take_nonce,          -- -1: takes none
           unnest(@take_last::BIGINT[])           AS take_last,           -- from take_nonce on
           unnest(@take_slot::INT[])              AS take_slot,           -- the highest slot
           unnest(@init_nonce::BIGINT[])          AS init_nonce,          -- -1: starts no cursor
           unnest(@init_block::BIGINT[])          AS init_block,
           unnest(@init_block_hash::BYTEA[])      AS init_block_hash,
           unnest(@protect_expect::BIGINT[])      AS protect_expect,      -- -1: does not protect
           -- the protection in force that may be replaced; 0: none
           unnest(@protect_replaces::BIGINT[])    AS protect_replaces,
           unnest(@protect_reason::TEXT[])        AS protect_reason,
           unnest(@protect_evidence::TEXT[])      AS protect_evidence,
           unnest(@protect_chain_nonce::BIGINT[]) AS protect_chain_nonce, -- -1: unknown
           -- requested by a command, which records it
           unnest(@protect_asked::BOOLEAN[])      AS protect_asked,
           -- -1: does not end a protection
           unnest(@unprotect_expect::BIGINT[])    AS unprotect_expect,
           unnest(@unprotect_id::BIGINT[])        AS unprotect_id,
           unnest(@unprotect_to::BIGINT[])        AS unprotect_to,
           unnest(@unprotect_reason::TEXT[])      AS unprotect_reason,
           unnest(@unprotect_asked::BOOLEAN[])    AS unprotect_asked,
           unnest(@new_status::TEXT[])            AS new_status,          -- '': unchanged
           -- '': requested by a command, which records it
           unnest(@status_reason::TEXT[])         AS status_reason,
           -- compared with the chain after a fail-over
           unnest(@compared::BOOLEAN[])           AS compared
), write AS (
    SELECT unnest(@w_change_no::INT[])            AS change_no,
           unnest(@w_submitter_id::INT[])         AS submitter_id,
           unnest(@w_fencing_token::BIGINT[])     AS fencing_token,
           unnest(@w_tx_id::UUID[])               AS tx_id,
           unnest(@w_version::BIGINT[])           AS version,
           unnest(@w_from_state::TEXT[])          AS from_state,
           unnest(@w_kind::TEXT[])                AS kind,            -- '': no event
           unnest(@w_state::TEXT[])               AS state,
           unnest(@w_sub_state::TEXT[])           AS sub_state,
           unnest(@w_nonce::BIGINT[])             AS nonce,           -- -1: none
           unnest(@w_slot::INT[])                 AS slot,
           unnest(@w_released::BOOLEAN[])         AS released,
           unnest(@w_terminal::BOOLEAN[])         AS terminal,
           unnest(@w_tx_hash::BYTEA[])            AS tx_hash,         -- empty: none
           unnest(@w_receipt_tx_hash::BYTEA[])    AS receipt_tx_hash, -- empty: no receipt
           unnest(@w_receipt_block::BIGINT[])     AS receipt_block,
           unnest(@w_receipt_block_hash::BYTEA[]) AS receipt_block_hash,
           unnest(@w_receipt_success::BOOLEAN[])  AS receipt_success,
           unnest(@w_receipt_gas_used::BIGINT[])  AS receipt_gas_used,
           unnest(@w_receipt_gas_price::TEXT[])   AS receipt_gas_price,
           unnest(@w_receipt_more::BYTEA[])       AS receipt_more,
           unnest(@w_executed::TEXT[])            AS executed,
           unnest(@w_reason::TEXT[])              AS reason,
           unnest(@w_last_error::TEXT[])          AS last_error,
           unnest(@w_last_error_base::TEXT[])     AS last_error_base,
           unnest(@w_submit_attempts::INT[])      AS submit_attempts,
           unnest(@w_cancel_requested::BOOLEAN[]) AS cancel_requested,
           unnest(@w_requeued::INT[])             AS requeued,
           unnest(@w_accepted::INT[])             AS accepted,
           unnest(@w_last_answer::TEXT[])         AS last_answer,
           unnest(@w_pooled::INT[])               AS pooled,
           unnest(@w_rejected::TEXT[])            AS rejected,
           unnest(@w_waiting::BOOLEAN[])          AS waiting,
           unnest(@w_diagnosis::TEXT[])           AS diagnosis,
           unnest(@w_above::BYTEA[])              AS above,           -- empty: none
           unnest(@w_ended_block::BIGINT[])       AS ended_block,     -- 0: none
           unnest(@w_new_fork::BOOLEAN[])         AS new_fork,
           unnest(@w_event_above::BYTEA[])        AS event_above,     -- empty: none
           unnest(@w_late::BOOLEAN[])             AS late,            -- not_after has passed
           unnest(@w_sent::BOOLEAN[])             AS sent,            -- after a broadcast
           unnest(@w_delay_ms::BIGINT[])          AS delay_ms
), attempt AS (
    SELECT unnest(@a_change_no::INT[])            AS change_no,
           unnest(@a_submitter_id::INT[])         AS submitter_id,
           unnest(@a_fencing_token::BIGINT[])     AS fencing_token,
           unnest(@a_tx_id::UUID[])               AS tx_id,
           unnest(@a_attempt_no::INT[])           AS attempt_no,
           unnest(@a_kind::TEXT[])                AS kind,
           unnest(@a_nonce::BIGINT[])             AS nonce,
           unnest(@a_tx_hash::BYTEA[])            AS tx_hash,
           unnest(@a_raw_tx::BYTEA[])             AS raw_tx,
           unnest(@a_gas_limit::BIGINT[])         AS gas_limit,
           unnest(@a_fee_cap::TEXT[])             AS fee_cap,
           unnest(@a_tip::TEXT[])                 AS tip,
           unnest(@a_legacy::BOOLEAN[])           AS legacy
), applied AS (
    SELECT unnest(@c_change_no::INT[])            AS change_no,
           unnest(@c_submitter_id::INT[])         AS submitter_id,
           unnest(@c_fencing_token::BIGINT[])     AS fencing_token,
           unnest(@c_command_id::BIGINT[])        AS command_id,
           unnest(@c_result::TEXT[])              AS result
), lease AS MATERIALIZED (
    -- The fence. The lock is held until the commit; a takeover changes fencing_token, a key column,
    -- and therefore waits for it.
    SELECT c.*
      FROM change c
      JOIN submitter_lease l ON l.submitter_id = c.submitter_id
                            AND l.fencing_token = c.fencing_token
     WHERE l.owner_node = @owner_node::TEXT AND l.expires_at > clock_timestamp()
     ORDER BY l.submitter_id
       FOR KEY SHARE OF l
), nonce_cursor AS MATERIALIZED (
    -- A protection that may be lifted automatically gives way to one that is not. Of those for a
    -- nonce used elsewhere, the owner knows which may, and names it. Any gives way to one for lost
    -- commits, which names it.
    SELECT l.change_no, n.protections
      FROM lease l
      JOIN submitter_nonce_cursor n ON n.submitter_id = l.submitter_id
     WHERE l.init_nonce >= 0
        OR (l.take_nonce >= 0 AND n.next_nonce = l.take_nonce AND n.protect_reason IS NULL)
        OR (l.protect_expect >= 0 AND n.next_nonce = l.protect_expect
            AND (n.protect_reason IS NULL
                 OR n.protect_reason = 'REORGED_AFTER_FINAL'
                    AND l.protect_reason <> n.protect_reason
                 OR n.protect_reason = 'NONCE_USED_ELSEWHERE'
                    AND l.protect_reason <> 'REORGED_AFTER_FINAL'
                    AND n.protections = l.protect_replaces
                 OR n.protect_reason <> 'DATABASE_RESTORED'
                    AND l.protect_reason = 'DATABASE_RESTORED'
                    AND n.protections = l.protect_replaces))
        OR (l.unprotect_expect >= 0 AND n.next_nonce = l.unprotect_expect
            AND n.protect_reason IS NOT NULL AND n.protections = l.unprotect_id)
     ORDER BY n.submitter_id
       FOR NO KEY UPDATE OF n
), tx AS MATERIALIZED (
    SELECT w.change_no, w.submitter_id, w.fencing_token, w.tx_id, w.kind,
           t.nonce AS old_nonce, t.reason AS old_reason
      FROM write w
      JOIN managed_tx t ON t.submitter_id = w.submitter_id AND t.tx_id = w.tx_id
                       AND (t.submitter_id, t.tx_id) >= (w.submitter_id, w.tx_id)
     WHERE ((w.change_no, w.submitter_id, w.fencing_token)
            IN (SELECT l.change_no, l.submitter_id, l.fencing_token FROM lease l)) IS TRUE
       AND (SELECT count(*) FROM nonce_cursor) >= 0 -- cursors first
       AND t.version = w.version AND t.state = w.from_state
       -- both lines use the same clock
       AND (w.kind <> 'ALLOCATED' OR t.not_after IS NULL OR t.not_after > clock_timestamp())
       -- no nonce without the approval that its policy requires, even if the owner tries
       AND (w.kind <> 'ALLOCATED' OR t.approval <> 'WAITING')
       AND (NOT w.late OR t.not_after <= clock_timestamp())
       -- not as never executed if it may have been, in commits that were lost; the owner may not
       -- know of the fail-over
       AND (w.executed <> 'NO' OR w.nonce >= 0 OR NOT commits_may_be_lost(w.submitter_id))
     ORDER BY t.submitter_id, t.tx_id
       FOR NO KEY UPDATE OF t
), taken AS MATERIALIZED (
    SELECT w.change_no, min(w.nonce) AS first_nonce, max(w.nonce) AS last_nonce,
           max(w.slot) AS slot, count(DISTINCT w.nonce) AS nonces
      FROM write w
     WHERE w.kind = 'ALLOCATED'
     GROUP BY w.change_no
), ok AS MATERIALIZED (
    SELECT l.*
      FROM lease l
     WHERE CASE WHEN l.init_nonce >= 0
                THEN l.change_no NOT IN (SELECT n.change_no FROM nonce_cursor n)
                WHEN l.take_nonce >= 0 OR l.protect_expect >= 0 OR l.unprotect_expect >= 0
                THEN l.change_no IN (SELECT n.change_no FROM nonce_cursor n)
                ELSE TRUE END
       AND (l.write_count = 0
            OR (l.change_no, l.write_count)
               IN (SELECT t.change_no, count(*)::INT FROM tx t GROUP BY t.change_no))
       -- the nonces are taken without a gap, and each slot is within the limit of the submitter
       AND (l.take_nonce < 0
            OR (l.change_no, l.take_nonce, l.take_last, l.take_slot, l.take_last - l.take_nonce + 1)
               IN (SELECT n.change_no, n.first_nonce, n.last_nonce, n.slot, n.nonces FROM taken n))
       AND (l.take_nonce < 0
            OR (SELECT s.status = 'ACTIVE' AND l.take_slot < s.max_in_flight
                  FROM submitter s WHERE s.submitter_id = l.submitter_id)
               AND (SELECT count(*) FROM submitter_command k
                     WHERE k.submitter_id = l.submitter_id AND k.applied_at IS NULL
                       -- the cancel of another transaction is no reason to wait, however often it
                       -- is requested
                       AND (k.kind <> 'CANCEL'
                            OR (l.change_no, k.tx_id)
                               IN (SELECT w.change_no, w.tx_id FROM write w))
                       AND NOT (k.submitter_id, k.command_id)
                           IN (SELECT e.submitter_id, e.command_id FROM applied e)) = 0)
), cursor_started AS (
    INSERT INTO submitter_nonce_cursor (submitter_id, next_nonce, init_nonce, init_block,
                                        init_block_hash, fencing_token, protect_reason,
                                        protect_evidence, protect_at, protections)
    SELECT o.submitter_id, o.init_nonce, o.init_nonce, o.init_block, o.init_block_hash,
           o.fencing_token,
           CASE WHEN o.protect_expect >= 0 THEN o.protect_reason END,
           CASE WHEN o.protect_expect >= 0 THEN o.protect_evidence END,
           CASE WHEN o.protect_expect >= 0 THEN clock_timestamp() END,
           (o.protect_expect >= 0)::INT
      FROM ok o WHERE o.init_nonce >= 0
), cursor_moved AS (
    -- A change that takes a nonce found no protection, and one that lifts a protection clears it.
    UPDATE submitter_nonce_cursor n
       SET next_nonce       = CASE WHEN o.take_nonce >= 0 THEN o.take_last + 1
                                   WHEN o.unprotect_expect >= 0 THEN o.unprotect_to
                                   ELSE n.next_nonce END,
           protect_reason   = CASE WHEN o.protect_expect >= 0 THEN o.protect_reason END,
           protect_evidence = CASE WHEN o.protect_expect >= 0 THEN o.protect_evidence END,
           protect_at       = CASE WHEN o.protect_expect >= 0 THEN clock_timestamp() END,
           protections      = n.protections + (o.protect_expect >= 0)::INT,
           fencing_token    = o.fencing_token,
           updated_at       = clock_timestamp()
      FROM ok o
     WHERE n.submitter_id = o.submitter_id
       AND (o.take_nonce >= 0 OR o.protect_expect >= 0 OR o.unprotect_expect >= 0)
), gap_recorded AS (
    -- Law L10: records every nonce that the cursor skips or a transaction gives up. No change can
    -- take it again: it is below the cursor (the trigger of the table checks that), and the cursor
    -- never falls.
    INSERT INTO nonce_gap (submitter_id, first_nonce, last_nonce, tx_id, reason, fencing_token)
    SELECT o.submitter_id, o.unprotect_expect, o.unprotect_to - 1, NULL::UUID, o.unprotect_reason,
           o.fencing_token
      FROM ok o WHERE o.unprotect_expect >= 0 AND o.unprotect_to > o.unprotect_expect
     UNION ALL
    SELECT x.submitter_id, x.old_nonce, x.old_nonce, x.tx_id, x.old_reason, x.fencing_token
      FROM tx x
     WHERE x.kind = 'REQUEUED'
       AND ((x.change_no, x.submitter_id, x.fencing_token)
            IN (SELECT o.change_no, o.submitter_id, o.fencing_token FROM ok o)) IS TRUE
), status_set AS (
    UPDATE submitter s
       SET status   = CASE WHEN o.new_status <> '' THEN o.new_status ELSE s.status END,
           timeline = CASE WHEN o.compared THEN (SELECT g.timeline FROM ledger g WHERE g.only_row)
                           ELSE s.timeline END
      FROM ok o WHERE s.submitter_id = o.submitter_id AND (o.new_status <> '' OR o.compared)
), queued_marked AS (
    -- A ledger that lost commits: open transactions may have been executed in the lost part. Such a
    -- change moves no transaction.
    UPDATE managed_tx t
       SET restored = TRUE,
           fencing_token = (SELECT o.fencing_token FROM ok o WHERE o.submitter_id = t.submitter_id)
     WHERE t.submitter_id = ANY(ARRAY(SELECT o.submitter_id FROM ok o
                                       WHERE o.protect_expect >= 0
                                         AND o.protect_reason = 'DATABASE_RESTORED'))
       AND t.nonce IS NULL AND t.terminal_at IS NULL AND NOT t.restored
), open_marked AS (
    UPDATE managed_tx t
       SET restored = TRUE,
           fencing_token = (SELECT o.fencing_token FROM ok o WHERE o.submitter_id = t.submitter_id)
     WHERE t.submitter_id = ANY(ARRAY(SELECT o.submitter_id FROM ok o
                                       WHERE o.protect_expect >= 0
                                         AND o.protect_reason = 'DATABASE_RESTORED'))
       AND t.nonce IS NOT NULL AND t.terminal_at IS NULL AND NOT t.restored
), tx_moved AS (
    UPDATE managed_tx t
       SET state              = w.state,
           sub_state          = w.sub_state,
           version            = w.version + (w.kind <> '')::INT,
           nonce              = NULLIF(w.nonce, -1),
           slot               = w.slot,
           tx_hash            = NULLIF(w.tx_hash, ''),
           receipt_tx_hash    = NULLIF(w.receipt_tx_hash, ''),
           receipt_block      = CASE WHEN w.receipt_tx_hash <> '' THEN w.receipt_block END,
           receipt_block_hash = CASE WHEN w.receipt_tx_hash <> '' THEN w.receipt_block_hash END,
           receipt_success    = CASE WHEN w.receipt_tx_hash <> '' THEN w.receipt_success END,
           receipt_gas_used   = CASE WHEN w.receipt_tx_hash <> '' THEN w.receipt_gas_used END,
           receipt_gas_price  = CASE WHEN w.receipt_tx_hash <> ''
                                     THEN w.receipt_gas_price::NUMERIC END,
           receipt_more       = CASE WHEN w.receipt_tx_hash <> '' THEN w.receipt_more END,
           last_submit_at     = CASE WHEN w.sent THEN clock_timestamp()
                                     ELSE t.last_submit_at END,
           executed           = w.executed,
           restored           = t.restored OR w.terminal AND w.executed = 'UNKNOWN',
           reason             = w.reason,
           last_error         = w.last_error,
           last_error_base    = w.last_error_base,
           submit_attempts    = w.submit_attempts,
           cancel_requested   = w.cancel_requested,
           requeued           = w.requeued,
           accepted_attempt   = w.accepted,
           last_answer        = w.last_answer,
           pooled_attempt     = w.pooled,
           rejected           = w.rejected,
           waiting_since      = CASE WHEN w.waiting
                                     THEN coalesce(t.waiting_since, clock_timestamp()) END,
           diagnosis          = w.diagnosis,
           above              = NULLIF(w.above, ''),
           ended_block        = NULLIF(w.ended_block, 0),
           due_at             = CASE WHEN w.delay_ms > 0
                                     THEN clock_timestamp()
                                          + make_interval(secs => w.delay_ms / 1000.0) END,
           released_at        = CASE WHEN w.released
                                     THEN coalesce(t.released_at, clock_timestamp()) END,
           terminal_at        = CASE WHEN w.terminal
                                     THEN coalesce(t.terminal_at, clock_timestamp()) END,
           fencing_token      = w.fencing_token,
           updated_at         = clock_timestamp()
      FROM write w
     WHERE t.submitter_id = w.submitter_id AND t.tx_id = w.tx_id
       AND (t.submitter_id, t.tx_id) >= (w.submitter_id, w.tx_id) AND w.kind <> 'ALLOCATED'
       AND ((w.change_no, w.submitter_id, w.fencing_token)
            IN (SELECT o.change_no, o.submitter_id, o.fencing_token FROM ok o)) IS TRUE
    RETURNING t.tx_id
), tx_allocated AS (
    -- After all other moves, because counting them enforces that order: the slot that is taken here
    -- may be released by the same change.
    UPDATE managed_tx t
       SET state            = w.state,
           sub_state        = w.sub_state,
           version          = w.version + 1,
           nonce            = w.nonce,
           slot             = w.slot,
           tx_hash          = NULLIF(w.tx_hash, ''),
           executed         = w.executed,
           reason           = w.reason,
           last_error       = w.last_error,
           last_error_base  = w.last_error_base,
           submit_attempts  = w.submit_attempts,
           cancel_requested = w.cancel_requested,
           accepted_attempt = 0,
           last_answer      = '',
           pooled_attempt   = 0,
           rejected         = '',
           waiting_since    = NULL,
           due_at           = CASE WHEN w.delay_ms > 0
                                   THEN clock_timestamp()
                                        + make_interval(secs => w.delay_ms / 1000.0) END,
           fencing_token    = w.fencing_token,
           updated_at       = clock_timestamp()
      FROM write w
     WHERE t.submitter_id = w.submitter_id AND t.tx_id = w.tx_id
       AND (t.submitter_id, t.tx_id) >= (w.submitter_id, w.tx_id) AND w.kind = 'ALLOCATED'
       AND ((w.change_no, w.submitter_id, w.fencing_token)
            IN (SELECT o.change_no, o.submitter_id, o.fencing_token FROM ok o)) IS TRUE
       AND (SELECT count(*) FROM tx_moved) >= 0
), attempt_recorded AS (
    INSERT INTO tx_attempt (submitter_id, tx_id, attempt_no, kind, nonce, tx_hash, raw_tx,
                            gas_limit, fee_cap, tip, legacy, fencing_token)
    SELECT a.submitter_id, a.tx_id, a.attempt_no, a.kind, a.nonce, a.tx_hash, a.raw_tx,
           a.gas_limit, a.fee_cap::NUMERIC, a.tip::NUMERIC, a.legacy, a.fencing_token
      FROM attempt a
     WHERE ((a.change_no, a.submitter_id, a.fencing_token)
            IN (SELECT o.change_no, o.submitter_id, o.fencing_token FROM ok o)) IS TRUE
), event_recorded AS (
    INSERT INTO tx_event (submitter_id, tx_id, seq, kind, state, sub_state, executed, tx_hash,
                          receipt_tx_hash, receipt_block, receipt_block_hash, receipt_success,
                          receipt_gas_used, receipt_gas_price, receipt_more, reason, message,
                          new_fork, above, fencing_token)
    SELECT w.submitter_id, w.tx_id, w.version + 1, w.kind, w.state, w.sub_state, w.executed,
           NULLIF(w.tx_hash, ''), NULLIF(w.receipt_tx_hash, ''),
           CASE WHEN w.receipt_tx_hash <> '' THEN w.receipt_block END,
           CASE WHEN w.receipt_tx_hash <> '' THEN w.receipt_block_hash END,
           CASE WHEN w.receipt_tx_hash <> '' THEN w.receipt_success END,
           CASE WHEN w.receipt_tx_hash <> '' THEN w.receipt_gas_used END,
           CASE WHEN w.receipt_tx_hash <> '' THEN w.receipt_gas_price::NUMERIC END,
           CASE WHEN w.receipt_tx_hash <> '' THEN w.receipt_more END,
           w.reason, w.last_error, w.new_fork, NULLIF(w.event_above, ''), w.fencing_token
      FROM write w
     WHERE w.kind <> ''
       AND ((w.change_no, w.submitter_id, w.fencing_token)
            IN (SELECT o.change_no, o.submitter_id, o.fencing_token FROM ok o)) IS TRUE
), command_applied AS (
    UPDATE submitter_command k
       SET applied_at = clock_timestamp(), result = e.result, fencing_token = e.fencing_token,
           -- the number of the protection that the command began
           expect = CASE WHEN k.kind = 'PROTECT' AND e.result = 'APPLIED'
                         THEN coalesce((SELECT n.protections + 1 FROM nonce_cursor n
                                         WHERE n.change_no = e.change_no), k.expect)
                         ELSE k.expect END
      FROM applied e
     WHERE k.submitter_id = e.submitter_id AND k.command_id = e.command_id AND k.applied_at IS NULL
       AND ((e.change_no, e.submitter_id, e.fencing_token)
            IN (SELECT o.change_no, o.submitter_id, o.fencing_token FROM ok o)) IS TRUE
), automatic_command_recorded AS (
    -- A decision of the owner about a submitter is recorded together with the decisions of
    -- operators. After a protection ends, only this record has its evidence.
    INSERT INTO submitter_command (submitter_id, kind, action, expect, reason, operator, applied_at,
                                   result, fencing_token, chain_nonce)
    SELECT o.submitter_id, 'PAUSE', 'ON_FAILURE', 0, left(o.status_reason, 4096), 'fencepost',
           clock_timestamp(), 'APPLIED', o.fencing_token, NULL::BIGINT
      FROM ok o WHERE o.status_reason <> ''
     UNION ALL
    SELECT o.submitter_id, 'PROTECT', o.protect_reason,
           coalesce((SELECT n.protections + 1 FROM nonce_cursor n
                      WHERE n.change_no = o.change_no), 1),
           left(o.protect_evidence, 4096), 'fencepost',
           clock_timestamp(), 'APPLIED', o.fencing_token, nullif(o.protect_chain_nonce, -1)
      FROM ok o WHERE o.protect_expect >= 0 AND NOT o.protect_asked
     UNION ALL
    SELECT o.submitter_id, 'EXIT_PROTECT', 'BY_ITSELF', o.unprotect_id,
           left(o.unprotect_reason, 4096), 'fencepost',
           clock_timestamp(), 'APPLIED', o.fencing_token, NULL::BIGINT
      FROM ok o WHERE o.unprotect_expect >= 0 AND NOT o.unprotect_asked
)
SELECT c.change_no::INT AS change_no,
       (CASE WHEN c.change_no IN (SELECT o.change_no FROM ok o) THEN 'DONE'
             WHEN c.change_no IN (SELECT l.change_no FROM lease l) THEN 'CONFLICT'
             ELSE 'FENCED' END)::TEXT AS outcome
  FROM change c;
