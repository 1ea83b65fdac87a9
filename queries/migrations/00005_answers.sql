-- +goose Up

-- RPC responses to the attempts. Decisions about fees and about failing a transaction depend on
-- them, never on the texts for operators (reason, last_error).
ALTER TABLE managed_tx
    -- outcome class of the last response to the newest attempt; '': none yet
    ADD COLUMN last_answer    TEXT NOT NULL DEFAULT '' CHECK (char_length(last_answer) <= 64),
    -- the newest attempt that was not certainly rejected, so that a pool may hold it; 0: none
    ADD COLUMN pooled_attempt SMALLINT NOT NULL DEFAULT 0 CHECK (pooled_attempt >= 0),
    -- why it can never be included, in the endpoint's words; '': no endpoint reported that
    ADD COLUMN rejected       TEXT NOT NULL DEFAULT '' CHECK (char_length(rejected) <= 512);
-- Rejections were not recorded before: a pool may hold any attempt.
UPDATE managed_tx m
   SET pooled_attempt = coalesce((SELECT max(a.attempt_no) FROM tx_attempt a
                                   WHERE a.submitter_id = m.submitter_id AND a.tx_id = m.tx_id), 0)
 WHERE m.nonce IS NOT NULL;

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
ALTER TABLE managed_tx
    DROP COLUMN last_answer,
    DROP COLUMN pooled_attempt,
    DROP COLUMN rejected;
