-- Leases of sinks, reads, and the decisions of operators.

-- EnsureSinks creates the rows of configured sinks. A new sink begins at the end of the feed.
-- name: EnsureSinks :exec
WITH leases AS (
    INSERT INTO sink_lease (sink) SELECT unnest(@sinks::TEXT[]) ON CONFLICT (sink) DO NOTHING
)
INSERT INTO sink_cursor (sink) SELECT unnest(@sinks::TEXT[]) ON CONFLICT (sink) DO NOTHING;

-- AcquireSinks takes the leases that are free, lapsed or this node's own, each under a new token.
-- name: AcquireSinks :many
UPDATE sink_lease l
   SET owner_node    = @owner_node::TEXT,
       fencing_token = l.fencing_token + 1,
       acquired_at   = clock_timestamp(),
       expires_at    = clock_timestamp() + make_interval(secs => @seconds::FLOAT8),
       lasts         = make_interval(secs => @seconds::FLOAT8)
  FROM (SELECT f.sink FROM sink_lease f
         WHERE f.sink = ANY(@sinks::TEXT[])
           AND (f.owner_node = @owner_node::TEXT OR f.expires_at <= clock_timestamp()
                -- the clock was set back since
                OR f.expires_at > clock_timestamp() + f.lasts)
         ORDER BY f.sink
           FOR UPDATE SKIP LOCKED) free
 WHERE l.sink = free.sink
RETURNING l.sink, l.fencing_token;

-- RenewSinks extends leases that are held and live, and returns the revisions of their cursors.
-- name: RenewSinks :many
UPDATE sink_lease l
   SET expires_at = clock_timestamp() + make_interval(secs => @seconds::FLOAT8),
       lasts      = make_interval(secs => @seconds::FLOAT8)
  FROM (SELECT f.sink
          FROM (SELECT unnest(@sinks::TEXT[]) AS sink,
                       unnest(@fencing_tokens::BIGINT[]) AS fencing_token) h
          JOIN sink_lease f ON f.sink = h.sink AND f.fencing_token = h.fencing_token
         WHERE f.owner_node = @owner_node::TEXT AND f.expires_at > clock_timestamp()
         ORDER BY f.sink
           FOR NO KEY UPDATE OF f) mine
 WHERE l.sink = mine.sink
RETURNING l.sink, l.fencing_token,
          coalesce((SELECT c.revision FROM sink_cursor c WHERE c.sink = l.sink), 0)::BIGINT
              AS revision;

-- ReleaseSinks ends leases at once; the rows and their tokens stay.
-- name: ReleaseSinks :exec
UPDATE sink_lease l
   SET expires_at = clock_timestamp()
  FROM (SELECT f.sink
          FROM (SELECT unnest(@sinks::TEXT[]) AS sink,
                       unnest(@fencing_tokens::BIGINT[]) AS fencing_token) h
          JOIN sink_lease f ON f.sink = h.sink AND f.fencing_token = h.fencing_token
         WHERE f.owner_node = @owner_node::TEXT
         ORDER BY f.sink
           FOR NO KEY UPDATE OF f) mine
 WHERE l.sink = mine.sink;

-- SinkCursors reads all sinks, or the named one, without counting what is parked.
-- name: SinkCursors :many
SELECT c.sink, c.position, c.revision, c.status, c.reason, c.operator, c.restored, c.delivered,
       c.event_at, c.updated_at, l.fencing_token,
       (CASE WHEN l.expires_at > clock_timestamp() THEN l.owner_node ELSE '' END)::TEXT AS owner
  FROM sink_cursor c JOIN sink_lease l ON l.sink = c.sink
 WHERE @sink::TEXT = '' OR c.sink = @sink::TEXT
 ORDER BY c.sink
 LIMIT 1000;

-- CountParked counts up to a limit.
-- name: CountParked :one
SELECT (SELECT count(*) FROM (SELECT FROM sink_parked p
                               WHERE p.sink = @sink AND p.due_at IS NOT NULL
                               LIMIT @most::BIGINT) a)::BIGINT AS parked,
       (SELECT count(*) FROM (SELECT FROM sink_parked p
                               WHERE p.sink = @sink AND p.due_at IS NULL
                               LIMIT @most::BIGINT) b)::BIGINT AS dead;

-- SinkFacts reads what events do not have. The transactions exist; an account has neither request
-- id nor labels.
-- name: SinkFacts :many
SELECT k.tx_id::UUID AS tx_id, coalesce(t.request_id, '')::TEXT AS request_id,
       coalesce(t.labels, '{}')::JSONB AS labels,
       EXISTS (SELECT FROM sink_parked p WHERE p.sink = @sink AND p.tx_id = k.tx_id) AS parked
  FROM (SELECT unnest(@submitter_ids::INT[]) AS submitter_id, unnest(@tx_ids::UUID[]) AS tx_id) k
 LEFT JOIN LATERAL (
       SELECT m.request_id, m.labels FROM managed_tx m
        WHERE m.submitter_id = k.submitter_id AND m.tx_id = k.tx_id
          AND (m.submitter_id, m.tx_id) >= (k.submitter_id, k.tx_id)
       OFFSET 0) t ON TRUE;

-- DueParked reads the parked transactions whose retry is due.
-- name: DueParked :many
SELECT p.sink, p.tx_id, p.submitter_id, p.next_seq, p.last_seq, p.attempts, p.parked_at, p.due_at,
       p.reason
  FROM sink_parked p
 WHERE p.sink = @sink AND p.due_at <= clock_timestamp()
 ORDER BY p.sink, p.due_at
 LIMIT @max_rows::INT;

-- ListParked pages through parked transactions: the dead ones, or all.
-- name: ListParked :many
SELECT p.sink, p.tx_id, p.submitter_id, p.next_seq, p.last_seq, p.attempts, p.parked_at, p.due_at,
       p.reason
  FROM sink_parked p
 WHERE p.sink = @sink AND (p.due_at IS NULL OR NOT @dead_only::BOOLEAN)
   AND p.tx_id > @after::UUID
 ORDER BY p.sink, p.tx_id
 LIMIT @max_rows::INT;

-- SetSinkStatus pauses or resumes. A sink without a position gets the given one, so that it keeps
-- the events of a pause. It is not done if that is not of the ledger as it is now: see CommitSink.
-- The time of a restore stays: see there, too.
-- name: SetSinkStatus :one
WITH decided AS (
    UPDATE sink_cursor c
       SET status = @status::TEXT, reason = @reason::TEXT, operator = @operator::TEXT,
           position = CASE WHEN c.position = '' THEN @position::TEXT ELSE c.position END,
           revision = c.revision + 1,
           updated_at = CASE WHEN c.restored THEN c.updated_at ELSE clock_timestamp() END
     WHERE c.sink = @sink
       AND (c.position <> ''
            OR EXISTS (SELECT FROM ledger g
                        WHERE g.feed_epoch = @epoch::BIGINT
                          AND coalesce(g.timeline, 0) = @timeline::BIGINT))
    RETURNING c.sink
), recorded AS (
    INSERT INTO sink_command (sink, kind, reason, operator, caller)
    SELECT d.sink, CASE WHEN @status::TEXT = 'ACTIVE' THEN 'SINK_RESUME' ELSE 'SINK_PAUSE' END,
           @reason::TEXT, @operator::TEXT, @caller::TEXT
      FROM decided d
    RETURNING command_id
)
SELECT EXISTS (SELECT FROM sink_cursor f WHERE f.sink = @sink)::BOOLEAN AS found,
       EXISTS (SELECT FROM recorded)::BOOLEAN AS done;

-- ReplaySink moves the cursor, unless an operator has decided since it was read; parked
-- transactions stay parked. It keeps the time of a restore: see CommitSink.
-- name: ReplaySink :one
WITH decided AS (
    UPDATE sink_cursor c
       SET position = @position::TEXT, operator = @operator::TEXT, reason = @reason::TEXT,
           revision = c.revision + 1,
           updated_at = CASE WHEN c.restored THEN c.updated_at ELSE clock_timestamp() END
     WHERE c.sink = @sink AND c.revision = @revision::BIGINT
    RETURNING c.sink
), recorded AS (
    INSERT INTO sink_command (sink, kind, action, reason, operator, caller)
    SELECT d.sink, 'SINK_REPLAY', @action::TEXT, @reason::TEXT, @operator::TEXT, @caller::TEXT
      FROM decided d
    RETURNING command_id
)
SELECT count(*) FROM recorded;

-- RetryParked makes one transaction due, or up to a limit of the dead ones. Only the first of
-- several calls for one decision records it.
-- name: RetryParked :one
WITH retried AS (
    UPDATE sink_parked p
       SET due_at = clock_timestamp(), parked_at = clock_timestamp(), attempts = 0
      FROM (SELECT d.sink, d.tx_id FROM sink_parked d
             WHERE d.sink = @sink
               AND CASE WHEN sqlc.narg('tx_id')::UUID IS NULL THEN d.due_at IS NULL
                        ELSE d.tx_id = sqlc.narg('tx_id')::UUID END
             ORDER BY d.sink, d.tx_id
             LIMIT @max_rows::INT
               FOR UPDATE) due
     WHERE p.sink = due.sink AND p.tx_id = due.tx_id
    RETURNING p.tx_id
), recorded AS (
    INSERT INTO sink_command (sink, kind, tx_id, reason, operator, caller)
    SELECT @sink, 'SINK_RETRY', sqlc.narg('tx_id')::UUID, @reason::TEXT, @operator::TEXT,
           @caller::TEXT
     WHERE @record::BOOLEAN AND EXISTS (SELECT FROM retried)
)
SELECT count(*) FROM retried;

-- SkipParked gives up the first undelivered event of a transaction, and retries those after it. The
-- event is named, so that a repeated call skips nothing more.
-- name: SkipParked :one
WITH skipped AS (
    UPDATE sink_parked p
       SET next_seq = p.next_seq + 1, attempts = 0, parked_at = clock_timestamp(),
           due_at = clock_timestamp(), reason = ''
     WHERE p.sink = @sink AND p.tx_id = @tx_id AND p.next_seq = @seq::BIGINT
       AND p.last_seq > p.next_seq
    RETURNING p.tx_id
), gone AS (
    DELETE FROM sink_parked p
     WHERE p.sink = @sink AND p.tx_id = @tx_id AND p.next_seq = @seq::BIGINT
       AND p.last_seq = p.next_seq
    RETURNING p.tx_id
), recorded AS (
    INSERT INTO sink_command (sink, kind, tx_id, action, reason, operator, caller)
    SELECT @sink, 'SINK_SKIP', d.tx_id, 'EVENT ' || @seq::BIGINT, @reason::TEXT, @operator::TEXT,
           @caller::TEXT
      FROM (SELECT s.tx_id FROM skipped s UNION ALL SELECT g.tx_id FROM gone g) d
)
SELECT ((SELECT count(*) FROM skipped) + (SELECT count(*) FROM gone))::BIGINT AS skipped;

-- SinkCommands lists the decisions about all sinks, newest first.
-- name: SinkCommands :many
SELECT c.command_id, c.sink, c.kind, c.tx_id, c.action, c.reason, c.operator, c.caller,
       c.created_at
  FROM sink_command c
 WHERE c.command_id < @before::BIGINT
 ORDER BY c.command_id DESC
 LIMIT @max_rows::INT;

-- FirstEventFrom reads the time of the first event from a number on, to find a time in the feed.
-- name: FirstEventFrom :one
SELECT e.xid::TEXT AS xid, e.created_at FROM tx_event e
 WHERE e.xid >= CAST(@xid::TEXT AS XID8)
 ORDER BY e.xid, e.submitter_id, e.tx_id, e.seq
 LIMIT 1;

-- TrimmedSince reports whether events since a time are in an archive: those of transactions that
-- were final before it are older. It reads the whole table, so callers ask only if they must.
-- name: TrimmedSince :one
SELECT EXISTS (SELECT FROM managed_tx t
                WHERE t.trimmed_at IS NOT NULL
                  AND t.terminal_at >= CAST(@since AS TIMESTAMPTZ))::BOOLEAN;

-- ParkUndelivered is for a ledger that was restored or moved, before its events get other numbers:
-- events that a sink has not passed wait as parked ones, and the sink continues at the end of the
-- feed. A transaction that is parked already keeps its first undelivered event.
-- name: ParkUndelivered :execrows
INSERT INTO sink_parked AS p (sink, tx_id, submitter_id, next_seq, last_seq, due_at, reason)
SELECT @sink::TEXT, e.tx_id, e.submitter_id, min(e.seq), max(e.seq), clock_timestamp(),
       'the ledger was restored'
  FROM tx_event e
 WHERE NOT pg_visible_in_snapshot(e.xid, CAST(@seen::TEXT AS PG_SNAPSHOT))
   AND (@until::TEXT = ''
        OR NOT pg_visible_in_snapshot(e.xid, CAST(coalesce(nullif(@until::TEXT, ''), '1:1:')
                                                  AS PG_SNAPSHOT))
        OR (e.xid, e.submitter_id, e.tx_id, e.seq)
           > (CAST(@after_xid::TEXT AS XID8), @after_submitter::INT, @after_tx::UUID,
              @after_seq::BIGINT))
 GROUP BY e.tx_id, e.submitter_id
    ON CONFLICT (sink, tx_id) DO UPDATE
   SET next_seq = least(p.next_seq, EXCLUDED.next_seq),
       last_seq = greatest(p.last_seq, EXCLUDED.last_seq);

-- RevokeSinks skips every token that the lost part of a ledger may have issued.
-- name: RevokeSinks :execrows
UPDATE sink_lease l
   SET fencing_token = l.fencing_token + @raise::BIGINT, owner_node = '',
       expires_at = clock_timestamp();

-- RestartSinks continues all sinks at a position, and has their receivers told.
-- name: RestartSinks :execrows
UPDATE sink_cursor c
   SET position = @position::TEXT, restored = TRUE, revision = c.revision + 1,
       updated_at = clock_timestamp();

-- FeedEnd is the end of the feed while no other process writes.
-- name: FeedEnd :one
SELECT l.feed_epoch, coalesce(l.timeline, 0)::BIGINT AS timeline,
       pg_current_snapshot()::TEXT AS snapshot
  FROM ledger l;
