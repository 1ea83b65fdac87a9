-- Membership only decides which node acquires a lease sooner. The database's clock alone decides
-- whether a node is live, as for leases.

-- Heartbeat keeps this node live, deletes the nodes that expired long ago, and returns the live
-- ones. It skips rows that another node is deleting at the moment.
-- name: Heartbeat :many
WITH heartbeat AS (
    INSERT INTO node (node_id, chain_ids, accepting, expires_at, lasts, knows_schema)
    VALUES (@node_id::TEXT, @chain_ids::BIGINT[], @accepting::BOOLEAN,
            clock_timestamp() + make_interval(secs => @seconds::FLOAT8),
            make_interval(secs => @seconds::FLOAT8), @knows_schema::BIGINT)
    ON CONFLICT (node_id) DO UPDATE
       SET chain_ids = excluded.chain_ids, accepting = excluded.accepting,
           expires_at = excluded.expires_at, lasts = excluded.lasts,
           knows_schema = excluded.knows_schema
    RETURNING node_id, chain_ids, accepting, started_at, expires_at
), forgotten AS (
    DELETE FROM node n
     WHERE n.node_id IN (SELECT o.node_id FROM node o
                          WHERE o.expires_at < clock_timestamp() - INTERVAL '1 day'
                            AND o.node_id <> @node_id::TEXT
                          ORDER BY o.node_id
                            FOR UPDATE SKIP LOCKED)
)
SELECT b.node_id, b.chain_ids, b.accepting, b.started_at, b.expires_at FROM heartbeat b
UNION ALL
SELECT n.node_id, n.chain_ids, n.accepting, n.started_at, n.expires_at
  FROM node n WHERE n.node_id <> @node_id::TEXT AND n.expires_at > clock_timestamp()
 ORDER BY 1
 LIMIT @max_rows::INT;

-- name: Leave :exec
DELETE FROM node n WHERE n.node_id = @node_id;

-- name: LiveNodes :many
SELECT n.node_id, n.chain_ids, n.accepting, n.started_at, n.expires_at
  FROM node n WHERE n.expires_at > clock_timestamp()
 ORDER BY n.node_id
 LIMIT @max_rows::INT;

-- Wake-ups of other nodes. A lost one only costs time.

-- name: Notify :exec
SELECT pg_notify(@channel::TEXT, @payload::TEXT);

-- name: CurrentSchema :one
SELECT coalesce(current_schema()::TEXT, '')::TEXT AS name;
