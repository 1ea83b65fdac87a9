-- Recovery after the ledger was restored from a backup, or after a fail-over that lost commits: one
-- transaction of an operator, while no other process writes. Transactions that the lost part of the
-- ledger signed may be on chain. So every lease is revoked, every submitter is stopped, and every
-- resume token and protection number that was issued before becomes invalid.

-- LiveLease is read before anything is locked: on a ledger in use the locks below would stop every
-- commit and every renewal.
-- name: LiveLease :many
SELECT l.submitter_id, l.owner_node
  FROM submitter_lease l
 WHERE l.expires_at > clock_timestamp()
 ORDER BY l.submitter_id
 LIMIT 1;

-- SetLockTimeout limits how long this transaction waits for a lock.
-- name: SetLockTimeout :exec
SELECT set_config('lock_timeout', @millis::TEXT, TRUE);

-- LockLeases keeps all nodes from writing and from acquiring until the transaction ends.
-- name: LockLeases :exec
SELECT FROM submitter_lease l ORDER BY l.submitter_id FOR UPDATE;

-- RaiseFeedEpoch also depends on the time: a backup that is restored a second time must not get the
-- epoch of the first restore, whose resume tokens refer to other events.
-- name: RaiseFeedEpoch :one
UPDATE ledger l
   SET feed_epoch = greatest(l.feed_epoch + 1,
                             (extract(EPOCH FROM clock_timestamp()) * 1000)::BIGINT)
RETURNING l.feed_epoch;

-- RevokeLeases skips every token that the lost part may have issued.
-- name: RevokeLeases :execrows
UPDATE submitter_lease l
   SET fencing_token = l.fencing_token + @raise::BIGINT, owner_node = '',
       expires_at = clock_timestamp(), released = TRUE;

-- EndCommands finishes the commands that were not applied: they were sent with another ledger in
-- view. @one_submitter is one submitter; 0: all.
-- name: EndCommands :execrows
UPDATE submitter_command k
   SET applied_at = clock_timestamp(), result = @ended::TEXT, fencing_token = l.fencing_token
  FROM submitter_lease l
 WHERE l.submitter_id = k.submitter_id AND k.applied_at IS NULL
   AND (@one_submitter::INT = 0 OR k.submitter_id = @one_submitter::INT);

-- PauseUnstarted pauses the submitters without a cursor to protect: their first nonce may have been
-- taken in the lost part, and their whole queue after it.
-- name: PauseUnstarted :execrows
WITH paused AS (
    UPDATE submitter s SET status = 'PAUSED'
     WHERE NOT EXISTS (SELECT FROM submitter_nonce_cursor n WHERE n.submitter_id = s.submitter_id)
       AND s.moved_to IS NULL
 RETURNING s.submitter_id
)
INSERT INTO submitter_command (submitter_id, kind, reason, operator, applied_at, result,
                               fencing_token)
SELECT p.submitter_id, 'PAUSE', @reason::TEXT, 'recover', clock_timestamp(), 'APPLIED',
       l.fencing_token
  FROM paused p
  JOIN submitter_lease l ON l.submitter_id = p.submitter_id;

-- MarkRestored marks the transactions that are not final: each may have been executed in the lost
-- part, even under another attempt that was signed there, and never becomes final as not executed.
-- @one_submitter is one submitter; 0: all.
-- name: MarkRestored :execrows
UPDATE managed_tx t SET restored = TRUE, fencing_token = l.fencing_token
  FROM submitter_lease l
 WHERE l.submitter_id = t.submitter_id AND t.terminal_at IS NULL
   AND (@one_submitter::INT = 0 OR t.submitter_id = @one_submitter::INT);

-- VoidTopUps ends the decided top-ups without a transaction: it may be in the lost part, and
-- executed. The next need is decided by the balance.
-- name: VoidTopUps :execrows
UPDATE top_up u SET voided_at = clock_timestamp()
 WHERE u.voided_at IS NULL
   AND NOT EXISTS (SELECT FROM managed_tx t
                    WHERE t.submitter_id = u.treasury_id AND t.request_id = u.request_id);

-- ProtectRestored appends the evidence of a protection in force to its own. Its own evidence stays
-- unchanged, or a repeated recovery would nest it. The count of protections continues beyond every
-- number that the lost part can have issued, so that a repeated decision on one of those does not
-- apply here. It uses milliseconds of the database's time, because a backup that is restored a
-- second time counts from the same number; the raise covers a wrong clock.
-- name: ProtectRestored :execrows
WITH protected AS (
    UPDATE submitter_nonce_cursor n
       SET protect_evidence = CASE WHEN n.protect_reason IS NULL THEN @evidence::TEXT
                                   WHEN n.protect_reason = @reason::TEXT
                                        AND n.protect_evidence <> '' THEN n.protect_evidence
                                   ELSE @evidence::TEXT || '; protected before that because of '
                                        || n.protect_reason
                                        || coalesce(': ' || n.protect_evidence, '') END,
           protect_reason   = @reason::TEXT,
           protect_at       = clock_timestamp(),
           protections      = greatest(n.protections + @raise::BIGINT,
                                       (extract(EPOCH FROM clock_timestamp()) * 1000)::BIGINT),
           fencing_token    = l.fencing_token,
           updated_at       = clock_timestamp()
      FROM submitter_lease l
     WHERE l.submitter_id = n.submitter_id AND l.moved_to IS NULL
       AND (@one_submitter::INT = 0 OR n.submitter_id = @one_submitter::INT)
 RETURNING n.submitter_id, n.protections, n.protect_evidence, n.fencing_token
)
INSERT INTO submitter_command (submitter_id, kind, action, expect, reason, operator, applied_at,
                               result, fencing_token)
SELECT p.submitter_id, 'PROTECT', @reason::TEXT, p.protections, left(p.protect_evidence, 4096),
       'recover', clock_timestamp(), 'APPLIED', p.fencing_token
  FROM protected p;
