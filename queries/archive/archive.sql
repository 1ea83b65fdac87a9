-- The archive of final transactions. One process works at a time, under a lease of its own whose
-- token each write locks, as in Commit.

-- AcquireArchive takes the lease if it is free, lapsed or this holder's own, under a new token.
-- name: AcquireArchive :one
UPDATE archive_lease l
   SET holder        = @holder::TEXT,
       fencing_token = l.fencing_token + 1,
       expires_at    = clock_timestamp() + make_interval(secs => @seconds::FLOAT8),
       lasts         = make_interval(secs => @seconds::FLOAT8)
 WHERE l.only_row
   AND (l.holder = @holder::TEXT OR l.expires_at <= clock_timestamp()
        OR l.expires_at > clock_timestamp() + l.lasts) -- the clock was set back since
RETURNING l.fencing_token;

-- name: ArchiveHolder :one
SELECT l.holder FROM archive_lease l WHERE l.expires_at > clock_timestamp();

-- name: RenewArchive :execrows
UPDATE archive_lease l
   SET expires_at = clock_timestamp() + make_interval(secs => @seconds::FLOAT8),
       lasts      = make_interval(secs => @seconds::FLOAT8)
 WHERE l.holder = @holder::TEXT AND l.fencing_token = @fencing_token::BIGINT
   AND l.expires_at > clock_timestamp();

-- name: ReleaseArchive :exec
UPDATE archive_lease l SET expires_at = clock_timestamp()
 WHERE l.holder = @holder::TEXT AND l.fencing_token = @fencing_token::BIGINT;

-- OlderNodes lists live nodes whose program does not know archived transactions.
-- name: OlderNodes :many
SELECT n.node_id FROM node n
 WHERE n.expires_at > clock_timestamp()
   AND coalesce(n.knows_schema, 0) < @schema_version::BIGINT
 ORDER BY n.node_id
 LIMIT 10;

-- ArchiveStart also keeps older programs from starting. The three parts of the ledger's identity
-- differ for any two ledgers of one server.
-- name: ArchiveStart :one
UPDATE ledger g
   SET min_node_schema = greatest(g.min_node_schema, @schema_version::BIGINT)
 WHERE g.only_row
RETURNING clock_timestamp()::TIMESTAMPTZ AS now,
          (pg_snapshot_xmin(pg_current_snapshot())::TEXT::BIGINT)::BIGINT AS begin_xid,
          coalesce(g.system_id, 0)::BIGINT AS system_id,
          (SELECT d.oid::BIGINT FROM pg_catalog.pg_database d
            WHERE d.datname = current_database())::BIGINT AS database_oid,
          coalesce(current_schema()::TEXT, '')::TEXT AS schema_name;

-- SinkPositions lists the positions that keep events.
-- name: SinkPositions :many
SELECT c.sink, c.position FROM sink_cursor c WHERE c.position <> '' ORDER BY c.sink;

-- name: ArchivedSubmitters :many
SELECT s.submitter_id FROM submitter s ORDER BY s.submitter_id;

-- ArchiveWindow bounds the next reads by rows, whether or not they are to be archived.
-- name: ArchiveWindow :one
SELECT count(*) AS transactions,
       coalesce((array_agg(w.tx_id ORDER BY w.tx_id DESC))[1], @after::UUID)::UUID AS upto,
       coalesce(sum(w.bytes), 0)::BIGINT AS bytes
  FROM (SELECT t.tx_id, octet_length(t.data) AS bytes FROM managed_tx t
         WHERE t.submitter_id = @submitter_id AND t.tx_id > @after::UUID
           AND t.tx_id < @before_id::UUID
         ORDER BY t.tx_id
         LIMIT @max_rows::INT) w;

-- ArchivePage reads the transactions of a window that may be archived, each as one line of an
-- archive, without signed bytes. A transaction may be archived once it is
-- final, no owner compares it with the chain any more, and every sink has passed its newest event
-- and has accepted it.
-- name: ArchivePage :many
SELECT t.submitter_id, t.tx_id, t.version, x.newest_xid,
       (json_build_object(
            'format', 1, 'submitter', s.name, 'chain_id', s.chain_id,
            'address', '0x' || encode(s.address, 'hex'),
            'transaction', row_to_json(t),
            'attempts',
            coalesce((SELECT json_agg(json_build_object(
                                          'attempt_no', a.attempt_no, 'kind', a.kind,
                                          'nonce', a.nonce, 'tx_hash', a.tx_hash,
                                          'gas_limit', a.gas_limit,
                                          'fee_cap', a.fee_cap, 'tip', a.tip,
                                          'legacy', a.legacy, 'created_at', a.created_at)
                                      ORDER BY a.attempt_no)
                        FROM tx_attempt a
                       WHERE a.submitter_id = t.submitter_id AND a.tx_id = t.tx_id), '[]'),
            'events',
            coalesce((SELECT json_agg(row_to_json(e) ORDER BY e.seq)
                        FROM tx_event e
                       WHERE e.submitter_id = t.submitter_id AND e.tx_id = t.tx_id), '[]')
        ))::TEXT AS line
  FROM managed_tx t
  JOIN submitter s ON s.submitter_id = t.submitter_id
  LEFT JOIN submitter_settled d ON d.submitter_id = t.submitter_id
 CROSS JOIN LATERAL (
       SELECT coalesce(max(e.xid::TEXT::BIGINT), 0)::BIGINT AS newest_xid
         FROM tx_event e
        WHERE e.submitter_id = t.submitter_id AND e.tx_id = t.tx_id) x
 WHERE t.submitter_id = @submitter_id AND t.tx_id > @after::UUID AND t.tx_id <= @upto::UUID
   AND t.state IN ('CONFIRMED', 'FAILED_FINAL', 'CANCELLED')
   AND t.terminal_at < CAST(@before AS TIMESTAMPTZ)
   AND CASE WHEN @whole::BOOLEAN THEN t.archived_at IS NULL ELSE t.trimmed_at IS NULL END
   AND CASE WHEN t.nonce IS NULL THEN t.requeued = 0 ELSE t.nonce < d.settled_below END
   AND x.newest_xid < @floor_xid::BIGINT
   AND NOT EXISTS (SELECT FROM sink_parked p WHERE p.tx_id = t.tx_id)
 ORDER BY t.tx_id;

-- RaiseTrimmed makes resume tokens invalid that have not seen all events up to a number. It comes
-- before the removal, so that a reader never misses an event without an error.
-- name: RaiseTrimmed :one
WITH lease AS MATERIALIZED (
    SELECT l.only_row FROM archive_lease l
     WHERE l.holder = @holder::TEXT AND l.fencing_token = @fencing_token::BIGINT
       AND l.expires_at > clock_timestamp()
       FOR KEY SHARE OF l
), ok AS (
    UPDATE ledger g SET trimmed_xid = greatest(g.trimmed_xid, @xid::BIGINT)
      FROM lease l WHERE g.only_row = l.only_row
    RETURNING g.only_row
)
SELECT EXISTS (SELECT FROM ok)::BOOLEAN AS ok;

-- RemoveArchived removes data that a complete archive holds: the events of these transactions and,
-- if @whole, their call data and labels, but for the name of their pool: requests and lists by pool
-- still find them. A transaction that changed since, or that a sink has to deliver again, stays as
-- it is.
-- name: RemoveArchived :one
WITH lease AS MATERIALIZED (
    SELECT l.only_row FROM archive_lease l
     WHERE l.holder = @holder::TEXT AND l.fencing_token = @fencing_token::BIGINT
       AND l.expires_at > clock_timestamp()
       FOR KEY SHARE OF l
), tx AS MATERIALIZED (
    SELECT t.submitter_id, t.tx_id
      FROM lease l
     CROSS JOIN (SELECT unnest(@submitter_ids::INT[]) AS submitter_id,
                        unnest(@tx_ids::UUID[])       AS tx_id,
                        unnest(@versions::BIGINT[])   AS version) k
      JOIN managed_tx t ON t.submitter_id = k.submitter_id AND t.tx_id = k.tx_id
                       AND (t.submitter_id, t.tx_id) >= (k.submitter_id, k.tx_id)
     WHERE t.version = k.version AND t.terminal_at IS NOT NULL
       AND t.state IN ('CONFIRMED', 'FAILED_FINAL', 'CANCELLED')
       AND CASE WHEN @whole::BOOLEAN THEN t.archived_at IS NULL ELSE t.trimmed_at IS NULL END
       AND NOT EXISTS (SELECT FROM sink_parked p WHERE p.tx_id = k.tx_id)
     ORDER BY t.submitter_id, t.tx_id
       FOR NO KEY UPDATE OF t
), events_removed AS (
    DELETE FROM tx_event e USING tx o
     WHERE e.submitter_id = o.submitter_id AND e.tx_id = o.tx_id
    RETURNING e.seq
), labels_removed AS (
    DELETE FROM tx_label b USING tx o
     WHERE @whole::BOOLEAN AND b.submitter_id = o.submitter_id AND b.tx_id = o.tx_id
       AND b.key <> '@pool'
), marked AS (
    UPDATE managed_tx t
       SET trimmed_at  = coalesce(t.trimmed_at, clock_timestamp()),
           archived_at = CASE WHEN @whole::BOOLEAN THEN clock_timestamp() END,
           data        = CASE WHEN @whole::BOOLEAN THEN '' ELSE t.data END,
           labels      = CASE WHEN NOT @whole::BOOLEAN THEN t.labels
                              WHEN t.labels -> '@pool' IS NULL THEN '{}'
                              ELSE jsonb_build_object('@pool', t.labels -> '@pool') END
      FROM tx o
     WHERE t.submitter_id = o.submitter_id AND t.tx_id = o.tx_id
       AND (t.submitter_id, t.tx_id) >= (o.submitter_id, o.tx_id)
)
SELECT EXISTS (SELECT FROM lease)::BOOLEAN AS held, (SELECT count(*) FROM tx) AS transactions,
       (SELECT count(*) FROM events_removed) AS events;

-- ArchiveRequestWindow bounds the next read of requests by rows, like ArchiveWindow.
-- name: ArchiveRequestWindow :one
SELECT count(*) AS requests, coalesce(max(w.request_no), 0)::BIGINT AS upto
  FROM (SELECT q.request_no FROM nonce_request q
         WHERE q.submitter_id = @submitter_id AND q.request_no > @after::BIGINT
         ORDER BY q.request_no
         LIMIT @max_rows::INT) w;

-- ArchiveRequestPage reads the requests of a window that may be archived, each as one line of an
-- archive: answered, and their nonce ACCEPTED, by then.
-- name: ArchiveRequestPage :many
SELECT (json_build_object(
            'format', 1, 'submitter', s.name, 'chain_id', s.chain_id,
            'address', '0x' || encode(s.address, 'hex'),
            'request', row_to_json(q)))::TEXT AS line
  FROM nonce_request q
  JOIN submitter s ON s.submitter_id = q.submitter_id
 WHERE q.submitter_id = @submitter_id AND q.request_no > @after::BIGINT
   AND q.request_no <= @upto::BIGINT
   AND q.applied_at < CAST(@before AS TIMESTAMPTZ)
   AND request_ended_at(q.submitter_id, q.reservation_id, q.kind) < CAST(@before AS TIMESTAMPTZ)
 ORDER BY q.request_no;

-- RemoveRequests removes requests that a complete archive holds. After a restore another request
-- may have the number of one, so each is compared with the file. Answered ones never change.
-- name: RemoveRequests :one
WITH lease AS MATERIALIZED (
    SELECT l.only_row FROM archive_lease l
     WHERE l.holder = @holder::TEXT AND l.fencing_token = @fencing_token::BIGINT
       AND l.expires_at > clock_timestamp()
       FOR KEY SHARE OF l
), removed AS (
    DELETE FROM nonce_request q
     USING (SELECT unnest(@submitter_ids::INT[])         AS submitter_id,
                   unnest(@request_nos::BIGINT[])        AS request_no,
                   unnest(@reservations::UUID[])         AS reservation_id,
                   unnest(@applied_ats::TIMESTAMPTZ[])   AS applied_at) k
     WHERE EXISTS (SELECT FROM lease)
       AND q.submitter_id = k.submitter_id AND q.request_no = k.request_no
       AND q.reservation_id = k.reservation_id AND q.applied_at = k.applied_at
       AND request_ended_at(q.submitter_id, q.reservation_id, q.kind) IS NOT NULL
    RETURNING q.request_no
)
SELECT EXISTS (SELECT FROM lease)::BOOLEAN AS held, (SELECT count(*) FROM removed) AS requests;
