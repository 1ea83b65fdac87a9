-- What an operator does after the ledger was restored from a backup, or after a fail-over that lost commits: in one transaction, while nobody writes. What the
-- lost part of the ledger signed may be on chain; so every lease is spent, every cursor is protected, and every resume token is void.

-- LockLeases keeps everybody from writing and from acquiring until the transaction ends.
-- name: LockLeases :many
SELECT l.submitter_id, l.owner_node, (l.expires_at > clock_timestamp())::BOOLEAN AS live
  FROM submitter_lease l
 ORDER BY l.submitter_id
   FOR UPDATE;

-- name: RaiseFeedEpoch :one
UPDATE ledger l SET feed_epoch = l.feed_epoch + 1 RETURNING l.feed_epoch;

-- SpendLeases passes over every token that the lost part may have given.
-- name: SpendLeases :execrows
UPDATE submitter_lease l
   SET fencing_token = l.fencing_token + @raise::BIGINT, owner_node = '', expires_at = clock_timestamp(), released = TRUE;

-- ProtectRestored leaves the evidence of a protection that is in force below its own.
-- name: ProtectRestored :execrows
UPDATE submitter_nonce_cursor n
   SET protect_evidence = @evidence::TEXT || CASE WHEN n.protect_reason IS NULL THEN '' ELSE
                              '; protected before that because of ' || n.protect_reason || coalesce(': ' || n.protect_evidence, '') END,
       protect_reason   = @reason::TEXT,
       protect_at       = clock_timestamp(),
       protections      = n.protections + 1,
       fencing_token    = l.fencing_token,
       updated_at       = clock_timestamp()
  FROM submitter_lease l
 WHERE l.submitter_id = n.submitter_id;
