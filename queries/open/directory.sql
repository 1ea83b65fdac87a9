-- The directory of several ledgers. The first part is read and written in the database of the
-- directory, the second in that of a ledger that joins it.

-- ClaimAccount claims an account for a ledger; no row: it is claimed, or the ledger did not join.
-- name: ClaimAccount :one
INSERT INTO directory_account (name, chain_id, address, no)
SELECT @name, @chain_id, @address, d.no
  FROM directory_ledger d WHERE d.ledger_id = @ledger_id
ON CONFLICT DO NOTHING
RETURNING no;

-- ClaimsLike lists the claims of this name or account.
-- name: ClaimsLike :many
SELECT a.name, a.chain_id, a.address, a.no, d.name AS ledger, d.ledger_id
  FROM directory_account a JOIN directory_ledger d ON d.no = a.no
 WHERE a.name = @name OR (a.chain_id = @chain_id AND a.address = @address);

-- LedgerOfAccount names the ledger that has claimed a name.
-- name: LedgerOfAccount :one
SELECT d.name FROM directory_account a JOIN directory_ledger d ON d.no = a.no
 WHERE a.name = @name;

-- LockDirectory makes ledgers join one after another.
-- name: LockDirectory :exec
LOCK TABLE directory_ledger IN SHARE ROW EXCLUSIVE MODE;

-- AddLedger adds a ledger, under the next number; no row: a ledger of that name or id is there.
-- name: AddLedger :one
INSERT INTO directory_ledger (no, name, ledger_id)
SELECT coalesce(max(d.no) + 1, 0), @name, @ledger_id FROM directory_ledger d
HAVING coalesce(max(d.no) + 1, 0) < 128
ON CONFLICT DO NOTHING
RETURNING no;

-- name: DirectoryLedgers :many
SELECT d.no, d.name, d.ledger_id, d.joined_at,
       (SELECT count(*) FROM directory_account a
         WHERE a.no = d.no AND a.name NOT LIKE 'pool:%') AS accounts
  FROM directory_ledger d ORDER BY d.no;

-- ClaimAccounts claims many accounts; those that are claimed already are left alone.
-- name: ClaimAccounts :exec
INSERT INTO directory_account (name, chain_id, address, no)
SELECT unnest(@names::TEXT[]), unnest(@chain_ids::BIGINT[]), unnest(@addresses::BYTEA[]), @no::INT
ON CONFLICT DO NOTHING;

-- Unclaimed lists accounts that the ledger of this number has not claimed, with who has.
-- name: Unclaimed :many
SELECT w.name::TEXT AS name, coalesce(d.name, '')::TEXT AS ledger
  FROM (SELECT unnest(@names::TEXT[]) AS name, unnest(@chain_ids::BIGINT[]) AS chain_id,
               unnest(@addresses::BYTEA[]) AS address) w
  LEFT JOIN LATERAL (
       SELECT a.no FROM directory_account a
        WHERE (a.name = w.name OR (a.chain_id = w.chain_id AND a.address = w.address))
        ORDER BY a.no <> @no::INT DESC LIMIT 1) o ON TRUE
  LEFT JOIN directory_ledger d ON d.no = o.no
 WHERE NOT EXISTS (SELECT FROM directory_account a
                    WHERE a.name = w.name AND a.chain_id = w.chain_id AND a.address = w.address
                      AND a.no = @no::INT)
 ORDER BY w.name
 LIMIT @max_rows::INT;

-- name: LedgerIdentity :one
SELECT l.ledger_id, coalesce(l.ledger_name, '') AS ledger_name, l.directory_no FROM ledger l;

-- LockSubmitters keeps submitters from being registered meanwhile.
-- name: LockSubmitters :exec
LOCK TABLE submitter IN SHARE ROW EXCLUSIVE MODE;

-- name: AccountsOfLedger :many
SELECT s.submitter_id, s.name, s.chain_id, s.address FROM submitter s
 WHERE s.moved_to IS NULL
 ORDER BY s.submitter_id;

-- AccountsAfter lists the accounts with higher numbers, for nodes that serve several ledgers.
-- name: AccountsAfter :many
SELECT s.submitter_id, s.name, s.chain_id, s.address FROM submitter s
 WHERE s.submitter_id > @after::INT AND s.moved_to IS NULL
 ORDER BY s.submitter_id LIMIT @max_rows::INT;

-- name: PoolsOfLedger :many
SELECT p.name, p.chain_id FROM pool p ORDER BY p.name;

-- SetDirectory records the directory. That is no answer about moves: the directory may have been
-- restored, and miss some until the other ledgers have joined again too.
-- name: SetDirectory :exec
UPDATE ledger SET directory_no = @no::INT, ledger_name = @name::TEXT;

-- name: HasSubmitters :one
SELECT EXISTS (SELECT FROM submitter);
