-- EndedReservation returns a reservation that was given a nonce, by its requests: by now another
-- one may hold that nonce. end_kind is of the request that made the nonce RECYCLABLE; empty: none.
-- hashes are all that were reported, also those that came too late.
-- name: EndedReservation :one
SELECT coalesce(q.nonce, -1)::BIGINT AS nonce, q.holder, q.caller, s.name, s.chain_id, s.address,
       coalesce(q.applied_at, q.created_at)::TIMESTAMPTZ AS reserved_at,
       coalesce(e.kind, '')::TEXT AS end_kind, coalesce(e.reason, '')::TEXT AS end_reason,
       coalesce(e.operator, '')::TEXT AS end_operator,
       coalesce(e.applied_at, q.applied_at, q.created_at)::TIMESTAMPTZ AS ended_at,
       (SELECT array_agg(h.tx_hash ORDER BY h.request_no)
          FROM (SELECT r.tx_hash, min(r.request_no) AS request_no FROM nonce_request r
                 WHERE r.submitter_id = q.submitter_id AND r.reservation_id = q.reservation_id
                   AND r.kind = 'HASH'
                 GROUP BY r.tx_hash) h)::BYTEA[] AS hashes
  FROM nonce_request q
  JOIN submitter s ON s.submitter_id = q.submitter_id
  LEFT JOIN LATERAL (
       SELECT r.kind, r.reason, r.operator, r.applied_at FROM nonce_request r
        WHERE r.submitter_id = q.submitter_id AND r.reservation_id = q.reservation_id
          AND (r.kind = 'RELEASE' OR r.kind = 'RESOLVE' AND r.action = 'NEVER_SIGNED')
          AND r.result = 'APPLIED'
        ORDER BY r.request_no
        LIMIT 1) e ON TRUE
 WHERE q.submitter_id = @submitter_id AND q.reservation_id = @reservation_id
   AND q.kind = 'ALLOCATE' AND q.nonce IS NOT NULL;
