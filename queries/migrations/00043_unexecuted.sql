-- A transaction without a nonce may have been executed in commits that a fail-over lost: see
-- docs/operations.md.

-- +goose Up

-- commits_may_be_lost reports whether commits of an account may have been lost: the database failed
-- over, or was restored or copied, since the account was last compared with the chain, or came from
-- another ledger. A negative timeline is the one at which it came, from a ledger that had lost
-- none; it was not compared since.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION commits_may_be_lost(account INT) RETURNS BOOLEAN STABLE LANGUAGE sql
AS $$
    SELECT abs(s.timeline) IS DISTINCT FROM l.timeline
      FROM submitter s, ledger l
     WHERE s.submitter_id = account
$$;

CREATE OR REPLACE FUNCTION unexecuted_is_known() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF commits_may_be_lost(NEW.submitter_id) THEN
        RAISE EXCEPTION 'transaction % may have been executed, in commits that were lost',
            NEW.tx_id USING ERRCODE = 'check_violation', CONSTRAINT = 'unexecuted_is_known';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER unexecuted_is_known AFTER UPDATE ON managed_tx FOR EACH ROW WHEN (
    NEW.executed = 'NO' AND OLD.executed <> 'NO' AND NEW.nonce IS NULL)
    EXECUTE FUNCTION unexecuted_is_known();
-- min_node_schema stays: an older program gets an error instead of such an outcome.

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
DROP TRIGGER IF EXISTS unexecuted_is_known ON managed_tx;
DROP FUNCTION IF EXISTS unexecuted_is_known;
DROP FUNCTION IF EXISTS commits_may_be_lost;
