-- The feed of events. Commits finish out of order, so "after the last id" would skip rows. A
-- snapshot defines exactly which events a reader has seen: an event that is visible now, and was
-- not visible in the reader's last snapshot, is new. The order by xid is the order of seq within a
-- transaction, because a move is made only by a statement that saw the move before it.

-- FeedHead returns the current snapshot, whether there are events that an older snapshot does not
-- see (news), and whether the current one is durable (settled). It is durable if the last
-- transaction that finished before it wrote an event: that commit was on disk before it became
-- visible, so a crash cannot reuse any number up to its own. A snapshot does not see numbers from
-- its xmax on, and the ones that were in progress: both are read along the index. From its xmin on
-- there may be many events that it sees, because one open transaction anywhere in the cluster keeps
-- xmin back.
-- name: FeedHead :one
SELECT l.feed_epoch, pg_current_snapshot()::TEXT AS snapshot,
       coalesce(l.timeline, 0)::BIGINT AS timeline,
       coalesce(l.timeline_before, 0)::BIGINT AS timeline_before,
       coalesce(l.timeline_xid, '0')::TEXT::BIGINT AS timeline_xid, l.trimmed_xid,
       EXISTS (SELECT FROM tx_event n
                WHERE n.xid = CAST((pg_snapshot_xmax(pg_current_snapshot())::TEXT::BIGINT - 1)::TEXT
                                   AS XID8)) AS settled,
       coalesce((SELECT TRUE FROM tx_event e
                  WHERE e.xid >= pg_snapshot_xmax(CAST(@since::TEXT AS PG_SNAPSHOT))
                  ORDER BY e.xid LIMIT 1),
                -- not by equality, for which the planner may read the table
                (SELECT TRUE FROM pg_snapshot_xip(CAST(@since::TEXT AS PG_SNAPSHOT)) p(xid)
                  WHERE (SELECT v.xid FROM tx_event v WHERE v.xid >= p.xid
                          ORDER BY v.xid LIMIT 1) = p.xid
                  LIMIT 1), FALSE)::BOOLEAN AS news
  FROM ledger l;

-- Settle makes everything durable that finished before it. After a crash PostgreSQL reuses the
-- numbers (xid) of transactions whose end was not yet on disk, such as rollbacks and transactions
-- that only notified. A snapshot from before the crash would then count new events under these
-- numbers as seen.
-- name: Settle :exec
SELECT pg_logical_emit_message(TRUE, 'fencepost', '');

-- EventsSince reads the columns that are not in the event only for the rows of the page. It uses no
-- join, so that the planner's estimate of rows does not matter, and compares the whole key: see
-- Commit. Labels are read only if there are any. Callers know the names of submitters. See
-- FeedHead for the two parts: all events of the first precede the events of the second.
--
-- The second part sorts, so it needs an end: the last of as many events as fit into the page, along
-- the index. Without one, a planner that expects few rows sorts a whole backlog for each page.
-- name: EventsSince :many
SELECT e.submitter_id, ''::TEXT AS submitter_name, e.tx_id, e.seq, e.kind, e.state, e.sub_state,
       e.executed, e.tx_hash, e.receipt_tx_hash, e.receipt_block, e.receipt_block_hash,
       e.receipt_success, e.receipt_gas_used, e.receipt_gas_price, e.receipt_more, e.reason,
       e.message, e.new_fork, e.above, e.created_at, e.xid::TEXT AS xid,
       (CASE WHEN e.receipt_tx_hash IS NULL THEN '' ELSE
            coalesce((SELECT a.kind FROM tx_attempt a
                       WHERE a.submitter_id = e.submitter_id AND a.tx_hash = e.receipt_tx_hash
                         AND (a.tx_hash, a.submitter_id) >= (e.receipt_tx_hash, e.submitter_id)),
                     '') END)::TEXT AS receipt_kind,
       (CASE WHEN (SELECT TRUE FROM tx_label LIMIT 1) THEN
            coalesce((SELECT t.labels FROM managed_tx t
                       WHERE t.submitter_id = e.submitter_id AND t.tx_id = e.tx_id
                         AND (t.submitter_id, t.tx_id) >= (e.submitter_id, e.tx_id)),
                     '{}') ELSE '{}' END)::JSONB AS labels
  FROM ((SELECT n.* FROM pg_snapshot_xip(CAST(@since::TEXT AS PG_SNAPSHOT)) p(xid)
          CROSS JOIN LATERAL (
                SELECT v.* FROM tx_event v
                 WHERE v.xid = p.xid
                   AND pg_visible_in_snapshot(v.xid, CAST(@until::TEXT AS PG_SNAPSHOT))
                   AND (v.xid, v.submitter_id, v.tx_id, v.seq)
                       > (CAST(@after_xid::TEXT AS XID8), @after_submitter::INT, @after_tx::UUID,
                          @after_seq::BIGINT)
                   AND (@submitter_id::INT = 0 OR v.submitter_id = @submitter_id::INT)
                OFFSET 0) n
          ORDER BY n.xid, n.submitter_id, n.tx_id, n.seq
          LIMIT @max_rows::INT)
         UNION ALL
        (SELECT n.* FROM tx_event n
          WHERE n.xid >= greatest(CAST(@after_xid::TEXT AS XID8),
                                  pg_snapshot_xmax(CAST(@since::TEXT AS PG_SNAPSHOT)))
            AND n.xid <= (SELECT p.xid
                            FROM (SELECT v.xid FROM tx_event v
                                   WHERE v.xid >= greatest(CAST(@after_xid::TEXT AS XID8),
                                             pg_snapshot_xmax(CAST(@since::TEXT AS PG_SNAPSHOT)))
                                     AND v.xid < pg_snapshot_xmax(
                                                     CAST(@until::TEXT AS PG_SNAPSHOT))
                                     AND pg_visible_in_snapshot(
                                             v.xid, CAST(@until::TEXT AS PG_SNAPSHOT))
                                     AND (v.xid, v.submitter_id, v.tx_id, v.seq)
                                         > (CAST(@after_xid::TEXT AS XID8),
                                            @after_submitter::INT, @after_tx::UUID,
                                            @after_seq::BIGINT)
                                     AND (@submitter_id::INT = 0
                                          OR v.submitter_id = @submitter_id::INT)
                                   ORDER BY v.xid
                                   LIMIT @max_rows::INT) p
                           ORDER BY p.xid DESC
                           LIMIT 1)
            AND pg_visible_in_snapshot(n.xid, CAST(@until::TEXT AS PG_SNAPSHOT))
            AND (n.xid, n.submitter_id, n.tx_id, n.seq)
                > (CAST(@after_xid::TEXT AS XID8), @after_submitter::INT, @after_tx::UUID,
                   @after_seq::BIGINT)
            AND (@submitter_id::INT = 0 OR n.submitter_id = @submitter_id::INT)
          ORDER BY n.xid, n.submitter_id, n.tx_id, n.seq
          LIMIT @max_rows::INT)) e
 ORDER BY e.xid, e.submitter_id, e.tx_id, e.seq
 LIMIT @max_rows::INT;

-- name: EventsOfTx :many
SELECT e.submitter_id, s.name AS submitter_name, e.tx_id, e.seq, e.kind, e.state, e.sub_state,
       e.executed, e.tx_hash, e.receipt_tx_hash, e.receipt_block, e.receipt_block_hash,
       e.receipt_success, e.receipt_gas_used, e.receipt_gas_price, e.receipt_more, e.reason,
       e.message, e.new_fork, e.above, e.created_at, e.xid::TEXT AS xid,
       (CASE WHEN e.receipt_tx_hash IS NULL THEN '' ELSE
            coalesce((SELECT a.kind FROM tx_attempt a
                       WHERE a.submitter_id = e.submitter_id AND a.tx_hash = e.receipt_tx_hash
                         AND (a.tx_hash, a.submitter_id) >= (e.receipt_tx_hash, e.submitter_id)),
                     '') END)::TEXT AS receipt_kind,
       '{}'::JSONB AS labels -- not used here
  FROM tx_event e JOIN submitter s ON s.submitter_id = e.submitter_id
 WHERE e.submitter_id = @submitter_id AND e.tx_id = @tx_id AND e.seq > @after_seq::BIGINT
 ORDER BY e.seq
 LIMIT @max_rows::INT;

-- EventsSinceOf is EventsSince for the given transactions. It reads along the key of each, so that
-- other events in the feed cost nothing.
-- name: EventsSinceOf :many
SELECT f.submitter_id, s.name AS submitter_name, f.tx_id, f.seq, f.kind, f.state, f.sub_state,
       f.executed, f.tx_hash, f.receipt_tx_hash, f.receipt_block, f.receipt_block_hash,
       f.receipt_success, f.receipt_gas_used, f.receipt_gas_price, f.receipt_more, f.reason,
       f.message, f.new_fork, f.above, f.created_at, f.xid::TEXT AS xid,
       (CASE WHEN f.receipt_tx_hash IS NULL THEN '' ELSE
            coalesce((SELECT a.kind FROM tx_attempt a
                       WHERE a.submitter_id = f.submitter_id AND a.tx_hash = f.receipt_tx_hash
                         AND (a.tx_hash, a.submitter_id) >= (f.receipt_tx_hash, f.submitter_id)),
                     '') END)::TEXT AS receipt_kind,
       '{}'::JSONB AS labels -- not used here
  FROM (SELECT unnest(@submitter_ids::INT[]) AS submitter_id, unnest(@tx_ids::UUID[]) AS tx_id) k
 CROSS JOIN LATERAL (
       SELECT e.* FROM tx_event e
        WHERE e.submitter_id = k.submitter_id AND e.tx_id = k.tx_id
          AND NOT pg_visible_in_snapshot(e.xid, CAST(@since::TEXT AS PG_SNAPSHOT))
          AND pg_visible_in_snapshot(e.xid, CAST(@until::TEXT AS PG_SNAPSHOT))
          AND (e.xid, e.submitter_id, e.tx_id, e.seq)
              > (CAST(@after_xid::TEXT AS XID8), @after_submitter::INT, @after_tx::UUID,
                 @after_seq::BIGINT)
        ORDER BY e.seq -- their order in the feed
        LIMIT @max_rows::INT) f
  JOIN submitter s ON s.submitter_id = f.submitter_id
 ORDER BY f.xid, f.submitter_id, f.tx_id, f.seq
 LIMIT @max_rows::INT;
