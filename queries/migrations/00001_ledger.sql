-- +goose Up

-- One row: facts about the ledger as a whole. A restore from a backup raises feed_epoch, which
-- invalidates all resume tokens.
CREATE TABLE ledger (
    only_row   BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (only_row),
    feed_epoch BIGINT NOT NULL DEFAULT 1
);
INSERT INTO ledger DEFAULT VALUES;

-- The chains of this ledger, so that another chain with the same chain id is detected.
CREATE TABLE chain (
    chain_id     BIGINT PRIMARY KEY CHECK (chain_id > 0),
    genesis_hash BYTEA NOT NULL CHECK (octet_length(genesis_hash) = 32),
    created_at   TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE submitter (
    submitter_id  INT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name          TEXT NOT NULL UNIQUE CHECK (name ~ '^[a-z][a-z0-9._-]{0,63}$'),
    chain_id      BIGINT NOT NULL CHECK (chain_id > 0),
    address       BYTEA NOT NULL CHECK (octet_length(address) = 20),
    signer        TEXT NOT NULL,
    mode          TEXT NOT NULL CHECK (mode IN ('STRICT')),
    max_in_flight INT NOT NULL CHECK (max_in_flight >= 1
                                         AND (mode <> 'STRICT' OR max_in_flight = 1)),
    status        TEXT NOT NULL DEFAULT 'ACTIVE' CHECK (status IN ('ACTIVE', 'PAUSED')),
    start_from    TEXT NOT NULL CHECK (start_from = 'chain'
                                       OR start_from ~ '^(0|[1-9][0-9]{0,17})$'),
    created_at    TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (chain_id, address)
);

-- The node that may write for a submitter. Inserted with the submitter, never deleted; the token
-- only rises. The unique index makes fencing_token a key column: a takeover changes the token and
-- waits for the holders of FOR KEY SHARE; a renewal does not change it and never waits. Without
-- this index nothing is fenced.
CREATE TABLE submitter_lease (
    submitter_id  INT PRIMARY KEY REFERENCES submitter,
    owner_node    TEXT NOT NULL DEFAULT '',
    fencing_token BIGINT NOT NULL DEFAULT 0 CHECK (fencing_token >= 0),
    acquired_at   TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    expires_at    TIMESTAMPTZ NOT NULL DEFAULT 'epoch',
    released      BOOLEAN NOT NULL DEFAULT TRUE,
    CONSTRAINT submitter_lease_fence UNIQUE (submitter_id, fencing_token)
) WITH (fillfactor = 70);

-- +goose StatementBegin
CREATE FUNCTION lease_only_rises() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION
            'the lease of submitter % must not be deleted: its fencing token would start again',
            OLD.submitter_id;
    ELSIF NEW.fencing_token < OLD.fencing_token THEN
        RAISE EXCEPTION 'the fencing token of submitter % must not fall (% to %)',
            OLD.submitter_id, OLD.fencing_token, NEW.fencing_token;
    ELSIF NEW.owner_node <> OLD.owner_node AND NEW.fencing_token = OLD.fencing_token THEN
        RAISE EXCEPTION
            'the lease of submitter % must not change its owner without a new fencing token',
            OLD.submitter_id;
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER lease_only_rises BEFORE UPDATE OR DELETE ON submitter_lease
    FOR EACH ROW EXECUTE FUNCTION lease_only_rises();

CREATE TABLE submitter_nonce_cursor (
    submitter_id     INT PRIMARY KEY REFERENCES submitter,
    next_nonce       BIGINT NOT NULL CHECK (next_nonce >= init_nonce),
    init_nonce       BIGINT NOT NULL CHECK (init_nonce >= 0),
    init_block       BIGINT NOT NULL,
    init_block_hash  BYTEA NOT NULL CHECK (octet_length(init_block_hash) = 32),
    protect_reason   TEXT,
    protect_evidence TEXT,
    protect_at       TIMESTAMPTZ,
    fencing_token    BIGINT NOT NULL,
    updated_at       TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    CHECK ((protect_reason IS NULL) = (protect_at IS NULL))
) WITH (fillfactor = 50);

-- Order of acceptance. CACHE 1: a later CreateTx on another node must not draw a lower number.
CREATE SEQUENCE queue_seq CACHE 1;

CREATE TABLE managed_tx (
    submitter_id        INT NOT NULL,
    tx_id               UUID NOT NULL,
    request_id          TEXT NOT NULL CHECK (char_length(request_id) BETWEEN 1 AND 128),
    request_hash        BYTEA NOT NULL CHECK (octet_length(request_hash) = 32),
    queue_seq           BIGINT NOT NULL DEFAULT nextval('queue_seq'),
    to_address          BYTEA CHECK (octet_length(to_address) = 20),
    value               NUMERIC(78, 0) NOT NULL CHECK (value >= 0 AND value < 2::NUMERIC ^ 256),
    data                BYTEA NOT NULL,
    gas_limit           BIGINT NOT NULL CHECK (gas_limit >= 0), -- 0: estimate
    created_at          TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),

    state               TEXT NOT NULL DEFAULT 'QUEUED',
    sub_state           TEXT NOT NULL DEFAULT ''
                        CHECK (sub_state IN ('', 'PENDING', 'INCLUDED', 'BACKING_OFF')),
    version             BIGINT NOT NULL DEFAULT 1 CHECK (version >= 1),
    nonce               BIGINT CHECK (nonce >= 0),
    slot                SMALLINT NOT NULL DEFAULT 0 CHECK (slot >= 0),
    tx_hash             BYTEA CHECK (octet_length(tx_hash) = 32),
    receipt_tx_hash     BYTEA CHECK (octet_length(receipt_tx_hash) = 32),
    receipt_block       BIGINT,
    receipt_block_hash  BYTEA CHECK (octet_length(receipt_block_hash) = 32),
    receipt_success     BOOLEAN,
    receipt_gas_used    BIGINT,
    receipt_gas_price   NUMERIC(78, 0),
    executed            TEXT NOT NULL DEFAULT 'UNKNOWN'
                        CHECK (executed IN ('UNKNOWN', 'NO', 'SUCCESS', 'REVERTED')),
    reason              TEXT NOT NULL DEFAULT '',
    last_error          TEXT NOT NULL DEFAULT '',
    submit_attempts     INT NOT NULL DEFAULT 0,
    cancel_requested    BOOLEAN NOT NULL DEFAULT FALSE,
    due_at              TIMESTAMPTZ,                 -- no outside effect before; NULL: now
    released_at         TIMESTAMPTZ,
    terminal_at         TIMESTAMPTZ,
    fencing_token       BIGINT NOT NULL DEFAULT 0,   -- 0: only callers have written
    updated_at          TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),

    PRIMARY KEY (submitter_id, tx_id),
    CONSTRAINT managed_tx_request UNIQUE (submitter_id, request_id),
    CONSTRAINT managed_tx_nonce UNIQUE (submitter_id, nonce),
    CONSTRAINT managed_tx_state CHECK (
        state IN ('QUEUED', 'ALLOCATED', 'TRACKING', 'STUCK',
                  'CONFIRMED', 'FAILED_FINAL', 'CANCELLED')),
    CONSTRAINT managed_tx_nonce_by_state CHECK (
        CASE WHEN state = 'QUEUED' THEN nonce IS NULL
             WHEN state IN ('ALLOCATED', 'TRACKING', 'STUCK', 'CONFIRMED') THEN nonce IS NOT NULL
             ELSE TRUE END),
    CONSTRAINT managed_tx_final CHECK (
        (terminal_at IS NULL) = (state NOT IN ('CONFIRMED', 'FAILED_FINAL', 'CANCELLED'))
        OR state = 'STUCK'),
    CONSTRAINT managed_tx_final_is_released CHECK (
        terminal_at IS NULL OR nonce IS NULL OR released_at IS NOT NULL),
    CONSTRAINT managed_tx_executed CHECK (
        CASE state WHEN 'CONFIRMED' THEN executed = 'SUCCESS'
                   WHEN 'CANCELLED' THEN executed = 'NO'
                   WHEN 'FAILED_FINAL' THEN executed IN ('NO', 'REVERTED')
                   ELSE executed = 'UNKNOWN' END),
    CONSTRAINT managed_tx_receipt CHECK (
        num_nonnulls(receipt_tx_hash, receipt_block, receipt_block_hash, receipt_success,
                     receipt_gas_used, receipt_gas_price) IN (0, 6)),
    CONSTRAINT managed_tx_included CHECK (sub_state <> 'INCLUDED' OR receipt_block IS NOT NULL)
) WITH (fillfactor = 60);

-- The in-flight set: one row per slot. Strict submitters have only slot 0, so this is "single
-- in-flight" (law L5).
CREATE UNIQUE INDEX managed_tx_in_flight ON managed_tx (submitter_id, slot)
    WHERE nonce IS NOT NULL AND released_at IS NULL;
-- The head of the queue: state QUEUED, expressed without that column, so that a move from ALLOCATED
-- to TRACKING stays a HOT update.
CREATE INDEX managed_tx_queue ON managed_tx (submitter_id, queue_seq)
    WHERE nonce IS NULL AND terminal_at IS NULL;
-- The transactions that an owner must track.
CREATE INDEX managed_tx_open ON managed_tx (submitter_id, nonce)
    WHERE nonce IS NOT NULL AND terminal_at IS NULL;

-- Every signed byte string. A separate table, so that it can have separate grants: a reader of
-- raw_tx can broadcast it.
CREATE TABLE tx_attempt (
    submitter_id  INT NOT NULL,
    tx_id         UUID NOT NULL,
    attempt_no    SMALLINT NOT NULL CHECK (attempt_no >= 1),
    kind          TEXT NOT NULL CHECK (kind IN ('ORIGINAL', 'BUMP', 'CANCEL')),
    nonce         BIGINT NOT NULL CHECK (nonce >= 0),
    tx_hash       BYTEA NOT NULL CHECK (octet_length(tx_hash) = 32),
    raw_tx        BYTEA NOT NULL CHECK (octet_length(raw_tx) > 0),
    gas_limit     BIGINT NOT NULL CHECK (gas_limit > 0),
    fee_cap       NUMERIC(78, 0) NOT NULL,
    tip           NUMERIC(78, 0) NOT NULL,
    legacy        BOOLEAN NOT NULL,
    fencing_token BIGINT NOT NULL,
    created_at    TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (submitter_id, tx_id, attempt_no),
    CONSTRAINT tx_attempt_hash UNIQUE (submitter_id, tx_hash),
    FOREIGN KEY (submitter_id, tx_id) REFERENCES managed_tx
);

-- Every step, written by the statement that takes it. seq is the version that the transaction got.
-- xid lets a reader find the events that it has not seen: commits finish out of order, and a
-- snapshot shows exactly which of them are visible in it.
CREATE TABLE tx_event (
    submitter_id       INT NOT NULL,
    tx_id              UUID NOT NULL,
    seq                BIGINT NOT NULL CHECK (seq >= 1),
    kind               TEXT NOT NULL,
    state              TEXT NOT NULL,
    sub_state          TEXT NOT NULL,
    executed           TEXT NOT NULL,
    tx_hash            BYTEA,
    receipt_tx_hash    BYTEA,
    receipt_block      BIGINT,
    receipt_block_hash BYTEA,
    receipt_success    BOOLEAN,
    receipt_gas_used   BIGINT,
    receipt_gas_price  NUMERIC(78, 0),
    reason             TEXT NOT NULL,
    message            TEXT NOT NULL,
    fencing_token      BIGINT NOT NULL DEFAULT 0,
    xid                XID8 NOT NULL DEFAULT pg_current_xact_id(),
    created_at         TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (submitter_id, tx_id, seq)
);
CREATE INDEX tx_event_feed ON tx_event (xid, submitter_id, tx_id, seq);

CREATE SEQUENCE command_id CACHE 1;

-- Requests of callers and operators to the owner of a submitter. Only the owner finishes a command.
CREATE TABLE submitter_command (
    submitter_id  INT NOT NULL REFERENCES submitter,
    command_id    BIGINT NOT NULL DEFAULT nextval('command_id'),
    kind          TEXT NOT NULL CHECK (kind IN ('PAUSE', 'RESUME', 'CANCEL')),
    tx_id         UUID,
    reason        TEXT NOT NULL DEFAULT '' CHECK (char_length(reason) <= 512),
    created_at    TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    applied_at    TIMESTAMPTZ,
    result        TEXT,
    fencing_token BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (submitter_id, command_id),
    CHECK ((applied_at IS NULL) = (result IS NULL)),
    CHECK ((kind = 'CANCEL') = (tx_id IS NOT NULL))
);
CREATE INDEX submitter_command_pending ON submitter_command (submitter_id, command_id)
    WHERE applied_at IS NULL;
-- A repeated cancel returns the same command.
CREATE UNIQUE INDEX submitter_command_cancel ON submitter_command (submitter_id, tx_id)
    WHERE kind = 'CANCEL' AND applied_at IS NULL;

-- +goose StatementBegin
-- Repeats the moves of txn.Moves, so that no program can make an illegal change of state.
CREATE FUNCTION move_is_legal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.version < OLD.version OR NEW.version > OLD.version + 1
       OR (NEW.state <> OLD.state AND NEW.version = OLD.version) THEN
        RAISE EXCEPTION 'transaction %: version % to % with state % to %',
            OLD.tx_id, OLD.version, NEW.version, OLD.state, NEW.state;
    END IF;
    IF NEW.state <> OLD.state AND NOT (OLD.state, NEW.state) IN (
        ('QUEUED', 'ALLOCATED'), ('QUEUED', 'FAILED_FINAL'), ('QUEUED', 'CANCELLED'),
        ('ALLOCATED', 'TRACKING'), ('ALLOCATED', 'STUCK'), ('ALLOCATED', 'CONFIRMED'),
        ('ALLOCATED', 'FAILED_FINAL'), ('ALLOCATED', 'CANCELLED'),
        ('TRACKING', 'STUCK'), ('TRACKING', 'CONFIRMED'),
        ('TRACKING', 'FAILED_FINAL'), ('TRACKING', 'CANCELLED'),
        ('STUCK', 'QUEUED'), ('STUCK', 'TRACKING'), ('STUCK', 'CONFIRMED'),
        ('STUCK', 'FAILED_FINAL'), ('STUCK', 'CANCELLED'),
        ('CONFIRMED', 'STUCK'), ('FAILED_FINAL', 'STUCK'), ('CANCELLED', 'STUCK')) THEN
        RAISE EXCEPTION 'transaction %: no legal move leads from % to %',
            OLD.tx_id, OLD.state, NEW.state;
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER move_is_legal BEFORE UPDATE ON managed_tx
    FOR EACH ROW EXECUTE FUNCTION move_is_legal();

-- +goose Down
-- Down drops the ledger, and with it every key to "executed at most once". The lock keeps other
-- processes from registering a submitter in the meantime.
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
DROP TABLE submitter_command, tx_event, tx_attempt, managed_tx, submitter_nonce_cursor,
    submitter_lease, submitter, chain, ledger;
DROP SEQUENCE command_id, queue_seq;
DROP FUNCTION move_is_legal, lease_only_rises;
