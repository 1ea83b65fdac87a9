-- Answered requests about reserved nonces can be archived. An ALLOCATE stays for ever: its
-- request_id names its reservation. A RESOLVE stays like the commands of operators.

-- Each statement is a transaction of its own that locks one table at most, and may be repeated.
-- +goose NO TRANSACTION

-- +goose Up
-- Since when a request of a kind under a reservation is history only; NULL: it is needed. The chain
-- has used the nonce for good. Of a reservation that had given it back, the requests that
-- EndedReservation reads stay.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION request_ended_at(submitter INT, reservation UUID, request_kind TEXT)
    RETURNS TIMESTAMPTZ LANGUAGE sql STABLE AS $$
SELECT x.state_at
  FROM nonce_request g
  JOIN external_nonce x ON x.submitter_id = g.submitter_id AND x.nonce = g.nonce
 WHERE g.submitter_id = submitter AND g.reservation_id = reservation AND g.kind = 'ALLOCATE'
   AND x.state = 'ACCEPTED'
   AND CASE WHEN x.reservation_id = g.reservation_id
            THEN request_kind IN ('HASH', 'RELEASE', 'QUARANTINE', 'EXTEND')
            ELSE request_kind IN ('QUARANTINE', 'EXTEND') END
$$;

CREATE OR REPLACE FUNCTION request_is_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.applied_at IS NULL
       OR request_ended_at(OLD.submitter_id, OLD.reservation_id, OLD.kind) IS NULL THEN
        RAISE EXCEPTION 'request % (%) of submitter % must not be deleted', OLD.request_no,
            OLD.kind, OLD.submitter_id;
    END IF;
    RETURN OLD;
END $$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER request_is_kept BEFORE DELETE ON nonce_request
    FOR EACH ROW EXECUTE FUNCTION request_is_kept();
-- min_node_schema stays: an older program reads none of the requests that may be removed.

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
DROP TRIGGER IF EXISTS request_is_kept ON nonce_request;
DROP FUNCTION IF EXISTS request_is_kept, request_ended_at;
