-- The state of the whole cluster, for operators.

-- NodesWithLeases lists the live nodes with the number of their live leases.
-- name: NodesWithLeases :many
SELECT n.node_id, n.chain_ids, n.accepting, n.started_at, n.expires_at,
       (SELECT count(*) FROM submitter_lease l
         WHERE l.owner_node = n.node_id
           AND l.expires_at > clock_timestamp())::BIGINT AS leases
  FROM node n WHERE n.expires_at > clock_timestamp()
 ORDER BY n.node_id
 LIMIT @max_rows::INT;

-- Totals counts over the submitters with these names, or all. Queued transactions are counted up to
-- @most_queued in all: a queue may hold millions. Those that await an approval are counted up to
-- @most_awaiting.
-- name: Totals :one
WITH awaiting AS MATERIALIZED (
    SELECT t.created_at
      FROM tx_approval a
      JOIN managed_tx t ON t.submitter_id = a.submitter_id AND t.tx_id = a.tx_id
      JOIN submitter o ON o.submitter_id = a.submitter_id
     WHERE t.state = 'QUEUED' AND t.approval = 'WAITING' AND o.moved_to IS NULL
       AND (@any_name::BOOLEAN OR o.name = ANY(@names::TEXT[]))
     LIMIT @most_awaiting::BIGINT
)
SELECT count(*)::BIGINT                                                 AS submitters,
       count(*) FILTER (WHERE l.expires_at > clock_timestamp())::BIGINT AS owned,
       count(*) FILTER (WHERE n.protect_reason IS NOT NULL)::BIGINT     AS protected,
       count(*) FILTER (WHERE s.status = 'PAUSED')::BIGINT              AS paused,
       count(*) FILTER (WHERE q.unfunded OR f.unfunded)::BIGINT         AS unfunded,
       (SELECT count(*)
          FROM (SELECT 1 FROM submitter o
                 CROSS JOIN LATERAL (
                       SELECT 1 FROM managed_tx t
                        WHERE t.submitter_id = o.submitter_id AND t.nonce IS NULL
                          AND t.terminal_at IS NULL
                        LIMIT @most_queued::BIGINT) t
                 WHERE (@any_name::BOOLEAN OR o.name = ANY(@names::TEXT[]))
                   AND o.moved_to IS NULL
                 LIMIT @most_queued::BIGINT) c)::BIGINT                 AS queued,
       coalesce(sum(f.in_flight), 0)::BIGINT                            AS in_flight,
       coalesce(sum(f.stuck), 0)::BIGINT                                AS stuck,
       (SELECT count(*)
          FROM external_nonce x
          JOIN submitter o ON o.submitter_id = x.submitter_id
         WHERE x.state <> 'ACCEPTED' AND x.needs_operator
           AND (@any_name::BOOLEAN OR o.name = ANY(@names::TEXT[])))::BIGINT
                                                                        AS undecided_nonces,
       (SELECT count(*) FROM awaiting)::BIGINT                          AS awaiting_approval,
       (SELECT coalesce(min(a.created_at), 'epoch') FROM awaiting a)::TIMESTAMPTZ
                                                                        AS oldest_approval,
       (count(q.oldest) > 0)::BOOLEAN                                   AS any_queued,
       coalesce(min(q.oldest), 'epoch')::TIMESTAMPTZ                    AS oldest,
       clock_timestamp()::TIMESTAMPTZ                                   AS counted_at
  FROM submitter s
  JOIN submitter_lease l ON l.submitter_id = s.submitter_id
  LEFT JOIN submitter_nonce_cursor n ON n.submitter_id = s.submitter_id
 CROSS JOIN LATERAL (
       SELECT min(h.created_at) AS oldest, bool_or(h.sub_state = 'UNFUNDED') AS unfunded
         FROM (SELECT t.created_at, t.sub_state FROM managed_tx t
                WHERE t.submitter_id = s.submitter_id AND t.nonce IS NULL AND t.terminal_at IS NULL
                  AND t.approval <> 'WAITING'
                ORDER BY t.queue_seq LIMIT 8) h) q
 CROSS JOIN LATERAL (
       SELECT count(*) AS in_flight, count(*) FILTER (WHERE t.state = 'STUCK') AS stuck,
              bool_or(t.sub_state = 'UNFUNDED') AS unfunded
         FROM managed_tx t
        WHERE t.submitter_id = s.submitter_id AND t.nonce IS NOT NULL
          AND t.terminal_at IS NULL) f
 WHERE (@any_name::BOOLEAN OR s.name = ANY(@names::TEXT[])) AND s.moved_to IS NULL;

-- SubmittersIn lists the names of submitters in one of some conditions, by name. Unfunded is
-- decided as for Totals.
-- name: SubmittersIn :many
SELECT s.name
  FROM submitter s
  LEFT JOIN submitter_nonce_cursor n ON n.submitter_id = s.submitter_id
 WHERE s.name > @after_name AND s.moved_to IS NULL
   AND (@any_name::BOOLEAN OR s.name = ANY(@names::TEXT[]))
   AND ((@protected::BOOLEAN AND n.protect_reason IS NOT NULL)
        OR (@paused::BOOLEAN AND s.status = 'PAUSED')
        OR (@nonces::BOOLEAN
            AND EXISTS (SELECT FROM external_nonce x
                         WHERE x.submitter_id = s.submitter_id AND x.state <> 'ACCEPTED'
                           AND x.needs_operator))
        OR (@unfunded::BOOLEAN
            AND (EXISTS (SELECT FROM managed_tx t
                          WHERE t.submitter_id = s.submitter_id AND t.nonce IS NOT NULL
                            AND t.terminal_at IS NULL
                            AND t.sub_state = 'UNFUNDED')
                 OR EXISTS (SELECT FROM (SELECT t.sub_state FROM managed_tx t
                                          WHERE t.submitter_id = s.submitter_id
                                            AND t.nonce IS NULL AND t.terminal_at IS NULL
                                            AND t.approval <> 'WAITING'
                                          ORDER BY t.queue_seq
                                          LIMIT 8) h WHERE h.sub_state = 'UNFUNDED'))))
 ORDER BY s.name
 LIMIT @max_rows::INT;
