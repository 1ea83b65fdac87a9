-- +goose Up

-- The directory of several ledgers: see docs/ledgers.md. It is in one database; in every other one
-- both tables stay empty. A ledger has the numbers of submitters from no * 2^24 on, so that a tx_id
-- names its ledger.
CREATE TABLE directory_ledger (
    no        INT PRIMARY KEY CHECK (no BETWEEN 0 AND 127),
    name      TEXT COLLATE "C" NOT NULL UNIQUE CHECK (name ~ '^[a-z][a-z0-9._-]{0,63}$'),
    ledger_id UUID NOT NULL UNIQUE,
    joined_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
);
-- Which ledger has an account. A row is inserted before the submitter, and never deleted.
CREATE TABLE directory_account (
    name       TEXT COLLATE "C" PRIMARY KEY,
    chain_id   BIGINT NOT NULL CHECK (chain_id > 0),
    address    BYTEA NOT NULL CHECK (octet_length(address) = 20),
    no         INT NOT NULL REFERENCES directory_ledger,
    claimed_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (chain_id, address)
);
CREATE INDEX directory_account_no ON directory_account (no);

ALTER TABLE ledger
    ADD COLUMN ledger_id    UUID NOT NULL DEFAULT gen_random_uuid(),
    ADD COLUMN ledger_name  TEXT, -- in the directory
    ADD COLUMN directory_no INT;  -- in the directory; NULL: in none
ALTER TABLE submitter ADD COLUMN directory_no INT; -- NULL: registered before the ledger joined

-- Only a program that has asked the directory may register a submitter of a ledger that has one.
-- +goose StatementBegin
CREATE FUNCTION submitter_is_claimed() RETURNS trigger LANGUAGE plpgsql AS $$
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
CREATE TRIGGER submitter_is_claimed BEFORE INSERT ON submitter
    FOR EACH ROW EXECUTE FUNCTION submitter_is_claimed();
-- min_node_schema stays: the trigger keeps an older program from registering submitters of a ledger
-- that has joined a directory, and its transactions are not affected.

-- +goose Down
-- +goose StatementBegin
DO $$
BEGIN
    LOCK TABLE submitter IN ACCESS EXCLUSIVE MODE;
    IF (EXISTS (SELECT FROM submitter) OR EXISTS (SELECT FROM directory_ledger))
       AND coalesce(current_setting('fencepost.lose_ledger', TRUE), '') <> 'yes' THEN
        RAISE EXCEPTION 'the ledger holds submitters' USING ERRCODE = 'object_in_use';
    END IF;
END $$;
-- +goose StatementEnd
DROP TRIGGER submitter_is_claimed ON submitter;
DROP FUNCTION submitter_is_claimed;
ALTER TABLE submitter DROP COLUMN directory_no;
ALTER TABLE ledger DROP COLUMN directory_no, DROP COLUMN ledger_name, DROP COLUMN ledger_id;
DROP TABLE directory_account;
DROP TABLE directory_ledger;
