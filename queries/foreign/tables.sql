-- What statements read and others make. Told to sqlc alone: nothing runs this file.

-- goose's record of the migrations that were applied.
CREATE TABLE goose_db_version (
    id         INT PRIMARY KEY,
    version_id BIGINT NOT NULL,
    is_applied BOOLEAN NOT NULL,
    tstamp     TIMESTAMP NOT NULL
);

-- A view of PostgreSQL's, as far as it is needed.
CREATE TABLE pg_stat_activity (
    pid        INT NOT NULL,
    xact_start TIMESTAMPTZ
);
