-- What callers read. Nothing here decides anything.

-- name: TxByID :one
SELECT sqlc.embed(t), s.name AS submitter_name
  FROM managed_tx t JOIN submitter s ON s.submitter_id = t.submitter_id
 WHERE t.submitter_id = @submitter_id AND t.tx_id = @tx_id;

-- name: TxsByRequest :many
SELECT sqlc.embed(t), s.name AS submitter_name
  FROM (SELECT unnest(@submitter_ids::INT[]) AS submitter_id, unnest(@request_ids::TEXT[]) AS request_id) k
  JOIN managed_tx t ON t.submitter_id = k.submitter_id AND t.request_id = k.request_id
  JOIN submitter s ON s.submitter_id = t.submitter_id;

-- ListTxs is newest first: ids begin with their time. Each submitter is read along its own key, so a page costs no scan.
-- name: ListTxs :many
SELECT sqlc.embed(t), s.name AS submitter_name
  FROM submitter s
 CROSS JOIN LATERAL (
       SELECT q.tx_id FROM managed_tx q
        WHERE q.submitter_id = s.submitter_id AND q.tx_id < @before::UUID
          AND (cardinality(@states::TEXT[]) = 0 OR q.state = ANY(@states::TEXT[]))
        ORDER BY q.tx_id DESC
        LIMIT @max_rows::INT) page
  JOIN managed_tx t ON t.submitter_id = s.submitter_id AND t.tx_id = page.tx_id
 WHERE @submitter_id::INT = 0 OR s.submitter_id = @submitter_id::INT
 ORDER BY t.tx_id DESC
 LIMIT @max_rows::INT;

-- name: AttemptsOf :many
SELECT a.attempt_no, a.kind, a.nonce, a.tx_hash, a.gas_limit, a.fee_cap, a.tip, a.legacy, a.created_at
  FROM tx_attempt a WHERE a.submitter_id = @submitter_id AND a.tx_id = @tx_id ORDER BY a.attempt_no;

-- Gate tells why new transactions of these submitters are refused, if they are.
-- name: Gate :many
SELECT s.submitter_id, s.status, coalesce(n.protect_reason, '')::TEXT AS protect_reason
  FROM submitter s LEFT JOIN submitter_nonce_cursor n ON n.submitter_id = s.submitter_id
 WHERE s.submitter_id = ANY(@submitter_ids::INT[]);
