-- The reads of callers. Nothing here decides anything. The kind of the attempt of a receipt
-- (receipt_kind) is looked up by its hash, if there is a receipt: for a row without one the planner
-- may read the whole table of attempts while that is small. Keys are compared once more as a whole:
-- see Commit.

-- name: TxByID :one
SELECT sqlc.embed(t), s.name AS submitter_name, coalesce(s.moved_to, '')::TEXT AS moved_to,
       (CASE WHEN t.receipt_tx_hash IS NULL THEN '' ELSE
            coalesce((SELECT a.kind FROM tx_attempt a
                       WHERE a.submitter_id = t.submitter_id AND a.tx_hash = t.receipt_tx_hash
                         AND (a.tx_hash, a.submitter_id) >= (t.receipt_tx_hash, t.submitter_id)),
                     '') END)::TEXT AS receipt_kind
  FROM managed_tx t JOIN submitter s ON s.submitter_id = t.submitter_id
 WHERE t.submitter_id = @submitter_id AND t.tx_id = @tx_id
   AND (t.submitter_id, t.tx_id) >= (@submitter_id, @tx_id);

-- name: TxIDByHash :one
SELECT a.submitter_id, a.tx_id FROM tx_attempt a
 WHERE a.tx_hash = @tx_hash
 ORDER BY a.tx_hash, a.submitter_id
 LIMIT 1;

-- name: TxsByRequest :many
SELECT sqlc.embed(t), s.name AS submitter_name, coalesce(s.moved_to, '')::TEXT AS moved_to,
       (CASE WHEN t.receipt_tx_hash IS NULL THEN '' ELSE
            coalesce((SELECT a.kind FROM tx_attempt a
                       WHERE a.submitter_id = t.submitter_id AND a.tx_hash = t.receipt_tx_hash
                         AND (a.tx_hash, a.submitter_id) >= (t.receipt_tx_hash, t.submitter_id)),
                     '') END)::TEXT AS receipt_kind
  FROM (SELECT unnest(@submitter_ids::INT[]) AS submitter_id,
               unnest(@request_ids::TEXT[]) AS request_id) k
  JOIN managed_tx t ON t.submitter_id = k.submitter_id AND t.request_id = k.request_id
  JOIN submitter s ON s.submitter_id = t.submitter_id;

-- ListTxs lists newest first: ids begin with their time. Each submitter is read along its own key,
-- so a page costs no scan. A page ends early with the second row past @max_bytes of call data: the
-- caller counts the bytes, ends its page with the first of the two, and knows from the second that
-- there is another page. Only the length of call data is read for rows of other pages. A row of the
-- page is joined by its place (ctid, cast because sqlc does not know the column), which stays the
-- same while the statement sees the row: by its key each would cost a walk down the index.
-- name: ListTxs :many
WITH page AS MATERIALIZED (
    SELECT s.name AS submitter_name, q.submitter_id, q.tx_id, q.at, q.bytes
      FROM submitter s
     CROSS JOIN LATERAL (
           SELECT q.submitter_id, q.tx_id, CAST(q.ctid AS TID) AS at, octet_length(q.data) AS bytes
             FROM managed_tx q
            WHERE q.submitter_id = s.submitter_id
              AND q.tx_id < @before::UUID AND q.tx_id >= @lowest::UUID
              AND q.created_at >= @created_from::TIMESTAMPTZ
              AND q.created_at < @created_before::TIMESTAMPTZ
              AND (cardinality(@states::TEXT[]) = 0 OR q.state = ANY(@states::TEXT[]))
            ORDER BY q.tx_id DESC
            LIMIT @max_rows::INT) q
     WHERE (@submitter_id::INT = 0 OR s.submitter_id = @submitter_id::INT)
       AND s.moved_to IS NULL
       AND (@any_name::BOOLEAN OR s.name = ANY(@names::TEXT[]))
     ORDER BY q.tx_id DESC
     LIMIT @max_rows::INT
), measured AS (
    SELECT p.*,
           sum(p.bytes) OVER (ORDER BY p.tx_id DESC
                               ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING) AS bytes_before
      FROM page p
)
SELECT sqlc.embed(t), m.submitter_name, ''::TEXT AS moved_to,
       (CASE WHEN t.receipt_tx_hash IS NULL THEN '' ELSE
            coalesce((SELECT a.kind FROM tx_attempt a
                       WHERE a.submitter_id = t.submitter_id AND a.tx_hash = t.receipt_tx_hash
                         AND (a.tx_hash, a.submitter_id) >= (t.receipt_tx_hash, t.submitter_id)),
                     '') END)::TEXT AS receipt_kind
  FROM measured m
  JOIN managed_tx t ON t.submitter_id = m.submitter_id AND t.tx_id = m.tx_id AND t.ctid = m.at
 WHERE coalesce(m.bytes_before, 0) < @max_bytes::BIGINT
 ORDER BY t.tx_id DESC;

-- ListOpenTxs is ListTxs for transactions that are not final. It lists in the order of acceptance,
-- along the indexes of queued and of open transactions, which hold no final ones. A submitter has
-- few open transactions with a nonce, and only QUEUED has none.
-- name: ListOpenTxs :many
WITH page AS MATERIALIZED (
    SELECT s.name AS submitter_name, q.submitter_id, q.tx_id, q.queue_seq, q.at, q.bytes
      FROM submitter s
     CROSS JOIN LATERAL (
           (SELECT q.submitter_id, q.tx_id, q.queue_seq, CAST(q.ctid AS TID) AS at,
                   octet_length(q.data) AS bytes
              FROM managed_tx q
             WHERE q.submitter_id = s.submitter_id AND q.nonce IS NULL AND q.terminal_at IS NULL
               AND 'QUEUED' = ANY(@states::TEXT[]) AND q.queue_seq < @before::BIGINT
               AND q.created_at >= @created_from::TIMESTAMPTZ
               AND q.created_at < @created_before::TIMESTAMPTZ
             ORDER BY q.queue_seq DESC
             LIMIT @max_rows::INT)
           UNION ALL
           (SELECT o.submitter_id, o.tx_id, o.queue_seq, CAST(o.ctid AS TID) AS at,
                   octet_length(o.data) AS bytes
              FROM managed_tx o
             WHERE o.submitter_id = s.submitter_id AND o.nonce IS NOT NULL AND o.terminal_at IS NULL
               AND o.state = ANY(@states::TEXT[]) AND o.queue_seq < @before::BIGINT
               AND o.created_at >= @created_from::TIMESTAMPTZ
               AND o.created_at < @created_before::TIMESTAMPTZ)
           ) q
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
SELECT sqlc.embed(t), m.submitter_name, ''::TEXT AS moved_to,
       (CASE WHEN t.receipt_tx_hash IS NULL THEN '' ELSE
            coalesce((SELECT a.kind FROM tx_attempt a
                       WHERE a.submitter_id = t.submitter_id AND a.tx_hash = t.receipt_tx_hash
                         AND (a.tx_hash, a.submitter_id) >= (t.receipt_tx_hash, t.submitter_id)),
                     '') END)::TEXT AS receipt_kind
  FROM measured m
  JOIN managed_tx t ON t.submitter_id = m.submitter_id AND t.tx_id = m.tx_id AND t.ctid = m.at
 WHERE coalesce(m.bytes_before, 0) < @max_bytes::BIGINT
 ORDER BY t.queue_seq DESC;

-- QueueSeq returns the position of a transaction in the order of acceptance.
-- name: QueueSeq :one
SELECT t.queue_seq
  FROM managed_tx t
 WHERE t.submitter_id = @submitter_id AND t.tx_id = @tx_id
   AND (t.submitter_id, t.tx_id) >= (@submitter_id, @tx_id);

-- ListTxsByLabel is ListTxs along the key of one label. It leaves out transactions without the
-- other labels of the set.
-- name: ListTxsByLabel :many
WITH page AS MATERIALIZED (
    SELECT s.name AS submitter_name, q.submitter_id, q.tx_id, q.at, q.bytes
      FROM submitter s
     CROSS JOIN LATERAL (
           SELECT q.submitter_id, q.tx_id, CAST(q.ctid AS TID) AS at, octet_length(q.data) AS bytes
             FROM tx_label l
             JOIN managed_tx q ON q.submitter_id = l.submitter_id AND q.tx_id = l.tx_id
            WHERE l.submitter_id = s.submitter_id AND l.key = @key::TEXT AND l.value = @value::TEXT
              AND l.tx_id < @before::UUID AND l.tx_id >= @lowest::UUID
              AND q.labels @> CAST(@label_set::TEXT AS JSONB)
              AND q.created_at >= @created_from::TIMESTAMPTZ
              AND q.created_at < @created_before::TIMESTAMPTZ
              AND (cardinality(@states::TEXT[]) = 0 OR q.state = ANY(@states::TEXT[]))
            ORDER BY l.tx_id DESC
            LIMIT @max_rows::INT) q
     WHERE (@submitter_id::INT = 0 OR s.submitter_id = @submitter_id::INT)
       AND s.moved_to IS NULL
       AND (@any_name::BOOLEAN OR s.name = ANY(@names::TEXT[]))
     ORDER BY q.tx_id DESC
     LIMIT @max_rows::INT
), measured AS (
    SELECT p.*,
           sum(p.bytes) OVER (ORDER BY p.tx_id DESC
                               ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING) AS bytes_before
      FROM page p
)
SELECT sqlc.embed(t), m.submitter_name, ''::TEXT AS moved_to,
       (CASE WHEN t.receipt_tx_hash IS NULL THEN '' ELSE
            coalesce((SELECT a.kind FROM tx_attempt a
                       WHERE a.submitter_id = t.submitter_id AND a.tx_hash = t.receipt_tx_hash
                         AND (a.tx_hash, a.submitter_id) >= (t.receipt_tx_hash, t.submitter_id)),
                     '') END)::TEXT AS receipt_kind
  FROM measured m
  JOIN managed_tx t ON t.submitter_id = m.submitter_id AND t.tx_id = m.tx_id AND t.ctid = m.at
 WHERE coalesce(m.bytes_before, 0) < @max_bytes::BIGINT
 ORDER BY t.tx_id DESC;

-- ListTxsByID is ListTxs for the given transactions. Each is looked up separately: the planner may
-- turn a join into a walk along all transactions when it takes the ledger for empty. The same is
-- true of TxVersions.
-- name: ListTxsByID :many
WITH page AS MATERIALIZED (
    SELECT q.submitter_id, q.tx_id, q.at, q.bytes
      FROM (SELECT unnest(@submitter_ids::INT[]) AS submitter_id,
                   unnest(@tx_ids::UUID[]) AS tx_id) k
     CROSS JOIN LATERAL (
           SELECT n.submitter_id, n.tx_id, CAST(n.ctid AS TID) AS at, octet_length(n.data) AS bytes
             FROM managed_tx n
            WHERE n.submitter_id = k.submitter_id AND n.tx_id = k.tx_id
              AND (n.submitter_id, n.tx_id) >= (k.submitter_id, k.tx_id)
              AND (cardinality(@states::TEXT[]) = 0 OR n.state = ANY(@states::TEXT[]))
           OFFSET 0) q
     WHERE k.tx_id < @before::UUID
     ORDER BY q.tx_id DESC
     LIMIT @max_rows::INT
), measured AS (
    SELECT p.*,
           sum(p.bytes) OVER (ORDER BY p.tx_id DESC
                               ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING) AS bytes_before
      FROM page p
)
SELECT sqlc.embed(t), s.name AS submitter_name, coalesce(s.moved_to, '')::TEXT AS moved_to,
       (CASE WHEN t.receipt_tx_hash IS NULL THEN '' ELSE
            coalesce((SELECT a.kind FROM tx_attempt a
                       WHERE a.submitter_id = t.submitter_id AND a.tx_hash = t.receipt_tx_hash
                         AND (a.tx_hash, a.submitter_id) >= (t.receipt_tx_hash, t.submitter_id)),
                     '') END)::TEXT AS receipt_kind
  FROM measured m
  JOIN managed_tx t ON t.submitter_id = m.submitter_id AND t.tx_id = m.tx_id AND t.ctid = m.at
  JOIN submitter s ON s.submitter_id = m.submitter_id
 WHERE coalesce(m.bytes_before, 0) < @max_bytes::BIGINT
 ORDER BY t.tx_id DESC;

-- TxVersions returns the version and state of the given transactions.
-- name: TxVersions :many
SELECT t.tx_id, t.version, t.state
  FROM (SELECT unnest(@submitter_ids::INT[]) AS submitter_id, unnest(@tx_ids::UUID[]) AS tx_id) k
 CROSS JOIN LATERAL (
       SELECT n.tx_id, n.version, n.state FROM managed_tx n
        WHERE n.submitter_id = k.submitter_id AND n.tx_id = k.tx_id
          AND (n.submitter_id, n.tx_id) >= (k.submitter_id, k.tx_id)
       OFFSET 0) t;

-- name: AttemptsOf :many
SELECT a.attempt_no, a.kind, a.nonce, a.tx_hash, a.gas_limit, a.fee_cap, a.tip, a.legacy,
       a.created_at
  FROM tx_attempt a
 WHERE a.submitter_id = @submitter_id AND a.tx_id = @tx_id
 ORDER BY a.attempt_no;

-- AcceptanceOf returns whether these submitters accept new transactions: their status and mode, and
-- the reason of a protection.
-- name: AcceptanceOf :many
SELECT s.submitter_id, s.name, s.status, s.mode, coalesce(s.moved_to, '')::TEXT AS moved_to,
       coalesce(n.protect_reason, '')::TEXT AS protect_reason,
       clock_timestamp()::TIMESTAMPTZ AS read_at
  FROM submitter s LEFT JOIN submitter_nonce_cursor n ON n.submitter_id = s.submitter_id
 WHERE s.submitter_id = ANY(@submitter_ids::INT[]);

-- Blocking returns the transaction with the lowest nonce in flight that is in no block: all higher
-- nonces, and the queue, wait for it.
-- name: Blocking :one
SELECT t.* FROM managed_tx t
 WHERE t.submitter_id = @submitter_id AND t.nonce IS NOT NULL AND t.terminal_at IS NULL
   AND t.sub_state <> 'INCLUDED'
 ORDER BY t.nonce
 LIMIT 1;

-- name: QueueHead :one
SELECT t.* FROM managed_tx t
 WHERE t.submitter_id = @submitter_id AND t.nonce IS NULL AND t.terminal_at IS NULL
   AND t.approval <> 'WAITING'
 ORDER BY t.queue_seq
 LIMIT 1;

-- Gaps leaves out the nonces that their transaction has again.
-- name: Gaps :many
SELECT g.first_nonce, g.last_nonce, g.tx_id, g.reason, g.created_at
  FROM nonce_gap g
 WHERE g.submitter_id = @submitter_id
   AND NOT EXISTS (SELECT FROM managed_tx t
                    WHERE t.submitter_id = g.submitter_id AND t.tx_id = g.tx_id
                      AND t.nonce = g.first_nonce)
 ORDER BY g.first_nonce
 LIMIT @max_rows::INT;

-- QueueCounts counts over the given submitters, for metrics. But it counts the protected ones, and
-- the nonces of clients that need an operator, of the whole ledger: submitters without an owner
-- wait for a decision too, and no other node reports them. That reads all cursors, one row per
-- account. Queued transactions are counted in their index. Their oldest, and whether they are
-- unfunded, come from the heads of the queues.
-- name: QueueCounts :one
SELECT coalesce(sum(q.queued), 0)::BIGINT                               AS queued,
       coalesce(sum(f.in_flight), 0)::BIGINT                            AS in_flight,
       coalesce(sum(f.stuck), 0)::BIGINT                                AS stuck,
       (SELECT count(*) FROM submitter_nonce_cursor n
         WHERE n.protect_reason IS NOT NULL)::BIGINT                    AS protected,
       (SELECT count(*) FROM external_nonce x
         WHERE x.state <> 'ACCEPTED' AND x.needs_operator)::BIGINT      AS undecided_nonces,
       count(*) FILTER (WHERE s.status = 'PAUSED')::BIGINT              AS paused,
       count(*) FILTER (WHERE q.unfunded OR f.unfunded)::BIGINT         AS unfunded,
       count(*) FILTER (WHERE l.expires_at > clock_timestamp())::BIGINT AS owned,
       coalesce(greatest(0, extract(EPOCH FROM clock_timestamp() - min(q.oldest)) * 1000),
                0)::BIGINT                                              AS oldest_ms
  FROM submitter s
  JOIN submitter_lease l ON l.submitter_id = s.submitter_id
 CROSS JOIN LATERAL (
       SELECT (SELECT count(*) FROM managed_tx t
                WHERE t.submitter_id = s.submitter_id AND t.nonce IS NULL
                  AND t.terminal_at IS NULL) AS queued,
              min(h.created_at) AS oldest, bool_or(h.sub_state = 'UNFUNDED') AS unfunded
         FROM (SELECT t.created_at, t.sub_state FROM managed_tx t
                WHERE t.submitter_id = s.submitter_id AND t.nonce IS NULL AND t.terminal_at IS NULL
                  AND t.approval <> 'WAITING'
                ORDER BY t.queue_seq LIMIT 8) h) q
 CROSS JOIN LATERAL (
       SELECT count(*) AS in_flight, count(*) FILTER (WHERE t.state = 'STUCK') AS stuck,
              bool_or(t.sub_state = 'UNFUNDED') AS unfunded
         FROM managed_tx t
        WHERE t.submitter_id = s.submitter_id AND t.nonce IS NOT NULL
          AND t.terminal_at IS NULL) f
 WHERE s.submitter_id = ANY(@submitter_ids::INT[]);

-- QueueDepths counts the queued transactions of each submitter, up to @most.
-- name: QueueDepths :many
SELECT w.submitter_id::INT AS submitter_id,
       (SELECT count(*)
          FROM (SELECT 1 FROM managed_tx q
                 WHERE q.submitter_id = w.submitter_id AND q.nonce IS NULL AND q.terminal_at IS NULL
                 LIMIT @most::BIGINT) d)::BIGINT AS depth
  FROM (SELECT unnest(@submitter_ids::INT[]) AS submitter_id) w;

-- LedgerDepth counts the queued transactions of the ledger, up to @most, without those of accounts
-- that have left it.
-- name: LedgerDepth :one
SELECT count(*)
  FROM (SELECT 1 FROM managed_tx q
         WHERE q.nonce IS NULL AND q.terminal_at IS NULL
           AND q.submitter_id NOT IN (SELECT s.submitter_id FROM submitter s
                                       WHERE s.moved_to IS NOT NULL)
         LIMIT @most::BIGINT) d;
