-- Tables and views that the queries read and no migration creates. Only sqlc reads this file.

-- goose's record of the migrations that were applied.
CREATE TABLE goose_db_version (
    id         INT PRIMARY KEY,
    version_id BIGINT NOT NULL,
    is_applied BOOLEAN NOT NULL,
    tstamp     TIMESTAMP NOT NULL
);

-- A view of PostgreSQL, with the columns that are needed.
CREATE TABLE pg_stat_activity (
    pid        INT NOT NULL,
    xact_start TIMESTAMPTZ
);
