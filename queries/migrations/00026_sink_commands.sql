-- +goose Up

-- Decisions of operators about sinks: one row for each, written by the statement that applies it.
-- The ids are of the sequence of submitter_command, so that both tables are one log.
CREATE TABLE sink_command (
    command_id    BIGINT NOT NULL DEFAULT nextval('command_id') PRIMARY KEY,
    sink          TEXT COLLATE "C" NOT NULL REFERENCES sink_lease,
    kind          TEXT NOT NULL CHECK (kind IN ('SINK_PAUSE', 'SINK_RESUME', 'SINK_RETRY',
                                                'SINK_SKIP', 'SINK_REPLAY')),
    tx_id         UUID,
    action        TEXT NOT NULL DEFAULT '' CHECK (char_length(action) <= 64),
    reason        TEXT NOT NULL DEFAULT '' CHECK (char_length(reason) <= 512),
    operator      TEXT NOT NULL DEFAULT '' CHECK (char_length(operator) <= 128),
    caller        TEXT NOT NULL DEFAULT '' CHECK (char_length(caller) <= 128),
    created_at    TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
);
-- min_node_schema stays: an older program decides as before, and records nothing.

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
DROP TABLE sink_command;
