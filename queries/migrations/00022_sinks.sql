-- +goose Up

-- Delivery of events to other systems. Each sink has a lease of its own, with the fence of
-- submitters: a write locks the token, and a takeover changes it.
CREATE TABLE sink_lease (
    sink          TEXT COLLATE "C" PRIMARY KEY
                  CHECK (sink ~ '^[a-z][a-z0-9._-]{0,63}$'),
    owner_node    TEXT NOT NULL DEFAULT '',
    fencing_token BIGINT NOT NULL DEFAULT 0,
    acquired_at   TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    expires_at    TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    lasts         INTERVAL, -- the duration of the lease when it was last extended
    UNIQUE (sink, fencing_token) -- makes the token a key column: see ARCHITECTURE.md
);

-- How far a sink has come. Operators change status and position, and raise the revision, which the
-- owner compares.
CREATE TABLE sink_cursor (
    sink          TEXT COLLATE "C" PRIMARY KEY REFERENCES sink_lease,
    position      TEXT NOT NULL DEFAULT '', -- in the feed; '': its end
    revision      BIGINT NOT NULL DEFAULT 1,
    status        TEXT NOT NULL DEFAULT 'ACTIVE'
                  CHECK (status IN ('ACTIVE', 'PAUSED', 'DISABLED')),
    reason        TEXT NOT NULL DEFAULT '' CHECK (char_length(reason) <= 512),
    operator      TEXT NOT NULL DEFAULT '' CHECK (char_length(operator) <= 128),
    restored      BOOLEAN NOT NULL DEFAULT FALSE, -- the receiver is to be told of a restore
    delivered     BIGINT NOT NULL DEFAULT 0,
    event_at      TIMESTAMPTZ, -- of the newest event that the cursor has passed
    fencing_token BIGINT NOT NULL DEFAULT 0,
    updated_at    TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
);

-- Transactions with events that the cursor has passed and the receiver has not accepted: one row
-- for each, however many events wait.
CREATE TABLE sink_parked (
    sink          TEXT COLLATE "C" NOT NULL REFERENCES sink_lease,
    tx_id         UUID NOT NULL,
    submitter_id  INT NOT NULL,
    next_seq      BIGINT NOT NULL, -- the first undelivered event
    last_seq      BIGINT NOT NULL CHECK (last_seq >= next_seq),
    attempts      INT NOT NULL DEFAULT 0,
    parked_at     TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    due_at        TIMESTAMPTZ, -- of the next attempt; NULL: dead
    reason        TEXT NOT NULL DEFAULT '' CHECK (char_length(reason) <= 512),
    fencing_token BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (sink, tx_id)
);
CREATE INDEX sink_parked_due ON sink_parked (sink, due_at);
-- min_node_schema stays: an older program delivers nothing.

-- +goose Down
-- +goose StatementBegin
DO $$
BEGIN
    LOCK TABLE submitter IN ACCESS EXCLUSIVE MODE;
    IF EXISTS (SELECT FROM submitter)
       AND coalesce(current_setting('fencepost.lose_ledger', TRUE), '') <> 'yes' THEN
        RAISE EXCEPTION 'the ledger holds submitters' USING ERRCODE = 'object_in_use';
    END IF;
END $$;
-- +goose StatementEnd
DROP TABLE sink_parked;
DROP TABLE sink_cursor;
DROP TABLE sink_lease;
