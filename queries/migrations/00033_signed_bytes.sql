-- +goose Up

-- The bytes of clients are erased with those of their attempts (SettleNonces): whoever reads them
-- can broadcast them. NULL: erased.
ALTER TABLE signed_tx ALTER COLUMN raw_tx DROP NOT NULL;
-- +goose StatementBegin
CREATE FUNCTION signed_is_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'signed bytes of transaction % must not change', OLD.tx_id;
END $$;
-- +goose StatementEnd
CREATE TRIGGER signed_is_kept AFTER UPDATE ON signed_tx FOR EACH ROW WHEN (
    NEW.raw_tx IS NOT NULL
    OR (NEW.submitter_id, NEW.tx_id, NEW.tx_hash, NEW.nonce, NEW.kind)
       IS DISTINCT FROM
       (OLD.submitter_id, OLD.tx_id, OLD.tx_hash, OLD.nonce, OLD.kind))
    EXECUTE FUNCTION signed_is_kept();
-- The bytes of transactions whose attempts were erased before.
UPDATE signed_tx s
   SET raw_tx = NULL
  FROM managed_tx t
  JOIN submitter_settled d ON d.submitter_id = t.submitter_id
 WHERE t.submitter_id = s.submitter_id AND t.tx_id = s.tx_id AND t.terminal_at IS NOT NULL
   AND t.nonce < d.erased_below AND s.raw_tx IS NOT NULL;

-- The history of a reservation (EndedReservation).
CREATE INDEX nonce_request_history ON nonce_request (submitter_id, reservation_id)
    WHERE kind IN ('HASH', 'RELEASE', 'RESOLVE');
-- min_node_schema stays: an older program reads the bytes of open transactions only. Those that it
-- settles keep theirs.

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
DROP INDEX nonce_request_history;
DROP TRIGGER signed_is_kept ON signed_tx;
DROP FUNCTION signed_is_kept;
-- Down loses signed bytes that are gone; a placeholder keeps the older constraint.
UPDATE signed_tx SET raw_tx = '\x00' WHERE raw_tx IS NULL;
ALTER TABLE signed_tx ALTER COLUMN raw_tx SET NOT NULL;
