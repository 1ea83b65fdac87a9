-- What the owner of a sink writes, behind a fence like that of Commit: the token is locked in the
-- same statement, so nothing written under an older one can commit.

-- CommitSink moves the cursor past events that were delivered, and parks those that were not. It is
-- a conflict if an operator has decided since the cursor was read, which raises the revision, or if
-- the events were read from a server that another one has replaced: it may have lost them, and gave
-- out numbers that other events have now. While the receiver is to be told of a restore, updated_at
-- is the time of the restore.
-- name: CommitSink :one
WITH lease AS MATERIALIZED (
    SELECT l.sink FROM sink_lease l
     WHERE l.sink = @sink AND l.owner_node = @owner_node::TEXT
       AND l.fencing_token = @fencing_token::BIGINT AND l.expires_at > clock_timestamp()
       FOR KEY SHARE OF l
), ok AS (
    UPDATE sink_cursor c
       SET position      = CASE WHEN @position::TEXT = '' THEN c.position
                                ELSE @position::TEXT END,
           delivered     = c.delivered + @delivered::BIGINT,
           event_at      = coalesce(sqlc.narg('event_at')::TIMESTAMPTZ, c.event_at),
           restored      = c.restored AND NOT @announced::BOOLEAN,
           status        = CASE WHEN @disable::TEXT <> '' THEN 'DISABLED' ELSE c.status END,
           reason        = CASE WHEN @disable::TEXT <> '' THEN @disable::TEXT
                                ELSE coalesce(sqlc.narg('reason')::TEXT, c.reason) END,
           revision      = c.revision + (CASE WHEN @disable::TEXT <> '' THEN 1 ELSE 0 END),
           fencing_token = @fencing_token::BIGINT,
           updated_at    = CASE WHEN c.restored AND NOT @announced::BOOLEAN THEN c.updated_at
                                ELSE clock_timestamp() END
      FROM lease l
     WHERE c.sink = l.sink AND c.revision = @revision::BIGINT AND c.status = 'ACTIVE'
       AND (@position::TEXT = ''
            OR EXISTS (SELECT FROM ledger g
                        WHERE g.feed_epoch = @epoch::BIGINT
                          AND coalesce(g.timeline, 0) = @timeline::BIGINT))
    RETURNING c.sink
), parked AS (
    INSERT INTO sink_parked AS p (sink, tx_id, submitter_id, next_seq, last_seq, attempts, due_at,
                                  reason, fencing_token)
    SELECT o.sink, n.tx_id, n.submitter_id, n.first_seq, n.last_seq, n.attempts,
           CASE WHEN n.delay_ms >= 0
                THEN clock_timestamp() + make_interval(secs => n.delay_ms / 1000.0) END,
           n.reason, @fencing_token::BIGINT
      FROM ok o
     CROSS JOIN (SELECT unnest(@tx_ids::UUID[]) AS tx_id,
                        unnest(@submitter_ids::INT[]) AS submitter_id,
                        unnest(@first_seqs::BIGINT[]) AS first_seq,
                        unnest(@last_seqs::BIGINT[]) AS last_seq,
                        unnest(@attempts::INT[]) AS attempts,
                        unnest(@delays_ms::BIGINT[]) AS delay_ms,
                        unnest(@reasons::TEXT[]) AS reason) n
     ORDER BY n.tx_id
        ON CONFLICT (sink, tx_id) DO UPDATE
       SET next_seq      = least(p.next_seq, EXCLUDED.next_seq),
           last_seq      = greatest(p.last_seq, EXCLUDED.last_seq),
           fencing_token = EXCLUDED.fencing_token
)
SELECT (CASE WHEN EXISTS (SELECT FROM ok) THEN 'DONE'
             WHEN EXISTS (SELECT FROM lease) THEN 'CONFLICT'
             ELSE 'FENCED' END)::TEXT AS outcome;

-- CommitParked records retries of parked transactions. A row whose first undelivered event is
-- another one by now, because an operator skipped it, stays as it is. What is delivered completely
-- is removed; the rest waits, and is dead once it has waited longer than it may.
-- name: CommitParked :one
WITH lease AS MATERIALIZED (
    SELECT l.sink FROM sink_lease l
     WHERE l.sink = @sink AND l.owner_node = @owner_node::TEXT
       AND l.fencing_token = @fencing_token::BIGINT AND l.expires_at > clock_timestamp()
       FOR KEY SHARE OF l
), result AS (
    SELECT l.sink, unnest(@tx_ids::UUID[]) AS tx_id,
           unnest(@before_seqs::BIGINT[]) AS before_seq,
           unnest(@next_seqs::BIGINT[]) AS next_seq,
           unnest(@delays_ms::BIGINT[]) AS delay_ms,
           unnest(@failed::BOOLEAN[]) AS failed,
           unnest(@reasons::TEXT[]) AS reason
      FROM lease l
), done AS (
    DELETE FROM sink_parked p
     USING result r
     WHERE p.sink = r.sink AND p.tx_id = r.tx_id AND p.next_seq = r.before_seq
       AND r.next_seq > p.last_seq
    RETURNING p.tx_id
), rest AS (
    UPDATE sink_parked p
       SET next_seq      = r.next_seq,
           attempts      = CASE WHEN NOT r.failed THEN 0
                                WHEN r.next_seq > p.next_seq THEN 1 ELSE p.attempts + 1 END,
           parked_at     = CASE WHEN r.next_seq > p.next_seq THEN clock_timestamp()
                                ELSE p.parked_at END,
           due_at        = CASE WHEN NOT r.failed THEN clock_timestamp()
                                WHEN r.delay_ms < 0 THEN NULL
                                WHEN r.next_seq = p.next_seq
                                     AND p.parked_at + make_interval(secs => @keep_seconds::FLOAT8)
                                         <= clock_timestamp() THEN NULL
                                ELSE clock_timestamp()
                                     + make_interval(secs => r.delay_ms / 1000.0) END,
           reason        = r.reason,
           fencing_token = @fencing_token::BIGINT
      FROM result r
     WHERE p.sink = r.sink AND p.tx_id = r.tx_id AND p.next_seq = r.before_seq
       AND r.next_seq <= p.last_seq
    RETURNING p.due_at
)
SELECT (CASE WHEN EXISTS (SELECT FROM lease) THEN 'DONE' ELSE 'FENCED' END)::TEXT AS outcome,
       (SELECT count(*) FROM rest WHERE rest.due_at IS NULL)::BIGINT AS dead;
