-- The compatibility checks of program and schema. The table of versions is goose's own.

-- name: SchemaVersions :many
SELECT DISTINCT g.version_id FROM goose_db_version g WHERE g.is_applied ORDER BY g.version_id;

-- MinNodeSchema is the oldest schema whose programs still work on this one. It is read only from a
-- schema that is newer than the program, which has the column.
-- name: MinNodeSchema :one
SELECT l.min_node_schema FROM ledger l;

-- SchemaObjects lists the constraints, indexes and triggers of the ledger that are in force, as
-- "table.name". It leaves out invalid indexes, disabled triggers and constraints that were not
-- validated, because they enforce nothing.
-- name: SchemaObjects :many
SELECT (t.relname || '.' || o.name)::TEXT AS name
  FROM (SELECT k.conrelid AS tab, k.conname::TEXT AS name
          FROM pg_catalog.pg_constraint k
         WHERE k.convalidated AND k.contype IN ('c', 'f', 'p', 'u')
        UNION
        SELECT i.indrelid, x.relname::TEXT
          FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
         WHERE i.indisvalid AND i.indisready
        UNION
        SELECT g.tgrelid, g.tgname::TEXT
          FROM pg_catalog.pg_trigger g
         WHERE NOT g.tgisinternal AND g.tgenabled IN ('O', 'A')) o
  JOIN pg_catalog.pg_class t ON t.oid = o.tab
  JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace
 WHERE n.nspname = current_schema()
 ORDER BY 1;

-- LocaleKeys lists the columns of unique indexes that are compared in the order of a language, as
-- "table.column": an update of the C library or of ICU can break their uniqueness.
-- name: LocaleKeys :many
SELECT DISTINCT (t.relname || '.' || a.attname)::TEXT AS name
  FROM pg_catalog.pg_index i
  JOIN pg_catalog.pg_class t ON t.oid = i.indrelid
  JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace
  JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attnum = ANY (i.indkey::SMALLINT[])
  JOIN pg_catalog.pg_collation c ON c.oid = a.attcollation
 WHERE n.nspname = current_schema() AND i.indisunique AND c.collname NOT IN ('C', 'POSIX')
 ORDER BY 1;
