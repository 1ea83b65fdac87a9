-- The feed of events. Commits finish out of order, so "after the last id" would skip rows. A
-- snapshot tells exactly what a reader has seen: whatever is visible now and was not visible in the
-- reader's last snapshot is new. The order by xid is the order of seq within a transaction, since a
-- move is made only by a statement that saw the move before it.

-- FeedHead also reports whether there are events that an older snapshot does not see, and whether
-- the snapshot is settled already: it is when the last transaction that ended before it wrote an
-- event, for that was on the disk before it was visible, and so no number up to its own is given
-- out again. A snapshot does not see numbers from its xmax on, and those that were in progress:
-- both are read along the index. From its xmin on there may be many events that it sees, since one
-- open transaction anywhere in the cluster keeps xmin back.
-- name: FeedHead :one
SELECT l.feed_epoch, pg_current_snapshot()::TEXT AS snapshot,
       coalesce(l.timeline, 0)::BIGINT AS timeline,
       coalesce(l.timeline_before, 0)::BIGINT AS timeline_before,
       coalesce(l.timeline_xid, '0')::TEXT::BIGINT AS timeline_xid,
       EXISTS (SELECT FROM tx_event n WHERE n.xid = CAST((pg_snapshot_xmax(pg_current_snapshot())::TEXT::BIGINT - 1)::TEXT AS XID8)) AS settled,
       coalesce((SELECT TRUE FROM tx_event e
                  WHERE e.xid >= pg_snapshot_xmax(CAST(@since::TEXT AS PG_SNAPSHOT))
                  ORDER BY e.xid LIMIT 1),
                -- not by equality, for which the planner may read the table
                (SELECT TRUE FROM pg_snapshot_xip(CAST(@since::TEXT AS PG_SNAPSHOT)) p(xid)
                  WHERE (SELECT v.xid FROM tx_event v WHERE v.xid >= p.xid
                          ORDER BY v.xid LIMIT 1) = p.xid
                  LIMIT 1), FALSE)::BOOLEAN AS news
  FROM ledger l;

-- Settle makes everything durable that ended before it. A crash of PostgreSQL gives out again the
-- numbers (xid) of transactions whose end was not on disk yet, such as those that were rolled back
-- or only notified; a snapshot of before the crash would take what runs under them then for old.
-- name: Settle :exec
SELECT pg_logical_emit_message(TRUE, 'fencepost', '');

-- EventsSince looks up what is no part of an event for the rows of the page, and joins nothing,
-- whatever the planner thinks of their number; by the key as a whole: see Commit. Where nothing has
-- a label none is looked for. Names of submitters its caller has. See FeedHead for the two parts:
-- all in the first precede those in the second.
-- name: EventsSince :many
SELECT e.submitter_id, ''::TEXT AS submitter_name, e.tx_id, e.seq, e.kind, e.state, e.sub_state, e.executed, e.tx_hash, e.receipt_tx_hash, e.receipt_block,
       e.receipt_block_hash, e.receipt_success, e.receipt_gas_used, e.receipt_gas_price, e.reason, e.message, e.new_fork, e.above,
       e.created_at, e.xid::TEXT AS xid,
       (CASE WHEN e.receipt_tx_hash IS NULL THEN '' ELSE
            coalesce((SELECT a.kind FROM tx_attempt a WHERE a.submitter_id = e.submitter_id AND a.tx_hash = e.receipt_tx_hash
                         AND (a.submitter_id, a.tx_hash) >= (e.submitter_id, e.receipt_tx_hash)), '') END)::TEXT AS receipt_kind,
       (CASE WHEN (SELECT TRUE FROM tx_label LIMIT 1) THEN
            coalesce((SELECT t.labels FROM managed_tx t
                       WHERE t.submitter_id = e.submitter_id AND t.tx_id = e.tx_id AND (t.submitter_id, t.tx_id) >= (e.submitter_id, e.tx_id)), '{}') ELSE '{}' END)::JSONB AS labels
  FROM ((SELECT n.* FROM pg_snapshot_xip(CAST(@since::TEXT AS PG_SNAPSHOT)) p(xid)
          CROSS JOIN LATERAL (
                SELECT v.* FROM tx_event v
                 WHERE v.xid = p.xid
                   AND pg_visible_in_snapshot(v.xid, CAST(@until::TEXT AS PG_SNAPSHOT))
                   AND (v.xid, v.submitter_id, v.tx_id, v.seq)
                       > (CAST(@after_xid::TEXT AS XID8), @after_submitter::INT, @after_tx::UUID, @after_seq::BIGINT)
                   AND (@submitter_id::INT = 0 OR v.submitter_id = @submitter_id::INT)
                OFFSET 0) n
          ORDER BY n.xid, n.submitter_id, n.tx_id, n.seq
          LIMIT @max_rows::INT)
         UNION ALL
        (SELECT n.* FROM tx_event n
          WHERE n.xid >= greatest(CAST(@after_xid::TEXT AS XID8), pg_snapshot_xmax(CAST(@since::TEXT AS PG_SNAPSHOT)))
            AND n.xid < pg_snapshot_xmax(CAST(@until::TEXT AS PG_SNAPSHOT))
            AND pg_visible_in_snapshot(n.xid, CAST(@until::TEXT AS PG_SNAPSHOT))
            AND (n.xid, n.submitter_id, n.tx_id, n.seq)
                > (CAST(@after_xid::TEXT AS XID8), @after_submitter::INT, @after_tx::UUID, @after_seq::BIGINT)
            AND (@submitter_id::INT = 0 OR n.submitter_id = @submitter_id::INT)
          ORDER BY n.xid, n.submitter_id, n.tx_id, n.seq
          LIMIT @max_rows::INT)) e
 ORDER BY e.xid, e.submitter_id, e.tx_id, e.seq
 LIMIT @max_rows::INT;

-- name: EventsOfTx :many
SELECT e.submitter_id, s.name AS submitter_name, e.tx_id, e.seq, e.kind, e.state, e.sub_state, e.executed, e.tx_hash, e.receipt_tx_hash, e.receipt_block,
       e.receipt_block_hash, e.receipt_success, e.receipt_gas_used, e.receipt_gas_price, e.reason, e.message, e.new_fork, e.above,
       e.created_at, e.xid::TEXT AS xid,
       (CASE WHEN e.receipt_tx_hash IS NULL THEN '' ELSE
            coalesce((SELECT a.kind FROM tx_attempt a WHERE a.submitter_id = e.submitter_id AND a.tx_hash = e.receipt_tx_hash
                         AND (a.submitter_id, a.tx_hash) >= (e.submitter_id, e.receipt_tx_hash)), '') END)::TEXT AS receipt_kind,
       '{}'::JSONB AS labels -- of no use here
  FROM tx_event e JOIN submitter s ON s.submitter_id = e.submitter_id
 WHERE e.submitter_id = @submitter_id AND e.tx_id = @tx_id AND e.seq > @after_seq::BIGINT
 ORDER BY e.seq
 LIMIT @max_rows::INT;

-- EventsSinceOf is EventsSince of some transactions that are named. It reads along the key of each,
-- however much there is in the feed that is none of theirs.
-- name: EventsSinceOf :many
SELECT f.submitter_id, s.name AS submitter_name, f.tx_id, f.seq, f.kind, f.state, f.sub_state, f.executed, f.tx_hash, f.receipt_tx_hash, f.receipt_block,
       f.receipt_block_hash, f.receipt_success, f.receipt_gas_used, f.receipt_gas_price, f.reason, f.message, f.new_fork, f.above,
       f.created_at, f.xid::TEXT AS xid,
       (CASE WHEN f.receipt_tx_hash IS NULL THEN '' ELSE
            coalesce((SELECT a.kind FROM tx_attempt a WHERE a.submitter_id = f.submitter_id AND a.tx_hash = f.receipt_tx_hash
                         AND (a.submitter_id, a.tx_hash) >= (f.submitter_id, f.receipt_tx_hash)), '') END)::TEXT AS receipt_kind,
       '{}'::JSONB AS labels -- of no use here
  FROM (SELECT unnest(@submitter_ids::INT[]) AS submitter_id, unnest(@tx_ids::UUID[]) AS tx_id) k
 CROSS JOIN LATERAL (
       SELECT e.* FROM tx_event e
        WHERE e.submitter_id = k.submitter_id AND e.tx_id = k.tx_id
          AND NOT pg_visible_in_snapshot(e.xid, CAST(@since::TEXT AS PG_SNAPSHOT))
          AND pg_visible_in_snapshot(e.xid, CAST(@until::TEXT AS PG_SNAPSHOT))
          AND (e.xid, e.submitter_id, e.tx_id, e.seq) > (CAST(@after_xid::TEXT AS XID8), @after_submitter::INT, @after_tx::UUID, @after_seq::BIGINT)
        ORDER BY e.seq -- which is their order in the feed
        LIMIT @max_rows::INT) f
  JOIN submitter s ON s.submitter_id = f.submitter_id
 ORDER BY f.xid, f.submitter_id, f.tx_id, f.seq
 LIMIT @max_rows::INT;
