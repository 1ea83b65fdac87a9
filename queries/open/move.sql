-- Moves of accounts between ledgers: the first part is read and written in the database of the
-- directory, the second in the ledger that an account leaves, the third in the one that it goes to.
-- All of it is an operator's command.

-- BeginMove records a move, unless the account moves from this ledger already.
-- name: BeginMove :exec
INSERT INTO directory_move (move_id, submitter_id, name, from_no, to_no, resume)
VALUES (@move_id, @submitter_id, @name, @from_no, @to_no, @resume)
ON CONFLICT DO NOTHING;

-- name: MoveOf :one
SELECT m.* FROM directory_move m
 WHERE m.submitter_id = @submitter_id AND m.from_no = @from_no;

-- LockMove keeps other commands from taking a step of the same move.
-- name: LockMove :one
SELECT m.* FROM directory_move m WHERE m.move_id = @move_id FOR UPDATE;

-- RedirectMove changes the ledger of a move that has set no tombstone yet.
-- name: RedirectMove :execrows
UPDATE directory_move SET to_no = @to_no, changed_at = clock_timestamp()
 WHERE move_id = @move_id AND step = 'BEGUN';

-- name: SealMove :execrows
UPDATE directory_move
   SET step = 'SEALED', token = @token::BIGINT, to_epoch = @to_epoch::BIGINT,
       changed_at = clock_timestamp()
 WHERE move_id = @move_id AND step = 'BEGUN';

-- FinishMove gives the account to its new ledger, if it is still of the old one.
-- name: FinishMove :execrows
WITH done AS (
    UPDATE directory_move m SET step = 'DONE', changed_at = clock_timestamp()
     WHERE m.move_id = @move_id AND m.step = 'SEALED'
    RETURNING m.name, m.from_no, m.to_no
)
UPDATE directory_account a SET no = d.to_no
  FROM done d WHERE a.name = d.name AND a.no = d.from_no;

-- ClaimArrival records a move that ended in a ledger, in a directory that was restored.
-- name: ClaimArrival :exec
WITH known AS (
    INSERT INTO directory_move (move_id, submitter_id, name, from_no, to_no, resume, step, token,
                                to_epoch)
    VALUES (@move_id, @submitter_id, @name, @from_no, @to_no, FALSE, 'DONE', 0, 0)
    ON CONFLICT DO NOTHING
)
UPDATE directory_account a SET no = @to_no WHERE a.name = @name AND a.no = @from_no;

-- MovedAway lists the accounts that must have a tombstone in a ledger.
-- name: MovedAway :many
SELECT m.submitter_id, m.move_id, m.name, d.name AS ledger
  FROM directory_move m JOIN directory_ledger d ON d.no = m.to_no
 WHERE m.from_no = @from_no AND m.step <> 'BEGUN'
 ORDER BY m.submitter_id;

-- LockWriters waits for all statements that write transactions, and keeps others waiting.
-- name: LockWriters :exec
LOCK TABLE managed_tx IN SHARE ROW EXCLUSIVE MODE;

-- LockSubmitter waits for requests to its owner, and keeps others waiting.
-- name: LockSubmitter :exec
SELECT FROM submitter s WHERE s.submitter_id = @submitter_id FOR UPDATE;

-- MoveState lists what keeps an account from leaving a ledger.
-- name: MoveState :one
SELECT s.name, s.chain_id, s.address, s.status, s.moved_to, s.move_id, l.fencing_token,
       coalesce(n.protect_reason, '')::TEXT AS protect_reason,
       (SELECT count(*) FROM managed_tx t
         WHERE t.submitter_id = s.submitter_id AND t.nonce IS NOT NULL
           AND t.terminal_at IS NULL)::BIGINT AS open_txs,
       (SELECT count(*) FROM managed_tx t
         WHERE t.submitter_id = s.submitter_id AND t.nonce IS NULL AND t.terminal_at IS NULL
           AND t.approval = 'WAITING')::BIGINT AS awaiting,
       ((SELECT count(*) FROM submitter_command k
          WHERE k.submitter_id = s.submitter_id AND k.applied_at IS NULL)
        + (SELECT count(*) FROM nonce_request k
            WHERE k.submitter_id = s.submitter_id AND k.applied_at IS NULL))::BIGINT AS requests,
       (SELECT count(*) FROM external_nonce x
         WHERE x.submitter_id = s.submitter_id AND x.state <> 'ACCEPTED')::BIGINT AS reserved,
       -- that are decided, and whose transaction is not final
       (SELECT count(*) FROM top_up u
          LEFT JOIN managed_tx t
                 ON t.submitter_id = u.treasury_id AND t.request_id = u.request_id
         WHERE (u.submitter_id = s.submitter_id OR u.treasury_id = s.submitter_id)
           AND t.terminal_at IS NULL)::BIGINT AS top_ups,
       (EXISTS (SELECT FROM pool_member p
                 WHERE p.submitter_id = s.submitter_id))::BOOLEAN AS pooled
  FROM submitter s
  JOIN submitter_lease l ON l.submitter_id = s.submitter_id
  LEFT JOIN submitter_nonce_cursor n ON n.submitter_id = s.submitter_id
 WHERE s.submitter_id = @submitter_id;

-- SealLease takes the lease from its owner, and from every later one.
-- name: SealLease :one
UPDATE submitter_lease l
   SET fencing_token = l.fencing_token + 1, owner_node = '', released = TRUE,
       expires_at = clock_timestamp(), moved_to = @ledger::TEXT
 WHERE l.submitter_id = @submitter_id AND l.moved_to IS NULL
RETURNING l.fencing_token;

-- name: SealSubmitter :execrows
UPDATE submitter s
   SET status = 'PAUSED', moved_to = @ledger::TEXT, move_id = @move_id::UUID
 WHERE s.submitter_id = @submitter_id AND s.moved_to IS NULL;

-- KeepOldProgramsOut is for programs that do not know moved accounts.
-- name: KeepOldProgramsOut :exec
UPDATE ledger g SET min_node_schema = greatest(g.min_node_schema, @schema_version::BIGINT);

-- name: LedgerOfMove :one
SELECT l.ledger_id, coalesce(l.ledger_name, '')::TEXT AS ledger_name, l.directory_no, l.feed_epoch
  FROM ledger l;

-- name: ChainGenesis :one
SELECT c.genesis_hash FROM chain c WHERE c.chain_id = @chain_id;

-- name: Arrival :one
SELECT a.* FROM account_arrival a WHERE a.submitter_id = @submitter_id;

-- name: AddArrival :exec
INSERT INTO account_arrival (submitter_id, move_id, from_no)
VALUES (@submitter_id, @move_id, @from_no);

-- name: Arrivals :many
SELECT a.* FROM account_arrival a ORDER BY a.submitter_id;
