-- Quotas of callers; InsertTxs counts them.

-- OpenUsage makes the rows that quotas of these callers are counted in.
-- name: OpenUsage :exec
INSERT INTO caller_usage (caller, chain_id)
SELECT i.caller, i.chain_id
  FROM (SELECT unnest(@callers::TEXT[]) AS caller, unnest(@chain_ids::BIGINT[]) AS chain_id) i
 ORDER BY i.caller, i.chain_id
ON CONFLICT DO NOTHING;

-- Usage returns the use of the quotas of a caller on the chain of a submitter: value and gas of
-- today, when that ends, and the level of creates of some time ago.
-- name: Usage :one
SELECT CASE WHEN u.day >= (clock_timestamp() AT TIME ZONE 'UTC')::DATE
            THEN u.value ELSE 0 END::TEXT AS value,
       CASE WHEN u.day >= (clock_timestamp() AT TIME ZONE 'UTC')::DATE
            THEN u.gas ELSE 0 END::TEXT AS gas,
       ((greatest(u.day, (clock_timestamp() AT TIME ZONE 'UTC')::DATE) + 1)::TIMESTAMP
           AT TIME ZONE 'UTC')::TIMESTAMPTZ AS day_ends,
       u.creates::FLOAT8 AS creates,
       greatest(0, extract(epoch FROM clock_timestamp() - u.creates_at))::FLOAT8 AS age_seconds
  FROM caller_usage u
  JOIN submitter s ON s.chain_id = u.chain_id
 WHERE s.submitter_id = @submitter_id AND u.caller = @caller;
