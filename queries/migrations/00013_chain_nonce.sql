-- +goose Up

-- The account's next nonce on chain when a protection began. The command that records the
-- protection holds it, next to the evidence text.
ALTER TABLE submitter_command
    ADD COLUMN chain_nonce BIGINT CHECK (chain_nonce >= 0), -- NULL: unknown, or not recorded
    ADD CONSTRAINT submitter_command_chain_nonce CHECK (chain_nonce IS NULL OR kind = 'PROTECT');
-- Until now only the evidence text had it.
UPDATE submitter_command
   SET chain_nonce = greatest(
           substring(reason
               FROM 'the account''s next nonce is (\d{1,18}) (?:on chain and|in settled)')::BIGINT,
           substring(reason FROM 'on chain and (\d{1,18}) in its pool')::BIGINT)
 WHERE kind = 'PROTECT' AND action = 'NONCE_USED_ELSEWHERE';
-- min_node_schema stays: an older program records none, which means "unknown".

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
ALTER TABLE submitter_command DROP COLUMN chain_nonce;
