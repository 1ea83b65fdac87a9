-- +goose Up

-- What nodes have said of the signed forms: a decision about fees or about giving up rests on that, and never on what an operator is shown (reason, last_error).
ALTER TABLE managed_tx
    ADD COLUMN last_answer    TEXT NOT NULL DEFAULT '' CHECK (char_length(last_answer) <= 64),      -- class of the last answer to the newest form; '': none yet
    ADD COLUMN pooled_attempt SMALLINT NOT NULL DEFAULT 0 CHECK (pooled_attempt >= 0),              -- newest that was not surely refused, so that a pool may have it; 0: none
    ADD COLUMN rejected       TEXT NOT NULL DEFAULT '' CHECK (char_length(rejected) <= 512);        -- why it can never pass, in the node's words; '': nobody says so
-- Nobody wrote down before what was refused: a pool may have any form.
UPDATE managed_tx m SET pooled_attempt = coalesce((SELECT max(a.attempt_no) FROM tx_attempt a WHERE a.submitter_id = m.submitter_id AND a.tx_id = m.tx_id), 0) WHERE m.nonce IS NOT NULL;

-- +goose Down
-- +goose StatementBegin
DO $$
BEGIN
    LOCK TABLE submitter IN ACCESS EXCLUSIVE MODE;
    IF EXISTS (SELECT FROM submitter) AND coalesce(current_setting('fencepost.lose_ledger', TRUE), '') <> 'yes' THEN
        RAISE EXCEPTION 'the ledger holds submitters' USING ERRCODE = 'object_in_use';
    END IF;
END $$;
-- +goose StatementEnd
ALTER TABLE managed_tx DROP COLUMN last_answer, DROP COLUMN pooled_attempt, DROP COLUMN rejected;
