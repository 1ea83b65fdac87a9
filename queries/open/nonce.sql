-- Reserved nonces of submitters in mode EXTERNAL: requests of clients, and reads.

-- InsertNonceRequests asks something of the owners of these submitters. An ALLOCATE whose key
-- exists is not inserted; one that was refused, or was never applied, is asked again, because its
-- caller is waiting now. Requests to a submitter in another mode are not inserted; the lock keeps
-- the mode until the request is seen (see the trigger mode_needs_rest).
-- name: InsertNonceRequests :many
WITH request AS MATERIALIZED (
    SELECT unnest(@submitter_ids::INT[])     AS submitter_id,
           unnest(@kinds::TEXT[])            AS kind,
           unnest(@reservations::UUID[])     AS reservation_id,
           unnest(@request_ids::TEXT[])      AS request_id, -- '': not of an ALLOCATE
           unnest(@holders::TEXT[])          AS holder,
           unnest(@ttls_ms::BIGINT[])        AS ttl_ms,
           unnest(@tx_hashes::BYTEA[])       AS tx_hash,    -- empty: none
           unnest(@actions::TEXT[])          AS action,
           unnest(@reasons::TEXT[])          AS reason,
           unnest(@operators::TEXT[])        AS operator,
           unnest(@callers::TEXT[])          AS caller
), external AS MATERIALIZED (
    SELECT s.submitter_id
      FROM submitter s
     WHERE s.submitter_id = ANY(@submitter_ids::INT[]) AND s.mode = 'EXTERNAL'
     ORDER BY s.submitter_id
       FOR SHARE
)
INSERT INTO nonce_request AS q (submitter_id, kind, reservation_id, request_id, holder, ttl_ms,
                                tx_hash, action, reason, operator, caller)
SELECT r.submitter_id, r.kind, r.reservation_id, NULLIF(r.request_id, ''), r.holder, r.ttl_ms,
       NULLIF(r.tx_hash, ''), r.action, r.reason, r.operator, r.caller
  FROM request r
 WHERE (r.submitter_id IN (SELECT x.submitter_id FROM external x)) IS TRUE
 ORDER BY r.submitter_id, r.request_id, r.reservation_id
    ON CONFLICT (submitter_id, request_id) WHERE kind = 'ALLOCATE' DO UPDATE
   SET created_at = CASE WHEN q.nonce IS NULL THEN clock_timestamp() ELSE q.created_at END,
       applied_at = CASE WHEN q.nonce IS NULL THEN NULL ELSE q.applied_at END,
       result     = CASE WHEN q.nonce IS NULL THEN NULL ELSE q.result END
RETURNING q.submitter_id, q.request_no, q.reservation_id,
          coalesce(q.request_id, '')::TEXT AS request_id, q.holder, q.ttl_ms,
          coalesce(q.result, '')::TEXT AS result, coalesce(q.nonce, -1)::BIGINT AS nonce;

-- NonceResults returns the results of requests that were applied.
-- name: NonceResults :many
SELECT q.request_no, q.result::TEXT AS result, coalesce(q.nonce, -1)::BIGINT AS nonce
  FROM (SELECT unnest(@submitter_ids::INT[]) AS submitter_id,
               unnest(@request_nos::BIGINT[]) AS request_no) a
  JOIN nonce_request q ON q.submitter_id = a.submitter_id AND q.request_no = a.request_no
 WHERE q.applied_at IS NOT NULL;

-- InboxNonces lists the oldest requests of submitters that are not applied. An ALLOCATE that is
-- older than @stale seconds has no caller any more. given: the nonce that its reservation was
-- given. accepted: that nonce is ACCEPTED, which the owner does not keep in memory.
-- name: InboxNonces :many
SELECT k.submitter_id, k.request_no, k.kind, k.reservation_id, k.holder, k.ttl_ms, k.tx_hash,
       k.action, k.reason, k.operator, k.caller,
       (k.created_at < clock_timestamp() - make_interval(secs => @stale::FLOAT8))::BOOLEAN AS stale,
       coalesce(g.nonce, -1)::BIGINT AS given,
       coalesce(x.nonce, -1)::BIGINT AS accepted,
       coalesce(x.reservation_id, k.reservation_id)::UUID AS accepted_reservation,
       coalesce(x.version, 0)::BIGINT AS version,
       coalesce(x.holder, '')::TEXT AS accepted_holder,
       coalesce(x.caller, '')::TEXT AS accepted_caller,
       coalesce(x.reason, '')::TEXT AS accepted_reason,
       coalesce(x.message, '')::TEXT AS accepted_message
  FROM (SELECT unnest(@submitter_ids::INT[]) AS submitter_id) s
 CROSS JOIN LATERAL (
       SELECT c.* FROM nonce_request c
        WHERE c.submitter_id = s.submitter_id AND c.applied_at IS NULL
        ORDER BY c.request_no
        LIMIT @most::INT) k
  LEFT JOIN nonce_request g ON g.submitter_id = k.submitter_id
                           AND g.reservation_id = k.reservation_id AND g.kind = 'ALLOCATE'
                           AND k.kind <> 'ALLOCATE'
  LEFT JOIN external_nonce x ON x.submitter_id = k.submitter_id AND x.nonce = g.nonce
                            AND x.state = 'ACCEPTED'
 ORDER BY k.submitter_id, k.request_no;

-- OpenNonces lists the nonces of a submitter that its owner keeps in memory, lowest first.
-- name: OpenNonces :many
SELECT x.nonce, x.state, x.version, x.reservation_id, x.holder, x.caller, x.reason, x.message,
       x.needs_operator,
       coalesce(extract(EPOCH FROM x.expires_at - clock_timestamp()) * 1000, 0)::BIGINT AS left_ms,
       greatest(0, extract(EPOCH FROM clock_timestamp() - x.state_at) * 1000)::BIGINT AS age_ms
  FROM external_nonce x
 WHERE x.submitter_id = @submitter_id AND x.state <> 'ACCEPTED'
 ORDER BY x.nonce;

-- name: OpenNonceHashes :many
SELECT h.nonce, h.tx_hash
  FROM external_nonce x
  JOIN nonce_hash h ON h.submitter_id = x.submitter_id AND h.nonce = x.nonce
 WHERE x.submitter_id = @submitter_id AND x.state <> 'ACCEPTED'
 ORDER BY h.nonce, h.created_at;

-- Nonces lists nonces of a submitter below one, highest first.
-- name: Nonces :many
SELECT sqlc.embed(x), s.name, s.chain_id, s.address,
       (SELECT array_agg(h.tx_hash ORDER BY h.created_at) FROM nonce_hash h
         WHERE h.submitter_id = x.submitter_id AND h.nonce = x.nonce)::BYTEA[] AS hashes,
       coalesce((SELECT t.tx_id FROM managed_tx t
                  WHERE t.submitter_id = x.submitter_id
                    AND t.request_id = 'reservation/' || x.reservation_id),
                '00000000-0000-0000-0000-000000000000')::UUID AS tx_id -- zero: none
  FROM external_nonce x
  JOIN submitter s ON s.submitter_id = x.submitter_id
 WHERE x.submitter_id = @submitter_id AND x.nonce < @below::BIGINT
   AND (@any_state::BOOLEAN OR x.state = ANY(@states::TEXT[]))
   AND (NOT @needs_operator::BOOLEAN OR x.needs_operator)
 ORDER BY x.nonce DESC
 LIMIT @max_rows::INT;

-- ReservedNonces lists the nonces that these reservations hold or held last.
-- name: ReservedNonces :many
SELECT sqlc.embed(x), s.name, s.chain_id, s.address,
       (SELECT array_agg(h.tx_hash ORDER BY h.created_at) FROM nonce_hash h
         WHERE h.submitter_id = x.submitter_id AND h.nonce = x.nonce)::BYTEA[] AS hashes,
       coalesce((SELECT t.tx_id FROM managed_tx t
                  WHERE t.submitter_id = x.submitter_id
                    AND t.request_id = 'reservation/' || x.reservation_id),
                '00000000-0000-0000-0000-000000000000')::UUID AS tx_id -- zero: none
  FROM (SELECT DISTINCT unnest(@submitter_ids::INT[]) AS submitter_id,
                        unnest(@reservations::UUID[]) AS reservation_id) a
  JOIN external_nonce x ON x.submitter_id = a.submitter_id
                       AND x.reservation_id = a.reservation_id
  JOIN submitter s ON s.submitter_id = x.submitter_id;

-- LowestReserved returns the lowest nonce of clients that the chain has not used for good; -1:
-- there is none.
-- name: LowestReserved :one
SELECT coalesce(min(x.nonce), -1)::BIGINT AS nonce FROM external_nonce x
 WHERE x.submitter_id = @submitter_id AND x.state <> 'ACCEPTED';

-- InsertReserved queues the transaction of a reserved nonce: signed by the client, with its bytes,
-- or a cancel transaction that fills the nonce. It inserts nothing unless the reservation holds the
-- nonce and the nonce is not RESERVED or RECYCLABLE, nor of a client without its recorded hash.
-- name: InsertReserved :one
WITH held AS MATERIALIZED (
    SELECT x.submitter_id, x.nonce, x.reservation_id
      FROM external_nonce x
     WHERE x.submitter_id = @submitter_id AND x.reservation_id = @reservation_id
       AND x.state IN ('PENDING', 'ACCEPTED')
       AND (NOT @signed::BOOLEAN
            OR EXISTS (SELECT FROM nonce_hash h
                        WHERE h.submitter_id = x.submitter_id AND h.nonce = x.nonce
                          AND h.tx_hash = @tx_hash::BYTEA))
), queued AS (
    INSERT INTO managed_tx (submitter_id, tx_id, request_id, request_hash, to_address, value, data,
                            gas_limit, caller, reservation_id, signed)
    SELECT h.submitter_id, @tx_id::UUID, 'reservation/' || h.reservation_id,
           @request_hash::BYTEA, NULLIF(@to_address::BYTEA, ''), CAST(@value_wei::TEXT AS NUMERIC),
           @data::BYTEA, @payload_gas::BIGINT, @caller::TEXT, h.reservation_id, @signed::BOOLEAN
      FROM held h
    ON CONFLICT (submitter_id, request_id) DO NOTHING
    RETURNING submitter_id, tx_id, version, state, sub_state, executed, reason, last_error
), event_recorded AS (
    INSERT INTO tx_event (submitter_id, tx_id, seq, kind, state, sub_state, executed, reason,
                          message)
    SELECT q.submitter_id, q.tx_id, q.version, 'QUEUED', q.state, q.sub_state, q.executed, q.reason,
           q.last_error
      FROM queued q
), bytes_recorded AS (
    INSERT INTO signed_tx (submitter_id, tx_id, tx_hash, nonce, kind, raw_tx, gas_limit, fee_cap,
                           tip, legacy)
    SELECT q.submitter_id, q.tx_id, @tx_hash::BYTEA, @nonce::BIGINT, 'ORIGINAL', @raw_tx::BYTEA,
           @gas_limit::BIGINT, CAST(@fee_cap::TEXT AS NUMERIC), CAST(@tip::TEXT AS NUMERIC),
           @legacy::BOOLEAN
      FROM queued q WHERE @signed::BOOLEAN
)
SELECT q.tx_id FROM queued q;

-- InsertSignedBytes adds bytes that replace those of a transaction of a client that is not final.
-- name: InsertSignedBytes :execrows
INSERT INTO signed_tx (submitter_id, tx_id, tx_hash, nonce, kind, raw_tx, gas_limit, fee_cap, tip,
                       legacy)
SELECT t.submitter_id, t.tx_id, @tx_hash::BYTEA, @nonce::BIGINT, @kind::TEXT, @raw_tx::BYTEA,
       @gas_limit::BIGINT, CAST(@fee_cap::TEXT AS NUMERIC), CAST(@tip::TEXT AS NUMERIC),
       @legacy::BOOLEAN
  FROM managed_tx t
 WHERE t.submitter_id = @submitter_id AND t.tx_id = @tx_id AND t.signed AND t.terminal_at IS NULL
ON CONFLICT DO NOTHING;

-- PendingSigned lists the bytes of clients that no attempt has yet, of each submitter the lowest
-- nonces. It knows only the first transactions of each queue (@heads), as the owner does. Bytes of
-- included ones wait for a reorg. Erased ones are left out: their transaction was final, and has
-- left the chain since.
-- name: PendingSigned :many
SELECT p.submitter_id, p.tx_id, p.tx_hash, p.nonce, p.kind, p.raw_tx, p.gas_limit, p.fee_cap,
       p.tip, p.legacy
  FROM (SELECT unnest(@submitter_ids::INT[]) AS submitter_id, unnest(@heads::INT[]) AS head) o
 CROSS JOIN LATERAL (
       SELECT s.*
         FROM managed_tx t
         JOIN signed_tx s ON s.submitter_id = t.submitter_id AND s.tx_id = t.tx_id
        WHERE t.submitter_id = o.submitter_id AND t.terminal_at IS NULL AND t.signed
          AND t.receipt_tx_hash IS NULL
          AND (t.nonce IS NOT NULL
               OR t.tx_id IN (SELECT q.tx_id FROM managed_tx q
                               WHERE q.submitter_id = o.submitter_id AND q.nonce IS NULL
                                 AND q.terminal_at IS NULL
                               ORDER BY q.queue_seq
                               LIMIT o.head))
          AND s.raw_tx IS NOT NULL
          AND NOT EXISTS (SELECT FROM tx_attempt a
                           WHERE a.submitter_id = s.submitter_id AND a.tx_hash = s.tx_hash)
        ORDER BY s.nonce, s.created_at
        LIMIT @max_rows::INT) p
 ORDER BY p.submitter_id, p.nonce, p.created_at;
