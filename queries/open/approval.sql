-- Approvals: see docs/policies.md. Like the cancel of a queued transaction, these statements need
-- no lease: the transaction never had a nonce, and its owner does not read it while it waits.

-- DecideApproval approves or denies a transaction that awaits an approval, and records the
-- decision. It finds nothing if the transaction was decided, cancelled or has expired, or if the
-- caller created it. The row is locked before the update, as in CancelQueued.
-- name: DecideApproval :one
WITH waiting AS MATERIALIZED (
    SELECT t.submitter_id, t.tx_id,
           t.restored OR commits_may_be_lost(t.submitter_id) AS restored
      FROM managed_tx t
     WHERE t.submitter_id = @submitter_id AND t.tx_id = @tx_id AND t.state = 'QUEUED'
       AND t.approval = 'WAITING' AND t.caller <> @caller::TEXT AND @caller::TEXT <> ''
       AND EXISTS (SELECT FROM tx_approval a
                    WHERE a.submitter_id = @submitter_id AND a.tx_id = @tx_id
                      AND a.expires_at > clock_timestamp())
       FOR NO KEY UPDATE
), decided AS (
    UPDATE managed_tx t
       SET state        = CASE WHEN @approved::BOOLEAN THEN t.state ELSE 'FAILED_FINAL' END,
           sub_state    = '',
           version      = t.version + 1,
           approval     = CASE WHEN @approved::BOOLEAN THEN 'APPROVED' ELSE t.approval END,
           approved_by  = CASE WHEN @approved::BOOLEAN THEN @caller::TEXT ELSE '' END,
           approval_mac = CASE WHEN @approved::BOOLEAN THEN NULLIF(@mac::BYTEA, '') END,
           restored     = CASE WHEN @approved::BOOLEAN THEN t.restored ELSE w.restored END,
           executed     = CASE WHEN @approved::BOOLEAN THEN t.executed
                               WHEN w.restored THEN 'UNKNOWN' ELSE 'NO' END,
           reason       = CASE WHEN @approved::BOOLEAN THEN ''
                               WHEN w.restored THEN @restored_reason::TEXT
                               ELSE @denied_reason::TEXT END,
           last_error   = CASE WHEN @approved::BOOLEAN THEN ''
                               WHEN w.restored THEN @restored_error::TEXT
                               ELSE @message::TEXT END,
           terminal_at  = CASE WHEN NOT @approved::BOOLEAN THEN clock_timestamp() END,
           updated_at   = clock_timestamp()
      FROM waiting w
     WHERE t.submitter_id = w.submitter_id AND t.tx_id = w.tx_id
    RETURNING t.submitter_id, t.tx_id, t.version, t.state, t.sub_state, t.executed, t.reason
), event_recorded AS (
    INSERT INTO tx_event (submitter_id, tx_id, seq, kind, state, sub_state, executed, reason,
                          message)
    SELECT d.submitter_id, d.tx_id, d.version,
           CASE WHEN @approved::BOOLEAN THEN 'APPROVED' ELSE 'FAILED' END,
           d.state, d.sub_state, d.executed, d.reason, @message::TEXT
      FROM decided d
), command_recorded AS (
    INSERT INTO submitter_command (submitter_id, kind, tx_id, reason, operator, caller,
                                   applied_at, result)
    SELECT d.submitter_id, CASE WHEN @approved::BOOLEAN THEN 'APPROVE' ELSE 'DENY' END, d.tx_id,
           @why::TEXT, @operator::TEXT, @caller::TEXT, clock_timestamp(), 'APPLIED'
      FROM decided d
), forgotten AS (
    DELETE FROM tx_approval a
     USING decided d
     WHERE a.submitter_id = d.submitter_id AND a.tx_id = d.tx_id
)
SELECT d.version FROM decided d;

-- ExpireApprovals fails the transactions whose approval is due and was not given. A row that
-- another statement decides at the moment is skipped, and left for the next time: this one never
-- waits, so its events have their place in the feed. It returns how many it failed.
-- name: ExpireApprovals :one
WITH due AS MATERIALIZED (
    SELECT a.submitter_id, a.tx_id FROM tx_approval a
      JOIN submitter s ON s.submitter_id = a.submitter_id AND s.moved_to IS NULL
     WHERE a.expires_at <= clock_timestamp()
     ORDER BY a.expires_at
     LIMIT @max_rows::INT
       FOR UPDATE OF a SKIP LOCKED
), waiting AS MATERIALIZED (
    SELECT t.submitter_id, t.tx_id,
           t.restored OR commits_may_be_lost(t.submitter_id) AS restored
      FROM due d
      JOIN managed_tx t ON t.submitter_id = d.submitter_id AND t.tx_id = d.tx_id
     WHERE t.state = 'QUEUED' AND t.approval = 'WAITING'
       FOR NO KEY UPDATE OF t SKIP LOCKED
), failed AS (
    UPDATE managed_tx t
       SET state       = 'FAILED_FINAL',
           sub_state   = '',
           version     = t.version + 1,
           restored    = w.restored,
           executed    = CASE WHEN w.restored THEN 'UNKNOWN' ELSE 'NO' END,
           reason      = CASE WHEN w.restored THEN @restored_reason::TEXT
                              WHEN t.not_after <= clock_timestamp() THEN @late_reason::TEXT
                              ELSE @expired_reason::TEXT END,
           last_error  = CASE WHEN w.restored THEN @restored_error::TEXT
                              ELSE @message::TEXT END,
           terminal_at = clock_timestamp(),
           updated_at  = clock_timestamp()
      FROM waiting w
     WHERE t.submitter_id = w.submitter_id AND t.tx_id = w.tx_id
    RETURNING t.submitter_id, t.tx_id, t.version, t.state, t.executed, t.reason, t.last_error
), event_recorded AS (
    INSERT INTO tx_event (submitter_id, tx_id, seq, kind, state, sub_state, executed, reason,
                          message)
    SELECT f.submitter_id, f.tx_id, f.version, 'FAILED', f.state, '', f.executed, f.reason,
           f.last_error
      FROM failed f
), forgotten AS (
    -- also of those that were cancelled or failed while they waited
    DELETE FROM tx_approval a
     USING due d
     WHERE a.submitter_id = d.submitter_id AND a.tx_id = d.tx_id
       AND ((d.submitter_id, d.tx_id) IN (SELECT f.submitter_id, f.tx_id FROM failed f)
            OR NOT EXISTS (SELECT FROM managed_tx t
                            WHERE t.submitter_id = d.submitter_id AND t.tx_id = d.tx_id
                              AND t.state = 'QUEUED' AND t.approval = 'WAITING'))
)
SELECT count(*) FROM failed f;

-- ListAwaitingTxs is ListOpenTxs for transactions that await an approval.
-- name: ListAwaitingTxs :many
WITH page AS MATERIALIZED (
    SELECT s.name AS submitter_name, q.submitter_id, q.tx_id, q.queue_seq, q.at, q.bytes
      FROM submitter s
     CROSS JOIN LATERAL (
           SELECT q.submitter_id, q.tx_id, q.queue_seq, CAST(q.ctid AS TID) AS at,
                  octet_length(q.data) AS bytes
             FROM tx_approval a
             JOIN managed_tx q ON q.submitter_id = a.submitter_id AND q.tx_id = a.tx_id
            WHERE a.submitter_id = s.submitter_id AND q.state = 'QUEUED'
              AND q.approval = 'WAITING' AND q.queue_seq < @before::BIGINT
              AND q.labels @> CAST(@label_set::TEXT AS JSONB)
              AND q.created_at >= @created_from::TIMESTAMPTZ
              AND q.created_at < @created_before::TIMESTAMPTZ
            ORDER BY q.queue_seq DESC
            LIMIT @max_rows::INT) q
     WHERE (@submitter_id::INT = 0 OR s.submitter_id = @submitter_id::INT)
       AND s.moved_to IS NULL
       AND (@any_name::BOOLEAN OR s.name = ANY(@names::TEXT[]))
     ORDER BY q.queue_seq DESC
     LIMIT @max_rows::INT
), measured AS (
    SELECT p.*,
           sum(p.bytes) OVER (ORDER BY p.queue_seq DESC
                               ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING) AS bytes_before
      FROM page p
)
SELECT sqlc.embed(t), m.submitter_name, ''::TEXT AS moved_to, ''::TEXT AS receipt_kind
  FROM measured m
  JOIN managed_tx t ON t.submitter_id = m.submitter_id AND t.tx_id = m.tx_id AND t.ctid = m.at
 WHERE coalesce(m.bytes_before, 0) < @max_bytes::BIGINT
 ORDER BY t.queue_seq DESC;

-- Awaiting counts the transactions that await an approval, up to @most.
-- name: Awaiting :one
SELECT count(*)
  FROM (SELECT 1 FROM tx_approval a
          JOIN managed_tx t ON t.submitter_id = a.submitter_id AND t.tx_id = a.tx_id
         WHERE t.state = 'QUEUED' AND t.approval = 'WAITING'
         LIMIT @most::BIGINT) w;
