-- CommitNonces writes the decisions of the owners of submitters in mode EXTERNAL about reserved
-- nonces, for many submitters at once. It has the form of Commit: each change is done completely or
-- not at all, and every guard is locked, in key order, before anything is written. It moves no
-- transaction.
--
-- name: CommitNonces :many
WITH change AS (
    SELECT unnest(@change_no::INT[])         AS change_no,
           unnest(@submitter_id::INT[])      AS submitter_id,
           unnest(@fencing_token::BIGINT[])  AS fencing_token,
           unnest(@write_count::INT[])       AS write_count,   -- of rows that exist
           unnest(@result_count::INT[])      AS result_count,
           unnest(@cursor_from::BIGINT[])    AS cursor_from,   -- -1: reserves none
           unnest(@cursor_to::BIGINT[])      AS cursor_to
), write AS (
    SELECT unnest(@w_change_no::INT[])       AS change_no,
           unnest(@w_submitter_id::INT[])    AS submitter_id,
           unnest(@w_fencing_token::BIGINT[]) AS fencing_token,
           unnest(@w_nonce::BIGINT[])        AS nonce,
           unnest(@w_version::BIGINT[])      AS version,       -- 0: a new row
           unnest(@w_from_state::TEXT[])     AS from_state,
           unnest(@w_state::TEXT[])          AS state,
           unnest(@w_reservation::UUID[])    AS reservation_id,
           unnest(@w_holder::TEXT[])         AS holder,
           unnest(@w_caller::TEXT[])         AS caller,
           unnest(@w_reason::TEXT[])         AS reason,
           unnest(@w_message::TEXT[])        AS message,
           unnest(@w_operator::BOOLEAN[])    AS needs_operator,
           unnest(@w_ttl_ms::BIGINT[])       AS ttl_ms,        -- 0: unchanged
           unnest(@w_expired::BOOLEAN[])     AS expired        -- its time is over
), hash AS (
    SELECT unnest(@h_change_no::INT[])       AS change_no,
           unnest(@h_submitter_id::INT[])    AS submitter_id,
           unnest(@h_fencing_token::BIGINT[]) AS fencing_token,
           unnest(@h_nonce::BIGINT[])        AS nonce,
           unnest(@h_tx_hash::BYTEA[])       AS tx_hash,
           unnest(@h_reservation::UUID[])    AS reservation_id
), result AS (
    SELECT unnest(@r_change_no::INT[])       AS change_no,
           unnest(@r_submitter_id::INT[])    AS submitter_id,
           unnest(@r_fencing_token::BIGINT[]) AS fencing_token,
           unnest(@r_request_no::BIGINT[])   AS request_no,
           unnest(@r_result::TEXT[])         AS result,
           unnest(@r_nonce::BIGINT[])        AS nonce          -- -1: none
), lease AS MATERIALIZED (
    -- The fence, as in Commit.
    SELECT c.*
      FROM change c
      JOIN submitter_lease l ON l.submitter_id = c.submitter_id
                            AND l.fencing_token = c.fencing_token
     WHERE l.owner_node = @owner_node::TEXT AND l.expires_at > clock_timestamp()
     ORDER BY l.submitter_id
       FOR KEY SHARE OF l
), nonce_cursor AS MATERIALIZED (
    SELECT l.change_no
      FROM lease l
      JOIN submitter_nonce_cursor n ON n.submitter_id = l.submitter_id
     WHERE l.cursor_from >= 0 AND n.next_nonce = l.cursor_from AND n.protect_reason IS NULL
     ORDER BY n.submitter_id
       FOR NO KEY UPDATE OF n
), held AS MATERIALIZED (
    SELECT w.change_no
      FROM write w
      JOIN external_nonce x ON x.submitter_id = w.submitter_id AND x.nonce = w.nonce
     WHERE ((w.change_no, w.submitter_id, w.fencing_token)
            IN (SELECT l.change_no, l.submitter_id, l.fencing_token FROM lease l)) IS TRUE
       AND (SELECT count(*) FROM nonce_cursor) >= 0 -- cursors first
       AND w.version > 0 AND x.version = w.version AND x.state = w.from_state
       AND (NOT w.expired OR x.expires_at <= clock_timestamp())
     ORDER BY x.submitter_id, x.nonce
       FOR NO KEY UPDATE OF x
), asked AS MATERIALIZED (
    SELECT r.change_no
      FROM result r
      JOIN nonce_request q ON q.submitter_id = r.submitter_id AND q.request_no = r.request_no
     WHERE ((r.change_no, r.submitter_id, r.fencing_token)
            IN (SELECT l.change_no, l.submitter_id, l.fencing_token FROM lease l)) IS TRUE
       AND (SELECT count(*) FROM held) >= 0
       AND q.applied_at IS NULL
     ORDER BY q.submitter_id, q.request_no
       FOR NO KEY UPDATE OF q
), ok AS MATERIALIZED (
    SELECT l.*
      FROM lease l
     WHERE (l.cursor_from < 0
            OR l.change_no IN (SELECT n.change_no FROM nonce_cursor n)
               AND (SELECT s.status = 'ACTIVE' AND s.mode = 'EXTERNAL'
                      FROM submitter s WHERE s.submitter_id = l.submitter_id))
       AND (l.write_count = 0
            OR (l.change_no, l.write_count)
               IN (SELECT h.change_no, count(*)::INT FROM held h GROUP BY h.change_no))
       AND (l.result_count = 0
            OR (l.change_no, l.result_count)
               IN (SELECT a.change_no, count(*)::INT FROM asked a GROUP BY a.change_no))
), cursor_moved AS (
    UPDATE submitter_nonce_cursor n
       SET next_nonce    = o.cursor_to,
           fencing_token = o.fencing_token,
           updated_at    = clock_timestamp()
      FROM ok o
     WHERE n.submitter_id = o.submitter_id AND o.cursor_from >= 0 AND o.cursor_to > o.cursor_from
), nonce_taken AS (
    INSERT INTO external_nonce (submitter_id, nonce, state, reservation_id, holder, caller, reason,
                                message, expires_at, fencing_token)
    SELECT w.submitter_id, w.nonce, w.state, w.reservation_id, w.holder, w.caller, w.reason,
           w.message,
           CASE WHEN w.state = 'RESERVED'
                THEN clock_timestamp() + make_interval(secs => w.ttl_ms / 1000.0) END,
           w.fencing_token
      FROM write w
     WHERE w.version = 0
       AND ((w.change_no, w.submitter_id, w.fencing_token)
            IN (SELECT o.change_no, o.submitter_id, o.fencing_token FROM ok o)) IS TRUE
), nonce_moved AS (
    UPDATE external_nonce x
       SET state          = w.state,
           version        = w.version + 1,
           reservation_id = w.reservation_id,
           holder         = w.holder,
           caller         = w.caller,
           reason         = w.reason,
           message        = w.message,
           needs_operator = w.needs_operator,
           reserved_at    = CASE WHEN w.reservation_id <> x.reservation_id
                                 THEN clock_timestamp() ELSE x.reserved_at END,
           expires_at     = CASE WHEN w.state <> 'RESERVED' THEN NULL
                                 WHEN w.ttl_ms > 0
                                 THEN clock_timestamp()
                                      + make_interval(secs => w.ttl_ms / 1000.0)
                                 ELSE x.expires_at END,
           state_at       = CASE WHEN w.state <> x.state THEN clock_timestamp()
                                 ELSE x.state_at END,
           fencing_token  = w.fencing_token
      FROM write w
     WHERE x.submitter_id = w.submitter_id AND x.nonce = w.nonce AND w.version > 0
       AND ((w.change_no, w.submitter_id, w.fencing_token)
            IN (SELECT o.change_no, o.submitter_id, o.fencing_token FROM ok o)) IS TRUE
), hash_recorded AS (
    INSERT INTO nonce_hash (submitter_id, nonce, tx_hash, reservation_id, fencing_token)
    SELECT h.submitter_id, h.nonce, h.tx_hash, h.reservation_id, h.fencing_token
      FROM hash h
     WHERE ((h.change_no, h.submitter_id, h.fencing_token)
            IN (SELECT o.change_no, o.submitter_id, o.fencing_token FROM ok o)) IS TRUE
        ON CONFLICT DO NOTHING
), request_applied AS (
    UPDATE nonce_request q
       SET applied_at    = clock_timestamp(),
           result        = r.result,
           nonce         = NULLIF(r.nonce, -1),
           fencing_token = r.fencing_token
      FROM result r
     WHERE q.submitter_id = r.submitter_id AND q.request_no = r.request_no
       AND ((r.change_no, r.submitter_id, r.fencing_token)
            IN (SELECT o.change_no, o.submitter_id, o.fencing_token FROM ok o)) IS TRUE
)
SELECT c.change_no::INT AS change_no,
       (CASE WHEN c.change_no IN (SELECT o.change_no FROM ok o) THEN 'DONE'
             WHEN c.change_no IN (SELECT l.change_no FROM lease l) THEN 'CONFLICT'
             ELSE 'FENCED' END)::TEXT AS outcome
  FROM change c;
