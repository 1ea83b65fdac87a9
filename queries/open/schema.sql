-- The handshake of program and schema. The table is goose's own, kept beside the ledger.

-- name: SchemaVersion :one
SELECT coalesce(max(g.version_id), 0)::BIGINT AS version FROM goose_db_version g WHERE g.is_applied;
