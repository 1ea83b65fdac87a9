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
   SET step = 'SEALED', resume = @resume, token = @token::BIGINT, to_epoch = @to_epoch::BIGINT,
       changed_at = clock_timestamp()
 WHERE move_id = @move_id AND step = 'BEGUN';

-- AdoptMove records the tombstone of a ledger in a directory that was restored and does not have
-- it. The account arrives protected: the new ledger may have lost it with the directory.
-- name: AdoptMove :exec
INSERT INTO directory_move AS m (move_id, submitter_id, name, from_no, to_no, resume, step, token,
                                 to_epoch)
VALUES (@move_id, @submitter_id, @name, @from_no, @to_no, FALSE, 'SEALED', 0, 0)
ON CONFLICT (submitter_id, from_no) DO UPDATE
   SET move_id = EXCLUDED.move_id, to_no = EXCLUDED.to_no, resume = FALSE, step = 'SEALED',
       token = 0, to_epoch = 0, changed_at = clock_timestamp()
 WHERE m.step = 'BEGUN' AND (m.move_id, m.to_no) <> (EXCLUDED.move_id, EXCLUDED.to_no);

-- FinishMove gives the account to its new ledger, if it is still of the old one.
-- name: FinishMove :execrows
WITH done AS (
    UPDATE directory_move m SET step = 'DONE', changed_at = clock_timestamp()
     WHERE m.move_id = @move_id AND m.step = 'SEALED'
    RETURNING m.name, m.from_no, m.to_no
)
UPDATE directory_account a SET no = d.to_no
  FROM done d WHERE a.name = d.name AND a.no = d.from_no;

-- ClaimArrival records a move that ended in a ledger, in a directory that was restored. The account
-- is claimed for the ledger if the claim is of one that it has left.
-- name: ClaimArrival :exec
WITH known AS (
    INSERT INTO directory_move AS m (move_id, submitter_id, name, from_no, to_no, resume, step,
                                     token, to_epoch)
    VALUES (@move_id, @submitter_id, @name, @from_no, @to_no, FALSE, 'DONE', 0, 0)
    ON CONFLICT (submitter_id, from_no) DO UPDATE
       SET move_id = EXCLUDED.move_id, to_no = EXCLUDED.to_no, step = 'DONE',
           token = coalesce(m.token, 0), to_epoch = coalesce(m.to_epoch, 0),
           changed_at = clock_timestamp()
     WHERE m.step = 'BEGUN' OR (m.move_id = EXCLUDED.move_id AND m.step = 'SEALED')
)
UPDATE directory_account a SET no = @to_no
 WHERE a.name = @name AND a.no <> @to_no
   AND (a.no = @from_no
        OR EXISTS (SELECT FROM directory_move m
                    WHERE m.submitter_id = @submitter_id AND m.from_no = a.no
                      AND m.step <> 'BEGUN'));

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
       coalesce(s.move_epoch, 0)::BIGINT AS move_epoch,
       -- the pause in force is that of a move
       coalesce((SELECT k.kind = 'PAUSE' AND k.operator = @mover::TEXT
                   FROM submitter_command k
                  WHERE k.submitter_id = s.submitter_id AND k.kind IN ('PAUSE', 'RESUME')
                    AND k.result = 'APPLIED'
                  ORDER BY k.command_id DESC LIMIT 1), FALSE)::BOOLEAN AS own_pause,
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
           AND u.voided_at IS NULL AND t.terminal_at IS NULL)::BIGINT AS top_ups,
       (EXISTS (SELECT FROM pool_member p
                 WHERE p.submitter_id = s.submitter_id))::BOOLEAN AS pooled
  FROM submitter s
  JOIN submitter_lease l ON l.submitter_id = s.submitter_id
  LEFT JOIN submitter_nonce_cursor n ON n.submitter_id = s.submitter_id
 WHERE s.submitter_id = @submitter_id;

-- HasLeft reports whether an account has a tombstone; no row: another one, or none, has its number.
-- name: HasLeft :one
SELECT (s.moved_to IS NOT NULL)::BOOLEAN FROM submitter s
 WHERE s.submitter_id = @submitter_id AND s.name = @name;

-- SealLease takes the lease from its owner, and from every later one.
-- name: SealLease :execrows
UPDATE submitter_lease l
   SET fencing_token = l.fencing_token + @raise::BIGINT, owner_node = '', released = TRUE,
       expires_at = clock_timestamp(), moved_to = @ledger::TEXT
 WHERE l.submitter_id = @submitter_id AND l.moved_to IS NULL;

-- name: SealSubmitter :execrows
UPDATE submitter s
   SET status = 'PAUSED', moved_to = @ledger::TEXT, move_id = @move_id::UUID,
       move_epoch = @to_epoch::BIGINT
 WHERE s.submitter_id = @submitter_id AND s.moved_to IS NULL;

-- KeepOldProgramsOut is for programs that do not know moved accounts.
-- name: KeepOldProgramsOut :exec
UPDATE ledger g SET min_node_schema = greatest(g.min_node_schema, @schema_version::BIGINT);

-- name: LedgerOfMove :one
SELECT l.ledger_id, coalesce(l.ledger_name, '')::TEXT AS ledger_name, l.directory_no, l.feed_epoch,
       coalesce(l.timeline, 0)::INT AS timeline,
       -- since the directory answered
       (l.timeline IS DISTINCT FROM l.moves_timeline)::BOOLEAN AS failed_over,
       -- no account leaves the ledger whose database holds the directory
       (EXISTS (SELECT FROM directory_ledger d
                 WHERE d.ledger_id = l.ledger_id))::BOOLEAN AS has_directory
  FROM ledger l;

-- MovesAsked records that the directory has answered which accounts left, at a timeline.
-- name: MovesAsked :exec
UPDATE ledger l SET moves_timeline = @timeline::INT
 WHERE l.moves_timeline IS DISTINCT FROM @timeline::INT;

-- Tombstones lists the accounts that have left the ledger.
-- name: Tombstones :many
SELECT s.submitter_id, s.name, s.chain_id, s.address, s.moved_to::TEXT AS moved_to,
       s.move_id::UUID AS move_id
  FROM submitter s WHERE s.moved_to IS NOT NULL ORDER BY s.submitter_id;

-- name: ChainGenesis :one
SELECT c.genesis_hash FROM chain c WHERE c.chain_id = @chain_id;

-- name: Arrival :one
SELECT a.* FROM account_arrival a WHERE a.submitter_id = @submitter_id;

-- name: AddArrival :exec
INSERT INTO account_arrival (submitter_id, move_id, from_no)
VALUES (@submitter_id, @move_id, @from_no);

-- name: Arrivals :many
SELECT a.*, s.name FROM account_arrival a JOIN submitter s ON s.submitter_id = a.submitter_id
 ORDER BY a.submitter_id;
