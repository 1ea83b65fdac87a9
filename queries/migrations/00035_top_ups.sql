-- Balances of accounts and the transactions that top them up: see docs/balances.md.

-- +goose Up

-- The last judgement of the balance of an account. A row is written only when something changes.
CREATE TABLE account_balance (
    submitter_id INT PRIMARY KEY REFERENCES submitter,
    low          BOOLEAN NOT NULL DEFAULT FALSE,
    falls        BIGINT NOT NULL DEFAULT 0 CHECK (falls >= 0), -- how often it became low
    events       BIGINT NOT NULL DEFAULT 0 CHECK (events >= 0), -- of the account, in the feed
    -- of the reading that was judged; -1: none was
    block        BIGINT NOT NULL DEFAULT -1 CHECK (block >= -1),
    judged_at    TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    top_up_held  TEXT NOT NULL DEFAULT '', -- why the account gets no top-up; empty: none is needed
    changed_at   TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 70);

-- Decided top-ups. The row comes first, with a request_id that no caller knows; then every node
-- that reads it creates the same transaction of the treasury. The key numbers the needs of an
-- account, so one need has one row.
CREATE TABLE top_up (
    submitter_id INT NOT NULL REFERENCES submitter, -- gets the amount
    no           BIGINT NOT NULL CHECK (no >= 1),
    treasury_id  INT NOT NULL REFERENCES submitter,
    request_id   TEXT COLLATE "C" NOT NULL
                 CHECK (char_length(request_id) BETWEEN 1 AND 128),
    amount       NUMERIC(78, 0) NOT NULL CHECK (amount > 0 AND amount < 2::NUMERIC ^ 256),
    mac          BYTEA CHECK (octet_length(mac) = 32), -- by intents.key_file; NULL: without a key
    created_at   TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (submitter_id, no),
    CONSTRAINT top_up_request UNIQUE (treasury_id, request_id),
    CONSTRAINT top_up_other CHECK (treasury_id <> submitter_id)
);
-- min_node_schema stays: an older program tops up nothing.

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
DROP TABLE top_up;
DROP TABLE account_balance;
