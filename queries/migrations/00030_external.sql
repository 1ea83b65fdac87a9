-- +goose Up

-- Clients of a submitter in mode EXTERNAL sign themselves, under nonces that they reserve.
ALTER TABLE submitter
    DROP CONSTRAINT submitter_mode_check,
    ADD CONSTRAINT submitter_mode_check CHECK (mode IN ('STRICT', 'PIPELINED', 'EXTERNAL'));

CREATE SEQUENCE nonce_request_no CACHE 1;

-- Requests of clients and operators to the owner of such a submitter. An ALLOCATE is also the
-- identity of its reservation, for ever. Only the owner finishes a request.
CREATE TABLE nonce_request (
    submitter_id   INT NOT NULL REFERENCES submitter,
    request_no     BIGINT NOT NULL DEFAULT nextval('nonce_request_no'),
    kind           TEXT NOT NULL CONSTRAINT nonce_request_kind CHECK (
                       kind IN ('ALLOCATE', 'HASH', 'RELEASE', 'QUARANTINE', 'EXTEND', 'RESOLVE')),
    reservation_id UUID NOT NULL,
    -- of ALLOCATE alone
    request_id     TEXT COLLATE "C" CHECK (char_length(request_id) BETWEEN 1 AND 128),
    holder         TEXT NOT NULL DEFAULT '' CHECK (char_length(holder) <= 128),
    ttl_ms         BIGINT NOT NULL DEFAULT 0 CHECK (ttl_ms >= 0),
    tx_hash        BYTEA CHECK (octet_length(tx_hash) = 32),
    action         TEXT NOT NULL DEFAULT '' CHECK (char_length(action) <= 64),
    reason         TEXT NOT NULL DEFAULT '' CHECK (char_length(reason) <= 512),
    operator       TEXT NOT NULL DEFAULT '' CHECK (char_length(operator) <= 128),
    caller         TEXT NOT NULL DEFAULT '',
    created_at     TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    applied_at     TIMESTAMPTZ,
    result         TEXT, -- APPLIED, or a code and after ": " a message
    nonce          BIGINT CHECK (nonce >= 0), -- that an ALLOCATE was given
    fencing_token  BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (submitter_id, request_no),
    CHECK ((applied_at IS NULL) = (result IS NULL)),
    CHECK ((kind = 'ALLOCATE') = (request_id IS NOT NULL)),
    CHECK (nonce IS NULL OR kind = 'ALLOCATE' AND result = 'APPLIED')
);
CREATE INDEX nonce_request_pending ON nonce_request (submitter_id, request_no)
    WHERE applied_at IS NULL;
CREATE UNIQUE INDEX nonce_request_key ON nonce_request (submitter_id, request_id)
    WHERE kind = 'ALLOCATE';
CREATE UNIQUE INDEX nonce_request_reservation ON nonce_request (submitter_id, reservation_id)
    WHERE kind = 'ALLOCATE';

-- Every nonce that was ever given to a client. A row is never removed: its nonce is accounted for.
CREATE TABLE external_nonce (
    submitter_id   INT NOT NULL REFERENCES submitter,
    nonce          BIGINT NOT NULL CHECK (nonce >= 0),
    state          TEXT NOT NULL DEFAULT 'RESERVED' CONSTRAINT external_nonce_state CHECK (
                       state IN ('RESERVED', 'PENDING', 'ACCEPTED', 'RECYCLABLE')),
    version        BIGINT NOT NULL DEFAULT 1 CHECK (version >= 1),
    reservation_id UUID NOT NULL, -- the last one
    holder         TEXT NOT NULL DEFAULT '',
    caller         TEXT NOT NULL DEFAULT '', -- the authenticated identity that holds it
    reason         TEXT NOT NULL DEFAULT '',
    message        TEXT NOT NULL DEFAULT '',
    needs_operator BOOLEAN NOT NULL DEFAULT FALSE,
    reserved_at    TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    expires_at     TIMESTAMPTZ, -- while RESERVED
    state_at       TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    fencing_token  BIGINT NOT NULL,
    PRIMARY KEY (submitter_id, nonce),
    CHECK ((state = 'RESERVED') = (expires_at IS NOT NULL)),
    CHECK (NOT needs_operator OR state = 'PENDING')
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX external_nonce_reservation ON external_nonce (submitter_id, reservation_id);
-- The rows that an owner keeps in memory.
CREATE INDEX external_nonce_open ON external_nonce (submitter_id, nonce)
    WHERE state <> 'ACCEPTED';

-- Hashes of transactions that were signed for such nonces. A nonce with one is never reserved
-- again.
CREATE TABLE nonce_hash (
    submitter_id   INT NOT NULL,
    nonce          BIGINT NOT NULL,
    tx_hash        BYTEA NOT NULL CHECK (octet_length(tx_hash) = 32),
    reservation_id UUID NOT NULL,
    fencing_token  BIGINT NOT NULL,
    created_at     TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (submitter_id, nonce, tx_hash),
    FOREIGN KEY (submitter_id, nonce) REFERENCES external_nonce
);

-- The transaction of a reserved nonce; its request_id is "reservation/" and the id. signed: the
-- client signed it, and Fencepost never replaces it. Otherwise it is a cancel transaction that
-- fills the nonce.
ALTER TABLE managed_tx
    ADD COLUMN reservation_id UUID,
    ADD COLUMN signed BOOLEAN NOT NULL DEFAULT FALSE,
    -- A client has the bytes, so an older program must not report the transaction as not executed.
    ADD CONSTRAINT managed_tx_signed CHECK (
        NOT signed OR reservation_id IS NOT NULL
                      AND (nonce IS NOT NULL OR state = 'QUEUED')) NOT VALID;

-- Signed bytes as clients submitted them. The owner copies them to tx_attempt before it sends them.
CREATE TABLE signed_tx (
    submitter_id INT NOT NULL,
    tx_id        UUID NOT NULL,
    tx_hash      BYTEA NOT NULL CHECK (octet_length(tx_hash) = 32),
    nonce        BIGINT NOT NULL CHECK (nonce >= 0),
    kind         TEXT NOT NULL CHECK (kind IN ('ORIGINAL', 'BUMP', 'CANCEL')),
    raw_tx       BYTEA NOT NULL CHECK (octet_length(raw_tx) > 0),
    gas_limit    BIGINT NOT NULL CHECK (gas_limit > 0),
    fee_cap      NUMERIC(78, 0) NOT NULL,
    tip          NUMERIC(78, 0) NOT NULL,
    legacy       BOOLEAN NOT NULL,
    created_at   TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (submitter_id, tx_id, tx_hash),
    FOREIGN KEY (submitter_id, tx_id) REFERENCES managed_tx
);

-- +goose StatementBegin
-- Repeats txn.NonceMoves, so that no program can make an illegal change.
CREATE FUNCTION nonce_move_is_legal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'nonce % of submitter %: no legal move leads from % to % (version % to %, '
        'token % to %)', OLD.nonce, OLD.submitter_id, OLD.state, NEW.state, OLD.version,
        NEW.version, OLD.fencing_token, NEW.fencing_token;
END $$;
CREATE TRIGGER nonce_move_is_legal AFTER UPDATE ON external_nonce FOR EACH ROW WHEN (
    NEW.version <> OLD.version + 1
    OR NEW.fencing_token < OLD.fencing_token
    OR NEW.nonce <> OLD.nonce OR NEW.submitter_id <> OLD.submitter_id
    OR (NEW.reservation_id <> OLD.reservation_id)
       <> (OLD.state = 'RECYCLABLE' AND NEW.state = 'RESERVED')
    OR NEW.state <> OLD.state AND NOT (OLD.state, NEW.state) IN (
        ('RESERVED', 'PENDING'), ('RESERVED', 'ACCEPTED'), ('RESERVED', 'RECYCLABLE'),
        ('PENDING', 'ACCEPTED'), ('PENDING', 'RECYCLABLE'),
        ('RECYCLABLE', 'RESERVED'), ('RECYCLABLE', 'PENDING'), ('RECYCLABLE', 'ACCEPTED')))
    EXECUTE FUNCTION nonce_move_is_legal();

CREATE FUNCTION nonce_is_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'nonce % of submitter % must not be deleted', OLD.nonce, OLD.submitter_id;
END $$;
CREATE TRIGGER nonce_is_kept BEFORE DELETE ON external_nonce
    FOR EACH ROW EXECUTE FUNCTION nonce_is_kept();

-- A nonce is reserved again only if no signed bytes for it are known. The trigger also sees rows
-- that were committed while its statement waited for a lock.
CREATE FUNCTION nonce_is_unsigned() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM nonce_hash h
                WHERE h.submitter_id = NEW.submitter_id AND h.nonce = NEW.nonce)
       OR EXISTS (SELECT FROM managed_tx t
                   WHERE t.submitter_id = NEW.submitter_id
                     AND (t.nonce = NEW.nonce
                          OR t.request_id = 'reservation/' || OLD.reservation_id)) THEN
        RAISE EXCEPTION 'nonce % of submitter % must not be %: signed bytes are recorded for it',
            NEW.nonce, NEW.submitter_id, NEW.state;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER nonce_is_unsigned AFTER UPDATE ON external_nonce FOR EACH ROW
    WHEN (NEW.state = 'RECYCLABLE' OR OLD.state = 'RECYCLABLE' AND NEW.state = 'RESERVED')
    EXECUTE FUNCTION nonce_is_unsigned();

-- A transaction takes a reserved nonce only under its reservation, and of a client only after its
-- hash was recorded.
CREATE FUNCTION nonce_is_reserved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM external_nonce x
                    WHERE x.submitter_id = NEW.submitter_id AND x.nonce = NEW.nonce
                      AND x.reservation_id = NEW.reservation_id
                      AND x.state IN ('PENDING', 'ACCEPTED'))
       OR NEW.signed
          AND NOT EXISTS (SELECT FROM nonce_hash h
                           WHERE h.submitter_id = NEW.submitter_id AND h.nonce = NEW.nonce
                             AND h.tx_hash = NEW.tx_hash) THEN
        RAISE EXCEPTION 'transaction % must not take nonce %: its reservation does not hold it',
            NEW.tx_id, NEW.nonce;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER nonce_is_reserved AFTER UPDATE ON managed_tx FOR EACH ROW
    WHEN (OLD.nonce IS NULL AND NEW.nonce IS NOT NULL AND NEW.reservation_id IS NOT NULL)
    EXECUTE FUNCTION nonce_is_reserved();

-- The mode changes to or from EXTERNAL only while nothing is queued, open or reserved. The lease
-- was taken from its owner before, in the same statement, so no commit can come between.
CREATE FUNCTION mode_needs_rest() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM submitter_lease l
                    WHERE l.submitter_id = NEW.submitter_id AND l.owner_node = '')
       OR EXISTS (SELECT FROM managed_tx t
                   WHERE t.submitter_id = NEW.submitter_id AND t.terminal_at IS NULL)
       OR EXISTS (SELECT FROM external_nonce x
                   WHERE x.submitter_id = NEW.submitter_id AND x.state <> 'ACCEPTED')
       OR EXISTS (SELECT FROM nonce_request q
                   WHERE q.submitter_id = NEW.submitter_id AND q.applied_at IS NULL) THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER mode_needs_rest BEFORE UPDATE OF mode ON submitter FOR EACH ROW
    WHEN ((NEW.mode = 'EXTERNAL') <> (OLD.mode = 'EXTERNAL'))
    EXECUTE FUNCTION mode_needs_rest();

-- Called only for a session whose program does not know external submitters: it gets no lease of
-- one. The row looks as if another node had the lease.
CREATE FUNCTION lease_needs_external() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM submitter s
                WHERE s.submitter_id = NEW.submitter_id AND s.mode = 'EXTERNAL') THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER lease_needs_external BEFORE UPDATE ON submitter_lease FOR EACH ROW
    WHEN (NEW.fencing_token <> OLD.fencing_token AND NEW.owner_node <> ''
          AND coalesce(current_setting('fencepost.modes', TRUE), '') NOT LIKE '%EXTERNAL%')
    EXECUTE FUNCTION lease_needs_external();
-- +goose StatementEnd
-- min_node_schema stays: an older program gets no lease of an external submitter. A transaction
-- that it queues for one has no reservation, and is failed by the owner without a nonce.

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
DROP TRIGGER lease_needs_external ON submitter_lease;
DROP TRIGGER mode_needs_rest ON submitter;
DROP TRIGGER nonce_is_reserved ON managed_tx;
DROP TABLE signed_tx;
ALTER TABLE managed_tx
    DROP CONSTRAINT managed_tx_signed,
    DROP COLUMN signed,
    DROP COLUMN reservation_id;
DROP TABLE nonce_hash, external_nonce, nonce_request;
DROP SEQUENCE nonce_request_no;
DROP FUNCTION lease_needs_external, mode_needs_rest, nonce_is_reserved, nonce_is_unsigned,
    nonce_is_kept, nonce_move_is_legal;
UPDATE submitter SET mode = 'STRICT', max_in_flight = 1 WHERE mode = 'EXTERNAL';
ALTER TABLE submitter
    DROP CONSTRAINT submitter_mode_check,
    ADD CONSTRAINT submitter_mode_check CHECK (mode IN ('STRICT', 'PIPELINED'));
