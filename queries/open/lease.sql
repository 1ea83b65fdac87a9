-- Leases. Only the database's clock decides about expiry, at the current moment (clock_timestamp),
-- not at the start of the transaction.

-- AcquireLeases takes every lease of the list that is free, expired or this node's own, each under
-- a new token, and returns the previous state of each: gap_ms is the time without an owner. A lease
-- whose owner is committing is skipped; AcquireLease waits for it. A ledger that may have lost
-- tombstones gives no lease, and extends none: see moves_timeline. One that has not joined may have
-- been restored to before it did: @with_directory, the node has a directory to ask.
-- name: AcquireLeases :many
UPDATE submitter_lease l
   SET owner_node    = @owner_node::TEXT,
       fencing_token = l.fencing_token + 1,
       acquired_at   = clock_timestamp(),
       expires_at    = clock_timestamp() + make_interval(secs => @seconds::FLOAT8),
       lasts         = make_interval(secs => @seconds::FLOAT8),
       released      = FALSE
  FROM (SELECT f.submitter_id, f.owner_node, f.expires_at, f.released
          FROM submitter_lease f
         WHERE f.submitter_id = ANY(@submitter_ids::INT[])
           AND (f.owner_node = @owner_node::TEXT OR f.expires_at <= clock_timestamp())
           AND (SELECT g.timeline IS NOT DISTINCT FROM g.moves_timeline
                       OR g.directory_no IS NULL AND NOT @with_directory::BOOLEAN
                  FROM ledger g)
         ORDER BY f.submitter_id
           FOR UPDATE SKIP LOCKED) free
 WHERE l.submitter_id = free.submitter_id
RETURNING l.submitter_id, l.fencing_token, l.expires_at,
          free.owner_node::TEXT AS before_owner,
          free.released::BOOLEAN AS before_released,
          (CASE WHEN free.owner_node IN ('', @owner_node::TEXT) THEN 0
                ELSE greatest(0, extract(EPOCH FROM l.acquired_at - free.expires_at) * 1000)
                END)::BIGINT AS gap_ms;

-- AcquireLease is AcquireLeases for one submitter. It waits until the commit of its owner has
-- finished, with any outcome.
-- name: AcquireLease :one
UPDATE submitter_lease l
   SET owner_node    = @owner_node::TEXT,
       fencing_token = l.fencing_token + 1,
       acquired_at   = clock_timestamp(),
       expires_at    = clock_timestamp() + make_interval(secs => @seconds::FLOAT8),
       lasts         = make_interval(secs => @seconds::FLOAT8),
       released      = FALSE
  FROM (SELECT f.submitter_id, f.owner_node, f.expires_at, f.released
          FROM submitter_lease f
         WHERE f.submitter_id = @submitter_id
           AND (f.owner_node = @owner_node::TEXT OR f.expires_at <= clock_timestamp())
           AND (SELECT g.timeline IS NOT DISTINCT FROM g.moves_timeline
                       OR g.directory_no IS NULL AND NOT @with_directory::BOOLEAN
                  FROM ledger g)
           FOR UPDATE) free
 WHERE l.submitter_id = free.submitter_id
RETURNING l.submitter_id, l.fencing_token, l.expires_at,
          free.owner_node::TEXT AS before_owner,
          free.released::BOOLEAN AS before_released,
          (CASE WHEN free.owner_node IN ('', @owner_node::TEXT) THEN 0
                ELSE greatest(0, extract(EPOCH FROM l.acquired_at - free.expires_at) * 1000)
                END)::BIGINT AS gap_ms;

-- RenewLeases extends leases that are held and live. It does not change the token, a key column, so
-- it never waits for a running commit.
-- name: RenewLeases :many
UPDATE submitter_lease l
   SET expires_at = clock_timestamp() + make_interval(secs => @seconds::FLOAT8),
       lasts      = make_interval(secs => @seconds::FLOAT8)
  FROM (SELECT f.submitter_id
          FROM (SELECT unnest(@submitter_ids::INT[]) AS submitter_id,
                       unnest(@fencing_tokens::BIGINT[]) AS fencing_token) h
          JOIN submitter_lease f ON f.submitter_id = h.submitter_id
                                AND f.fencing_token = h.fencing_token
         WHERE f.owner_node = @owner_node::TEXT AND f.expires_at > clock_timestamp()
           AND (SELECT g.timeline IS NOT DISTINCT FROM g.moves_timeline
                       OR g.directory_no IS NULL AND NOT @with_directory::BOOLEAN
                  FROM ledger g)
         ORDER BY f.submitter_id
           FOR NO KEY UPDATE OF f) mine
 WHERE l.submitter_id = mine.submitter_id
RETURNING l.submitter_id;

-- ReleaseLeases ends leases at once; the rows and their tokens stay.
-- name: ReleaseLeases :many
UPDATE submitter_lease l
   SET expires_at = clock_timestamp(), released = TRUE
  FROM (SELECT f.submitter_id
          FROM (SELECT unnest(@submitter_ids::INT[]) AS submitter_id,
                       unnest(@fencing_tokens::BIGINT[]) AS fencing_token) h
          JOIN submitter_lease f ON f.submitter_id = h.submitter_id
                                AND f.fencing_token = h.fencing_token
         WHERE f.owner_node = @owner_node::TEXT
         ORDER BY f.submitter_id
           FOR NO KEY UPDATE OF f) mine
 WHERE l.submitter_id = mine.submitter_id
RETURNING l.submitter_id;

-- CapLeases shortens leases and heartbeats that would last longer than their duration, because the
-- clock was set back since they were extended. It counts from the current moment, so that none ends
-- earlier than its owner expects. A locked row is skipped: its owner extends it, or the next call
-- caps it. Rows are locked in order, and none is waited for, so two calls cannot deadlock.
-- name: CapLeases :execrows
WITH heartbeats AS (
    UPDATE node n SET expires_at = clock_timestamp() + n.lasts
      FROM (SELECT f.node_id FROM node f
             WHERE f.expires_at > clock_timestamp() + f.lasts
             ORDER BY f.node_id
               FOR NO KEY UPDATE SKIP LOCKED) far
     WHERE n.node_id = far.node_id
)
UPDATE submitter_lease l
   SET expires_at = clock_timestamp() + l.lasts
  FROM (SELECT f.submitter_id FROM submitter_lease f
         WHERE f.expires_at > clock_timestamp() + f.lasts
         ORDER BY f.submitter_id
           FOR NO KEY UPDATE SKIP LOCKED) far
 WHERE l.submitter_id = far.submitter_id;

-- Orphans lists submitters of these chains that have work and no live lease, longest without an
-- owner first. It runs often, and either most submitters are idle or most have an owner. So it
-- reads the smaller set: every free lease, as long as there are fewer than @crowd, the caller's
-- estimate of submitters with work; otherwise the submitters with work, found by skipping along the
-- indexes of queued and open transactions and pending commands, one step per submitter. Each check
-- reads the first row in the order of its index: for EXISTS the planner may read the whole queue.
-- name: Orphans :many
WITH RECURSIVE free AS MATERIALIZED (
    SELECT l.submitter_id FROM submitter_lease l
     WHERE l.expires_at <= clock_timestamp() AND l.moved_to IS NULL
     LIMIT @crowd::BIGINT
), many AS MATERIALIZED (
    SELECT 0 AS submitter_id FROM free f HAVING count(f.submitter_id) >= @crowd::BIGINT
), queued AS (
    SELECT m.submitter_id FROM many m
     UNION ALL
    SELECT (SELECT t.submitter_id FROM managed_tx t
             WHERE t.submitter_id > q.submitter_id AND t.nonce IS NULL AND t.terminal_at IS NULL
             ORDER BY t.submitter_id LIMIT 1)
      FROM queued q WHERE q.submitter_id IS NOT NULL
), open AS (
    SELECT m.submitter_id FROM many m
     UNION ALL
    SELECT (SELECT t.submitter_id FROM managed_tx t
             WHERE t.submitter_id > o.submitter_id AND t.nonce IS NOT NULL AND t.terminal_at IS NULL
             ORDER BY t.submitter_id LIMIT 1)
      FROM open o WHERE o.submitter_id IS NOT NULL
), commanded AS (
    SELECT m.submitter_id FROM many m
     UNION ALL
    SELECT (SELECT k.submitter_id FROM submitter_command k
             WHERE k.submitter_id > c.submitter_id AND k.applied_at IS NULL
             ORDER BY k.submitter_id LIMIT 1)
      FROM commanded c WHERE c.submitter_id IS NOT NULL
), asked AS (
    SELECT m.submitter_id FROM many m
     UNION ALL
    SELECT (SELECT k.submitter_id FROM nonce_request k
             WHERE k.submitter_id > a.submitter_id AND k.applied_at IS NULL
             ORDER BY k.submitter_id LIMIT 1)
      FROM asked a WHERE a.submitter_id IS NOT NULL
), reserved AS (
    SELECT m.submitter_id FROM many m
     UNION ALL
    SELECT (SELECT x.submitter_id FROM external_nonce x
             WHERE x.submitter_id > r.submitter_id AND x.state <> 'ACCEPTED'
             ORDER BY x.submitter_id LIMIT 1)
      FROM reserved r WHERE r.submitter_id IS NOT NULL
), working AS (
    SELECT q.submitter_id FROM queued q
     UNION
    SELECT o.submitter_id FROM open o
     UNION
    SELECT c.submitter_id FROM commanded c
     UNION
    SELECT a.submitter_id FROM asked a
     UNION
    SELECT r.submitter_id FROM reserved r
     UNION
    SELECT f.submitter_id FROM free f
     WHERE NOT EXISTS (SELECT FROM many)
       AND ((SELECT t.submitter_id FROM managed_tx t
              WHERE t.submitter_id = f.submitter_id AND t.nonce IS NULL AND t.terminal_at IS NULL
              ORDER BY t.queue_seq LIMIT 1) IS NOT NULL
            OR (SELECT t.submitter_id FROM managed_tx t
                 WHERE t.submitter_id = f.submitter_id AND t.nonce IS NOT NULL
                   AND t.terminal_at IS NULL
                 ORDER BY t.nonce LIMIT 1) IS NOT NULL
            OR (SELECT k.submitter_id FROM submitter_command k
                 WHERE k.submitter_id = f.submitter_id AND k.applied_at IS NULL
                 ORDER BY k.command_id LIMIT 1) IS NOT NULL
            OR (SELECT k.submitter_id FROM nonce_request k
                 WHERE k.submitter_id = f.submitter_id AND k.applied_at IS NULL
                 ORDER BY k.request_no LIMIT 1) IS NOT NULL
            OR (SELECT x.submitter_id FROM external_nonce x
                 WHERE x.submitter_id = f.submitter_id AND x.state <> 'ACCEPTED'
                 ORDER BY x.nonce LIMIT 1) IS NOT NULL)
)
SELECT o.submitter_id
  FROM working w
 CROSS JOIN LATERAL (
       SELECT l.submitter_id, l.expires_at FROM submitter_lease l
        WHERE l.submitter_id = w.submitter_id AND l.expires_at <= clock_timestamp()
          AND l.moved_to IS NULL
        OFFSET 0) o
  JOIN submitter s ON s.submitter_id = o.submitter_id
 WHERE s.chain_id = ANY(@chain_ids::BIGINT[])
 ORDER BY o.expires_at, o.submitter_id
 LIMIT @max_rows::INT;

-- Unowned lists submitters of a chain without a live lease, above a given id. A settled one has had
-- none for at least @seconds, so that no commit of its last owner can still be running: its data
-- stay the same as long as its token does.
-- name: Unowned :many
SELECT l.submitter_id, l.fencing_token,
       (l.expires_at
        <= clock_timestamp() - make_interval(secs => @seconds::FLOAT8))::BOOLEAN AS settled
  FROM submitter_lease l
  JOIN submitter s ON s.submitter_id = l.submitter_id
 WHERE s.chain_id = @chain_id::BIGINT AND s.submitter_id > @after::INT
   AND l.submitter_id > @after::INT AND l.expires_at <= clock_timestamp()
   AND l.moved_to IS NULL
 ORDER BY l.submitter_id
 LIMIT @max_rows::INT;

-- Unwatched returns which of these submitters have work, and which have final transactions that a
-- reorg could still reach: the newest of them is in a block above @above, or became final as not
-- executed above it. Nonces rise with blocks, so the newest few are enough; one is not, because a
-- requeued transaction may have been executed in an older block.
-- name: Unwatched :many
SELECT w.submitter_id, w.reached
  FROM (SELECT k.submitter_id::INT AS submitter_id,
               coalesce((SELECT max(f.receipt_block)
                           FROM (SELECT t.receipt_block FROM managed_tx t
                                  WHERE t.submitter_id = k.submitter_id AND t.nonce IS NOT NULL
                                    AND t.receipt_block IS NOT NULL
                                  ORDER BY t.nonce DESC
                                  LIMIT 8) f) > @above::BIGINT
                        OR (SELECT max(t.ended_block) FROM managed_tx t
                             WHERE t.submitter_id = k.submitter_id
                               AND t.ended_block IS NOT NULL) > @above::BIGINT,
                        FALSE)::BOOLEAN AS reached,
               (SELECT t.submitter_id FROM managed_tx t
                 WHERE t.submitter_id = k.submitter_id AND t.nonce IS NULL AND t.terminal_at IS NULL
                 ORDER BY t.queue_seq LIMIT 1) IS NOT NULL
               OR (SELECT t.submitter_id FROM managed_tx t
                    WHERE t.submitter_id = k.submitter_id AND t.nonce IS NOT NULL
                      AND t.terminal_at IS NULL
                    ORDER BY t.nonce LIMIT 1) IS NOT NULL AS works
          FROM (SELECT unnest(@submitter_ids::INT[]) AS submitter_id) k) w
 WHERE w.reached OR w.works
 ORDER BY w.submitter_id;

-- TerminateBlockers terminates the sessions that block a takeover and are older than any statement
-- of Fencepost can be: a client that froze between Execute and Sync keeps its locks, and no timeout
-- of the server ends it.
-- name: TerminateBlockers :many
SELECT a.pid::INT AS pid, pg_terminate_backend(a.pid) AS signalled
  FROM unnest(pg_blocking_pids(@waiting_pid::INT)) AS b(pid)
  JOIN pg_stat_activity a ON a.pid = b.pid
 WHERE a.xact_start < clock_timestamp() - make_interval(secs => @seconds::FLOAT8);
