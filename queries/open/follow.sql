-- MovedOf lists those of these submitters that have moved to another ledger.
-- name: MovedOf :many
SELECT s.submitter_id, s.name, s.moved_to::TEXT AS moved_to
  FROM submitter s
 WHERE s.submitter_id = ANY(@submitter_ids::INT[]) AND s.moved_to IS NOT NULL;

-- MovedNames lists the moved accounts with these names.
-- name: MovedNames :many
SELECT s.submitter_id, s.name, s.chain_id, s.address, s.moved_to::TEXT AS moved_to
  FROM submitter s
 WHERE s.name = ANY(@names::TEXT[]) AND s.moved_to IS NOT NULL;

-- ArrivalXid returns the number of the transaction that brought an account here. Its later events
-- have higher numbers; the copied ones are of before all snapshots. The system column has the low
-- 32 bits, and a row is never that many transactions old while its events matter.
-- name: ArrivalXid :one
SELECT (n.next - ((n.next - CAST(CAST(a.xmin AS TEXT) AS BIGINT)) & 4294967295))::BIGINT AS xid
  FROM account_arrival a,
       (SELECT CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS TEXT) AS BIGINT) AS next) n
 WHERE a.submitter_id = @submitter_id;
