-- What an operator does after the ledger was restored from a backup, or after a fail-over that lost
-- commits: in one transaction, while nobody writes. What the lost part of the ledger signed may be
-- on chain; so every lease is spent, every submitter is stopped, and what was given out before, be
-- it a resume token or the number of a protection, is void.

-- LiveLease is asked before anything is locked: on a ledger that is in use the locks below would
-- stop every commit and every renewal.
-- name: LiveLease :many
SELECT l.submitter_id, l.owner_node FROM submitter_lease l WHERE l.expires_at > clock_timestamp() ORDER BY l.submitter_id LIMIT 1;

-- AllowLocks limits how long this transaction waits for a lock.
-- name: AllowLocks :exec
SELECT set_config('lock_timeout', @millis::TEXT, TRUE);

-- LockLeases keeps everybody from writing and from acquiring until the transaction ends.
-- name: LockLeases :exec
SELECT FROM submitter_lease l ORDER BY l.submitter_id FOR UPDATE;

-- RaiseFeedEpoch goes by the time as well: a backup that is restored a second time must not get the
-- epoch that it got the first time, whose resume tokens are about what came after that.
-- name: RaiseFeedEpoch :one
UPDATE ledger l SET feed_epoch = greatest(l.feed_epoch + 1, (extract(EPOCH FROM clock_timestamp()) * 1000)::BIGINT) RETURNING l.feed_epoch;

-- SpendLeases passes over every token that the lost part may have given.
-- name: SpendLeases :execrows
UPDATE submitter_lease l
   SET fencing_token = l.fencing_token + @raise::BIGINT, owner_node = '', expires_at = clock_timestamp(), released = TRUE;

-- EndCommands ends what was asked for and not done: whoever asked looked at another ledger.
-- name: EndCommands :execrows
UPDATE submitter_command k
   SET applied_at = clock_timestamp(), result = @ended::TEXT, fencing_token = l.fencing_token
  FROM submitter_lease l
 WHERE l.submitter_id = k.submitter_id AND k.applied_at IS NULL;

-- PauseUnstarted stops what has no cursor to protect: its first nonce may have been taken in the
-- lost part, with its whole queue after it.
-- name: PauseUnstarted :execrows
WITH paused AS (
    UPDATE submitter s SET status = 'PAUSED'
     WHERE NOT EXISTS (SELECT FROM submitter_nonce_cursor n WHERE n.submitter_id = s.submitter_id)
 RETURNING s.submitter_id
)
INSERT INTO submitter_command (submitter_id, kind, reason, operator, applied_at, result, fencing_token)
SELECT p.submitter_id, 'PAUSE', @reason::TEXT, 'recover', clock_timestamp(), 'APPLIED', l.fencing_token
  FROM paused p
  JOIN submitter_lease l ON l.submitter_id = p.submitter_id;

-- MarkRestored marks what is not final: it may have run in the lost part, so it never ends as not
-- run. What of it has a nonce may have run as well, under a form of it that was signed there.
-- name: MarkRestored :execrows
UPDATE managed_tx t SET restored = TRUE, fencing_token = l.fencing_token
  FROM submitter_lease l
 WHERE l.submitter_id = t.submitter_id AND t.terminal_at IS NULL;

-- ProtectRestored leaves the evidence of a protection that is in force below its own; one of its
-- own is left as it is, or a recovery that is repeated would wrap it in itself. Protections are
-- counted from beyond all that the lost part can have had, so that a decision on one of those, when
-- it is repeated, is about none of these. By milliseconds of the database's time, because a backup
-- that is restored a second time counts from the same number; the raise is for a clock that is off.
-- name: ProtectRestored :execrows
WITH protected AS (
    UPDATE submitter_nonce_cursor n
       SET protect_evidence = CASE WHEN n.protect_reason IS NULL THEN @evidence::TEXT
                                   WHEN n.protect_reason = @reason::TEXT AND n.protect_evidence <> '' THEN n.protect_evidence
                                   ELSE @evidence::TEXT || '; protected before that because of ' || n.protect_reason || coalesce(': ' || n.protect_evidence, '') END,
           protect_reason   = @reason::TEXT,
           protect_at       = clock_timestamp(),
           protections      = greatest(n.protections + @raise::BIGINT, (extract(EPOCH FROM clock_timestamp()) * 1000)::BIGINT),
           fencing_token    = l.fencing_token,
           updated_at       = clock_timestamp()
      FROM submitter_lease l
     WHERE l.submitter_id = n.submitter_id
 RETURNING n.submitter_id, n.protections, n.protect_evidence, n.fencing_token
)
INSERT INTO submitter_command (submitter_id, kind, action, expect, reason, operator, applied_at, result, fencing_token)
SELECT p.submitter_id, 'PROTECT', @reason::TEXT, p.protections, left(p.protect_evidence, 4096), 'recover', clock_timestamp(), 'APPLIED', p.fencing_token FROM protected p;
