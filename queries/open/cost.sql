-- The costs of transactions, and the funds that they need.

-- Costs adds up the gas that final transactions have paid, on each chain, by account, caller, value
-- of a label, or day (UTC) of the final state. A replacement or cancel transaction counts for its
-- transaction: the receipt is of the attempt that was included. The fee of a rollup is in
-- receipt_more: see receiptMore in package store.
-- name: Costs :many
SELECT c.chain_id, c.key::TEXT AS key, count(*)::BIGINT AS transactions,
       count(*) FILTER (WHERE c.reverted)::BIGINT AS reverted,
       sum(c.gas_used)::TEXT AS gas_used, sum(c.gas_used * c.gas_price)::TEXT AS gas_paid,
       sum(CASE WHEN octet_length(c.fee) = 16 THEN
                ('x' || encode(substring(c.fee FROM 1 FOR 4), 'hex'))::BIT(32)::BIGINT::NUMERIC
                * 79228162514264337593543950336
                + ('x' || encode(substring(c.fee FROM 5 FOR 4), 'hex'))::BIT(32)::BIGINT::NUMERIC
                * 18446744073709551616
                + ('x' || encode(substring(c.fee FROM 9 FOR 4), 'hex'))::BIT(32)::BIGINT::NUMERIC
                * 4294967296
                + ('x' || encode(substring(c.fee FROM 13 FOR 4), 'hex'))::BIT(32)::BIGINT::NUMERIC
                ELSE 0 END)::TEXT AS l1_fee
  FROM (SELECT s.chain_id,
               CASE @by::TEXT
                   WHEN 'ACCOUNT' THEN s.name
                   WHEN 'CALLER' THEN t.caller
                   WHEN 'LABEL' THEN coalesce(t.labels ->> @label_key::TEXT, '')
                   ELSE to_char(t.terminal_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') END AS key,
               NOT t.receipt_success AS reverted, t.receipt_gas_used::NUMERIC AS gas_used,
               t.receipt_gas_price AS gas_price,
               CASE WHEN substring(t.receipt_more FROM 1 FOR 8)
                         = substring(t.receipt_block_hash FROM 1 FOR 8)
                    THEN substring(t.receipt_more FROM 61 FOR 16) END AS fee
          FROM managed_tx t JOIN submitter s ON s.submitter_id = t.submitter_id
         WHERE s.moved_to IS NULL -- the ledger that has the account counts them
           AND t.state IN ('CONFIRMED', 'FAILED_FINAL', 'CANCELLED')
           AND t.receipt_gas_used IS NOT NULL
           AND t.terminal_at >= @from_time::TIMESTAMPTZ AND t.terminal_at < @before::TIMESTAMPTZ
           AND (@any_name::BOOLEAN OR s.name = ANY(@names::TEXT[]))) c
 GROUP BY c.chain_id, c.key
 ORDER BY c.chain_id, c.key
 LIMIT @max_rows::INT;

-- Commitments returns the highest cost of transactions in flight (of their newest attempts), the
-- number and value of queued ones, and the spending of the newest @most final ones of the last day.
-- Queued ones are counted up to @most too, without those that await approval. In flight count those
-- from the nonce of @from_nonces on, which the account has at the block of its balance; for -1,
-- those that are in no block by the ledger.
-- name: Commitments :many
SELECT s.submitter_id,
       coalesce((SELECT sum(t.value + a.gas_limit::NUMERIC * a.fee_cap)
                   FROM managed_tx t
                  CROSS JOIN LATERAL (
                        SELECT n.gas_limit, n.fee_cap FROM tx_attempt n
                         WHERE n.submitter_id = t.submitter_id AND n.tx_id = t.tx_id
                         ORDER BY n.attempt_no DESC
                         LIMIT 1) a
                  WHERE t.submitter_id = s.submitter_id AND t.nonce IS NOT NULL
                    AND t.terminal_at IS NULL
                    AND CASE WHEN i.from_nonce < 0 THEN t.sub_state <> 'INCLUDED'
                             ELSE t.nonce >= i.from_nonce END), 0)::TEXT AS in_flight,
       q.queued, q.value::TEXT AS queued_value, r.spent::TEXT AS spent,
       r.gas_paid::TEXT AS gas_paid, r.transactions, r.seconds
  FROM (SELECT unnest(@submitter_ids::INT[]) AS submitter_id,
               unnest(@from_nonces::BIGINT[]) AS from_nonce) i
  JOIN submitter s ON s.submitter_id = i.submitter_id
 CROSS JOIN LATERAL (
       SELECT count(*)::BIGINT AS queued, coalesce(sum(h.value), 0) AS value
         FROM (SELECT t.value FROM managed_tx t
                WHERE t.submitter_id = s.submitter_id AND t.nonce IS NULL AND t.terminal_at IS NULL
                  AND t.approval <> 'WAITING'
                ORDER BY t.queue_seq
                LIMIT @most::INT) h) q
 CROSS JOIN LATERAL (
       SELECT coalesce(sum(n.receipt_gas_used::NUMERIC * n.receipt_gas_price
                           + CASE WHEN n.executed = 'SUCCESS' THEN n.value ELSE 0 END),
                       0) AS spent,
              coalesce(sum(n.receipt_gas_used::NUMERIC * n.receipt_gas_price), 0) AS gas_paid,
              count(*)::BIGINT AS transactions,
              coalesce(extract(EPOCH FROM clock_timestamp() - min(n.created_at)), 0)::FLOAT8
                  AS seconds
         FROM (SELECT t.receipt_gas_used, t.receipt_gas_price, t.executed, t.value, t.created_at,
                      t.terminal_at
                 FROM managed_tx t
                WHERE t.submitter_id = s.submitter_id AND t.nonce IS NOT NULL
                  AND t.terminal_at IS NOT NULL
                ORDER BY t.nonce DESC
                LIMIT @most::INT) n
        WHERE n.receipt_gas_used IS NOT NULL
          AND n.terminal_at > clock_timestamp() - INTERVAL '1 day') r;
