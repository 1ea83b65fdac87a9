-- The handshake of program and schema. The table is goose's own, kept beside the ledger.

-- name: SchemaVersions :many
SELECT DISTINCT g.version_id FROM goose_db_version g WHERE g.is_applied ORDER BY g.version_id;

-- MinNodeSchema is the oldest schema whose programs still work on this one. It is asked for on a newer schema than one's own alone: there the column is.
-- name: MinNodeSchema :one
SELECT l.min_node_schema FROM ledger l;
