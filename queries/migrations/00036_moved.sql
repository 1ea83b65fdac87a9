-- Moves of accounts between ledgers of a directory: see docs/ledgers.md. A ledger that an account
-- has left keeps its rows, and never works on it again.

-- Each statement is a transaction of its own, and repeating one that is done already changes
-- nothing: a lock on one of these tables must not be held while another is waited for.
-- +goose NO TRANSACTION

-- +goose Up
-- The tombstone: the ledger that the account moved to, the epoch of that ledger's feed when it was
-- set (0: it was set again after a restore), and the move. NULL: the account is here.
ALTER TABLE submitter
    ADD COLUMN IF NOT EXISTS moved_to   TEXT,
    ADD COLUMN IF NOT EXISTS move_epoch BIGINT,
    ADD COLUMN IF NOT EXISTS move_id    UUID;
ALTER TABLE submitter_lease ADD COLUMN IF NOT EXISTS moved_to TEXT;

-- Accounts that came from another ledger of the directory. They keep their numbers.
CREATE TABLE IF NOT EXISTS account_arrival (
    submitter_id INT PRIMARY KEY,
    move_id      UUID NOT NULL UNIQUE,
    from_no      INT NOT NULL, -- of the ledger, in the directory
    arrived_at   TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
);
-- In the directory. A move goes on from its step. No account returns to a ledger.
CREATE TABLE IF NOT EXISTS directory_move (
    move_id      UUID PRIMARY KEY,
    submitter_id INT NOT NULL,
    name         TEXT COLLATE "C" NOT NULL,
    from_no      INT NOT NULL REFERENCES directory_ledger,
    to_no        INT NOT NULL REFERENCES directory_ledger CHECK (to_no <> from_no),
    resume       BOOLEAN NOT NULL, -- the account was not paused before
    step         TEXT NOT NULL DEFAULT 'BEGUN' CHECK (step IN ('BEGUN', 'SEALED', 'DONE')),
    token        BIGINT, -- of the tombstone, the last of the old ledger
    to_epoch     BIGINT, -- of the new ledger's feed when it was set
    begun_at     TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    changed_at   TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (submitter_id, from_no),
    CHECK ((step = 'BEGUN') = (token IS NULL AND to_epoch IS NULL))
);

-- The timeline at which the directory has last answered which accounts left this ledger. While it
-- is another one, commits may be lost, and tombstones with them: no lease is given. No account has
-- moved yet.
ALTER TABLE ledger ADD COLUMN IF NOT EXISTS moves_timeline INT;
UPDATE ledger SET moves_timeline = timeline WHERE moves_timeline IS NULL;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION submitter_is_claimed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM ledger l WHERE l.directory_no IS DISTINCT FROM NEW.directory_no) THEN
        RAISE EXCEPTION 'the directory of ledgers did not allow submitter %', NEW.name
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  CONSTRAINT = 'submitter_is_claimed';
    ELSIF NEW.submitter_id >> 24 <> coalesce(NEW.directory_no, NEW.submitter_id >> 24)
          AND NOT EXISTS (SELECT FROM account_arrival a
                           WHERE a.submitter_id = NEW.submitter_id) THEN
        RAISE EXCEPTION 'the ledger has no number left for submitter %', NEW.name
            USING ERRCODE = 'check_violation', CONSTRAINT = 'submitter_is_claimed';
    END IF;
    RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION account_has_moved(name TEXT, ledger TEXT)
    RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'submitter % moved to ledger %', name, ledger
        USING ERRCODE = 'object_not_in_prerequisite_state', CONSTRAINT = 'account_has_moved',
              DETAIL = ledger;
END $$;

-- A tombstone stays, and so does everything about its account.
CREATE OR REPLACE FUNCTION tombstone_is_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM account_has_moved(OLD.name, OLD.moved_to);
    RETURN NULL;
END $$;

-- No program gets the lease: the row looks as if another node had it.
CREATE OR REPLACE FUNCTION lease_is_here() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RETURN NULL;
END $$;

-- Every change of a transaction writes an event, with or without a lease. The tombstone is set
-- under a lock that waits for running writes, and later ones see it.
CREATE OR REPLACE FUNCTION event_is_here() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    s RECORD;
BEGIN
    SELECT m.name, m.moved_to INTO s FROM submitter m
     WHERE m.submitter_id = NEW.submitter_id AND m.moved_to IS NOT NULL;
    IF FOUND THEN
        PERFORM account_has_moved(s.name, s.moved_to);
    END IF;
    RETURN NEW;
END $$;

-- Requests to the owner lock the submitter, which the tombstone waits for.
CREATE OR REPLACE FUNCTION request_is_here() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    s RECORD;
BEGIN
    SELECT m.name, m.moved_to INTO s FROM submitter m
     WHERE m.submitter_id = NEW.submitter_id FOR KEY SHARE;
    IF s.moved_to IS NOT NULL THEN
        PERFORM account_has_moved(s.name, s.moved_to);
    END IF;
    RETURN NEW;
END $$;

-- Of a top-up, the treasury pays.
CREATE OR REPLACE FUNCTION treasury_is_here() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    s RECORD;
BEGIN
    SELECT m.name, m.moved_to INTO s FROM submitter m
     WHERE m.submitter_id = NEW.treasury_id FOR KEY SHARE;
    IF s.moved_to IS NOT NULL THEN
        PERFORM account_has_moved(s.name, s.moved_to);
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER tombstone_is_final BEFORE UPDATE OR DELETE ON submitter
    FOR EACH ROW WHEN (OLD.moved_to IS NOT NULL) EXECUTE FUNCTION tombstone_is_final();
CREATE OR REPLACE TRIGGER lease_is_here BEFORE UPDATE ON submitter_lease
    FOR EACH ROW WHEN (OLD.moved_to IS NOT NULL) EXECUTE FUNCTION lease_is_here();
CREATE OR REPLACE TRIGGER event_is_here BEFORE INSERT ON tx_event
    FOR EACH ROW EXECUTE FUNCTION event_is_here();
CREATE OR REPLACE TRIGGER request_is_here BEFORE INSERT ON submitter_command
    FOR EACH ROW EXECUTE FUNCTION request_is_here();
CREATE OR REPLACE TRIGGER request_is_here BEFORE INSERT ON nonce_request
    FOR EACH ROW EXECUTE FUNCTION request_is_here();
CREATE OR REPLACE TRIGGER request_is_here BEFORE INSERT ON pool_member
    FOR EACH ROW EXECUTE FUNCTION request_is_here();
CREATE OR REPLACE TRIGGER request_is_here BEFORE INSERT ON top_up
    FOR EACH ROW EXECUTE FUNCTION request_is_here();
CREATE OR REPLACE TRIGGER treasury_is_here BEFORE INSERT ON top_up
    FOR EACH ROW EXECUTE FUNCTION treasury_is_here();
-- min_node_schema stays: an older program gets no lease of a moved account. The first move raises
-- it, and needs all nodes of the old ledger to know this schema.

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
DROP TRIGGER IF EXISTS treasury_is_here ON top_up;
DROP TRIGGER IF EXISTS request_is_here ON top_up;
DROP TRIGGER IF EXISTS request_is_here ON pool_member;
DROP TRIGGER IF EXISTS request_is_here ON nonce_request;
DROP TRIGGER IF EXISTS request_is_here ON submitter_command;
DROP TRIGGER IF EXISTS event_is_here ON tx_event;
DROP TRIGGER IF EXISTS lease_is_here ON submitter_lease;
DROP TRIGGER IF EXISTS tombstone_is_final ON submitter;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION submitter_is_claimed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM ledger l WHERE l.directory_no IS DISTINCT FROM NEW.directory_no) THEN
        RAISE EXCEPTION 'the directory of ledgers did not allow submitter %', NEW.name
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  CONSTRAINT = 'submitter_is_claimed';
    ELSIF NEW.submitter_id >> 24 <> coalesce(NEW.directory_no, NEW.submitter_id >> 24) THEN
        RAISE EXCEPTION 'the ledger has no number left for submitter %', NEW.name
            USING ERRCODE = 'check_violation', CONSTRAINT = 'submitter_is_claimed';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
DROP FUNCTION IF EXISTS treasury_is_here, request_is_here, event_is_here, lease_is_here;
DROP FUNCTION IF EXISTS tombstone_is_final;
DROP FUNCTION IF EXISTS account_has_moved;
DROP TABLE IF EXISTS directory_move;
DROP TABLE IF EXISTS account_arrival;
ALTER TABLE submitter_lease DROP COLUMN IF EXISTS moved_to;
ALTER TABLE submitter
    DROP COLUMN IF EXISTS move_id,
    DROP COLUMN IF EXISTS move_epoch,
    DROP COLUMN IF EXISTS moved_to;
ALTER TABLE ledger DROP COLUMN IF EXISTS moves_timeline;
