-- Leases. Expiry is judged by the database's clock alone, as it is at that moment (clock_timestamp), not at the start of the transaction.

-- AcquireLeases takes every lease of the list that is free, lapsed or this node's own, each under a new token, and tells what it was before: gap_ms is the time
-- that nobody held it. A lease whose holder is in the middle of a commit is skipped; AcquireLease waits for it.
-- name: AcquireLeases :many
UPDATE submitter_lease l
   SET owner_node    = @owner_node::TEXT,
       fencing_token = l.fencing_token + 1,
       acquired_at   = clock_timestamp(),
       expires_at    = clock_timestamp() + make_interval(secs => @seconds::FLOAT8),
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

-- AcquireLease is AcquireLeases for one submitter, and waits until the commit of its holder has ended, whichever way.
-- name: AcquireLease :one
UPDATE submitter_lease l
   SET owner_node    = @owner_node::TEXT,
       fencing_token = l.fencing_token + 1,
       acquired_at   = clock_timestamp(),
       expires_at    = clock_timestamp() + make_interval(secs => @seconds::FLOAT8),
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

-- RenewLeases extends leases that are held and live. It leaves the token, a key column, alone: so it never waits for a commit under way.
-- name: RenewLeases :many
UPDATE submitter_lease l
   SET expires_at = clock_timestamp() + make_interval(secs => @seconds::FLOAT8)
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

-- Orphans are submitters of these chains that have something to be done and no live lease, longest neglected first. OFFSET 0 keeps the planner from looking for
-- work twice.
-- name: Orphans :many
SELECT o.submitter_id
  FROM (SELECT l.submitter_id, l.expires_at,
               (EXISTS (SELECT FROM managed_tx t WHERE t.submitter_id = l.submitter_id AND t.nonce IS NULL AND t.terminal_at IS NULL)
                OR EXISTS (SELECT FROM managed_tx t WHERE t.submitter_id = l.submitter_id AND t.nonce IS NOT NULL AND t.terminal_at IS NULL)
                OR EXISTS (SELECT FROM submitter_command k WHERE k.submitter_id = l.submitter_id AND k.applied_at IS NULL)) AS work
          FROM submitter s
          JOIN submitter_lease l ON l.submitter_id = s.submitter_id
         WHERE s.chain_id = ANY(@chain_ids::BIGINT[]) AND l.expires_at <= clock_timestamp()
        OFFSET 0) o
 WHERE o.work
 ORDER BY o.expires_at, o.submitter_id
 LIMIT @max_rows::INT;

-- Unwatched looks at some submitters without a live lease, beyond a number, and tells which have final transactions that a reorg could still reach: the newest of them
-- is in a block above the one that is given for the chain, or has ended as never run above it. Nonces rise with blocks, so that the newest few tell: one alone does
-- not, since what ran before it was given back to the queue is in an older block. All of them at once would be too many to look at again and again.
-- name: Unwatched :many
WITH turn AS MATERIALIZED (
    SELECT l.submitter_id, c.above
      FROM (SELECT unnest(@chain_ids::BIGINT[]) AS chain_id, unnest(@above::BIGINT[]) AS above) c
      JOIN submitter s ON s.chain_id = c.chain_id
      JOIN submitter_lease l ON l.submitter_id = s.submitter_id
     WHERE l.submitter_id > @after::INT AND l.expires_at <= clock_timestamp()
     ORDER BY l.submitter_id
     LIMIT @max_rows::INT
)
SELECT w.submitter_id,
       coalesce((SELECT max(f.receipt_block) FROM (
                        SELECT t.receipt_block FROM managed_tx t
                         WHERE t.submitter_id = w.submitter_id AND t.nonce IS NOT NULL AND t.receipt_block IS NOT NULL
                         ORDER BY t.nonce DESC
                         LIMIT 8) f) > w.above
                OR (SELECT max(t.ended_block) FROM managed_tx t WHERE t.submitter_id = w.submitter_id AND t.ended_block IS NOT NULL) > w.above, FALSE)::BOOLEAN AS needed
  FROM turn w
 ORDER BY w.submitter_id;

-- TerminateBlockers ends whatever keeps a takeover waiting and is older than any statement of ours can be: a client that froze between Execute and Sync keeps
-- its locks, and no timeout of the server ends it.
-- name: TerminateBlockers :many
SELECT a.pid::INT AS pid, pg_terminate_backend(a.pid) AS told
  FROM unnest(pg_blocking_pids(@waiting_pid::INT)) AS b(pid)
  JOIN pg_stat_activity a ON a.pid = b.pid
 WHERE a.xact_start < clock_timestamp() - make_interval(secs => @seconds::FLOAT8);
