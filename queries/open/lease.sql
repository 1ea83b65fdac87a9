-- Leases. Expiry is judged by the database's clock alone, as it is at that moment
-- (clock_timestamp), not at the start of the transaction.

-- AcquireLeases takes every lease of the list that is free, lapsed or this node's own, each under a
-- new token, and tells what it was before: gap_ms is the time that nobody held it. A lease whose
-- holder is in the middle of a commit is skipped; AcquireLease waits for it.
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
         ORDER BY f.submitter_id
           FOR UPDATE SKIP LOCKED) free
 WHERE l.submitter_id = free.submitter_id
RETURNING l.submitter_id, l.fencing_token, free.owner_node::TEXT AS before_owner, free.released::BOOLEAN AS before_released,
          (CASE WHEN free.owner_node IN ('', @owner_node::TEXT) THEN 0
                ELSE greatest(0, extract(EPOCH FROM l.acquired_at - free.expires_at) * 1000) END)::BIGINT AS gap_ms;

-- AcquireLease is AcquireLeases for one submitter, and waits until the commit of its holder has
-- ended, whichever way.
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
           FOR UPDATE) free
 WHERE l.submitter_id = free.submitter_id
RETURNING l.submitter_id, l.fencing_token, free.owner_node::TEXT AS before_owner, free.released::BOOLEAN AS before_released,
          (CASE WHEN free.owner_node IN ('', @owner_node::TEXT) THEN 0
                ELSE greatest(0, extract(EPOCH FROM l.acquired_at - free.expires_at) * 1000) END)::BIGINT AS gap_ms;

-- RenewLeases extends leases that are held and live. It leaves the token, a key column, alone: so
-- it never waits for a commit under way.
-- name: RenewLeases :many
UPDATE submitter_lease l
   SET expires_at = clock_timestamp() + make_interval(secs => @seconds::FLOAT8),
       lasts      = make_interval(secs => @seconds::FLOAT8)
  FROM (SELECT f.submitter_id
          FROM (SELECT unnest(@submitter_ids::INT[]) AS submitter_id, unnest(@fencing_tokens::BIGINT[]) AS fencing_token) h
          JOIN submitter_lease f ON f.submitter_id = h.submitter_id AND f.fencing_token = h.fencing_token
         WHERE f.owner_node = @owner_node::TEXT AND f.expires_at > clock_timestamp()
         ORDER BY f.submitter_id
           FOR NO KEY UPDATE OF f) mine
 WHERE l.submitter_id = mine.submitter_id
RETURNING l.submitter_id;

-- ReleaseLeases ends leases at once; the rows and their tokens stay.
-- name: ReleaseLeases :many
UPDATE submitter_lease l
   SET expires_at = clock_timestamp(), released = TRUE
  FROM (SELECT f.submitter_id
          FROM (SELECT unnest(@submitter_ids::INT[]) AS submitter_id, unnest(@fencing_tokens::BIGINT[]) AS fencing_token) h
          JOIN submitter_lease f ON f.submitter_id = h.submitter_id AND f.fencing_token = h.fencing_token
         WHERE f.owner_node = @owner_node::TEXT
         ORDER BY f.submitter_id
           FOR NO KEY UPDATE OF f) mine
 WHERE l.submitter_id = mine.submitter_id
RETURNING l.submitter_id;

-- CapLeases shortens leases and heartbeats that would last longer than when they were extended: the
-- clock was set back since. It counts from the moment that it finds them, so that none ends before
-- its holder thinks so. A lease that is locked has a holder that renews it, or is met next time.
-- name: CapLeases :execrows
WITH heartbeats AS (
    UPDATE node n SET expires_at = clock_timestamp() + n.lasts
     WHERE n.expires_at > clock_timestamp() + n.lasts
)
UPDATE submitter_lease l
   SET expires_at = clock_timestamp() + l.lasts
  FROM (SELECT f.submitter_id FROM submitter_lease f
         WHERE f.expires_at > clock_timestamp() + f.lasts
         ORDER BY f.submitter_id
           FOR NO KEY UPDATE SKIP LOCKED) far
 WHERE l.submitter_id = far.submitter_id;

-- Orphans are submitters of these chains that have something to be done and no live lease, longest
-- neglected first. Either most submitters lie idle, or most have an owner; and this is asked again
-- and again. So it goes by what there is less of, as far as the asker knows: each of the leases
-- that are free, as long as these are no crowd beside the submitters that have work; else from one
-- submitter that has work to the next, along the indexes of what is queued, open or asked, where
-- all entries of one are passed over in one step. Of each the first is asked for, in the order of
-- its index: for EXISTS the planner may read all that is queued.
-- name: Orphans :many
WITH RECURSIVE free AS MATERIALIZED (
    SELECT l.submitter_id FROM submitter_lease l WHERE l.expires_at <= clock_timestamp() LIMIT @crowd::BIGINT
), many AS MATERIALIZED (
    SELECT 0 AS submitter_id FROM free f HAVING count(f.submitter_id) >= @crowd::BIGINT
), queued AS (
    SELECT m.submitter_id FROM many m
     UNION ALL
    SELECT (SELECT t.submitter_id FROM managed_tx t WHERE t.submitter_id > q.submitter_id AND t.nonce IS NULL AND t.terminal_at IS NULL
             ORDER BY t.submitter_id LIMIT 1)
      FROM queued q WHERE q.submitter_id IS NOT NULL
), open AS (
    SELECT m.submitter_id FROM many m
     UNION ALL
    SELECT (SELECT t.submitter_id FROM managed_tx t WHERE t.submitter_id > o.submitter_id AND t.nonce IS NOT NULL AND t.terminal_at IS NULL
             ORDER BY t.submitter_id LIMIT 1)
      FROM open o WHERE o.submitter_id IS NOT NULL
), asked AS (
    SELECT m.submitter_id FROM many m
     UNION ALL
    SELECT (SELECT k.submitter_id FROM submitter_command k WHERE k.submitter_id > a.submitter_id AND k.applied_at IS NULL
             ORDER BY k.submitter_id LIMIT 1)
      FROM asked a WHERE a.submitter_id IS NOT NULL
), working AS (
    SELECT q.submitter_id FROM queued q
     UNION
    SELECT o.submitter_id FROM open o
     UNION
    SELECT a.submitter_id FROM asked a
     UNION
    SELECT f.submitter_id FROM free f
     WHERE NOT EXISTS (SELECT FROM many)
       AND ((SELECT t.submitter_id FROM managed_tx t WHERE t.submitter_id = f.submitter_id AND t.nonce IS NULL AND t.terminal_at IS NULL
              ORDER BY t.queue_seq LIMIT 1) IS NOT NULL
            OR (SELECT t.submitter_id FROM managed_tx t WHERE t.submitter_id = f.submitter_id AND t.nonce IS NOT NULL AND t.terminal_at IS NULL
                 ORDER BY t.nonce LIMIT 1) IS NOT NULL
            OR (SELECT k.submitter_id FROM submitter_command k WHERE k.submitter_id = f.submitter_id AND k.applied_at IS NULL
                 ORDER BY k.command_id LIMIT 1) IS NOT NULL)
)
SELECT o.submitter_id
  FROM working w
 CROSS JOIN LATERAL (SELECT l.submitter_id, l.expires_at FROM submitter_lease l
                      WHERE l.submitter_id = w.submitter_id AND l.expires_at <= clock_timestamp()
                     OFFSET 0) o
  JOIN submitter s ON s.submitter_id = o.submitter_id
 WHERE s.chain_id = ANY(@chain_ids::BIGINT[])
 ORDER BY o.expires_at, o.submitter_id
 LIMIT @max_rows::INT;

-- Unowned are some submitters of a chain without a live lease, beyond a number. Those of settled
-- ones have been for so many seconds, so that no commit of who had them can be under way: what they
-- have is what they had, as long as their token is the same.
-- name: Unowned :many
SELECT l.submitter_id, l.fencing_token, (l.expires_at <= clock_timestamp() - make_interval(secs => @seconds::FLOAT8))::BOOLEAN AS settled
  FROM submitter_lease l
  JOIN submitter s ON s.submitter_id = l.submitter_id
 WHERE s.chain_id = @chain_id::BIGINT AND s.submitter_id > @after::INT AND l.submitter_id > @after::INT AND l.expires_at <= clock_timestamp()
 ORDER BY l.submitter_id
 LIMIT @max_rows::INT;

-- Unwatched tells which of these submitters have something to be done, and which have final
-- transactions that a reorg could still reach: the newest of them is in a block above this one, or
-- has ended as never run above it. Nonces rise with blocks, so that the newest few tell: one alone
-- does not, since what ran before it was given back to the queue is in an older block.
-- name: Unwatched :many
SELECT w.submitter_id, w.reached
  FROM (SELECT k.submitter_id::INT AS submitter_id,
               coalesce((SELECT max(f.receipt_block) FROM (
                                SELECT t.receipt_block FROM managed_tx t
                                 WHERE t.submitter_id = k.submitter_id AND t.nonce IS NOT NULL AND t.receipt_block IS NOT NULL
                                 ORDER BY t.nonce DESC
                                 LIMIT 8) f) > @above::BIGINT
                        OR (SELECT max(t.ended_block) FROM managed_tx t WHERE t.submitter_id = k.submitter_id AND t.ended_block IS NOT NULL) > @above::BIGINT,
                        FALSE)::BOOLEAN AS reached,
               (SELECT t.submitter_id FROM managed_tx t WHERE t.submitter_id = k.submitter_id AND t.nonce IS NULL AND t.terminal_at IS NULL
                 ORDER BY t.queue_seq LIMIT 1) IS NOT NULL
               OR (SELECT t.submitter_id FROM managed_tx t WHERE t.submitter_id = k.submitter_id AND t.nonce IS NOT NULL AND t.terminal_at IS NULL
                    ORDER BY t.nonce LIMIT 1) IS NOT NULL AS works
          FROM (SELECT unnest(@submitter_ids::INT[]) AS submitter_id) k) w
 WHERE w.reached OR w.works
 ORDER BY w.submitter_id;

-- TerminateBlockers ends whatever keeps a takeover waiting and is older than any statement of ours
-- can be: a client that froze between Execute and Sync keeps its locks, and no timeout of the
-- server ends it.
-- name: TerminateBlockers :many
SELECT a.pid::INT AS pid, pg_terminate_backend(a.pid) AS told
  FROM unnest(pg_blocking_pids(@waiting_pid::INT)) AS b(pid)
  JOIN pg_stat_activity a ON a.pid = b.pid
 WHERE a.xact_start < clock_timestamp() - make_interval(secs => @seconds::FLOAT8);
