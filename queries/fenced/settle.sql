-- SettleNonces records, for many submitters, the nonce below which all transactions are final and
-- compared with the chain for the last time. It erases the signed bytes of up to @most of these
-- nonces each, and the bytes that clients submitted for them. No owner reads them again: it audits
-- only transactions above (RecentFinals), and broadcasts only open ones. The hashes stay.
-- name: SettleNonces :many
WITH change AS (
    SELECT unnest(@submitter_ids::INT[])     AS submitter_id,
           unnest(@fencing_tokens::BIGINT[]) AS fencing_token,
           unnest(@belows::BIGINT[])         AS below
), lease AS MATERIALIZED (
    SELECT c.*
      FROM change c
      JOIN submitter_lease l ON l.submitter_id = c.submitter_id
                            AND l.fencing_token = c.fencing_token
     WHERE l.owner_node = @owner_node::TEXT AND l.expires_at > clock_timestamp()
     ORDER BY l.submitter_id
       FOR KEY SHARE OF l
), ok AS MATERIALIZED (
    SELECT l.submitter_id, l.fencing_token, l.below,
           greatest(n.init_nonce, coalesce(d.erased_below, 0)) AS erase_from,
           (CASE WHEN @most::BIGINT = 0 THEN coalesce(d.erased_below, 0)
                 ELSE greatest(coalesce(d.erased_below, 0),
                               least(l.below,
                                     greatest(n.init_nonce, coalesce(d.erased_below, 0))
                                     + @most::BIGINT)) END)::BIGINT AS erase_below
      FROM lease l
      JOIN submitter_nonce_cursor n ON n.submitter_id = l.submitter_id
                                   AND n.next_nonce >= l.below
      LEFT JOIN submitter_settled d ON d.submitter_id = l.submitter_id
), erased AS (
    UPDATE tx_attempt a
       SET raw_tx = NULL
      FROM ok o
      JOIN managed_tx t ON t.submitter_id = o.submitter_id AND t.nonce >= o.erase_from
                       AND t.nonce < o.erase_below AND t.terminal_at IS NOT NULL
     WHERE a.submitter_id = t.submitter_id AND a.tx_id = t.tx_id AND a.raw_tx IS NOT NULL
    RETURNING a.attempt_no
), signed_erased AS (
    UPDATE signed_tx s
       SET raw_tx = NULL
      FROM ok o
      JOIN managed_tx t ON t.submitter_id = o.submitter_id AND t.nonce >= o.erase_from
                       AND t.nonce < o.erase_below AND t.terminal_at IS NOT NULL AND t.signed
     WHERE s.submitter_id = t.submitter_id AND s.tx_id = t.tx_id AND s.raw_tx IS NOT NULL
), recorded AS (
    INSERT INTO submitter_settled AS d (submitter_id, settled_below, erased_below, fencing_token)
    SELECT o.submitter_id, o.below, o.erase_below, o.fencing_token FROM ok o
     ORDER BY o.submitter_id
        ON CONFLICT (submitter_id) DO UPDATE
       SET settled_below = greatest(d.settled_below, EXCLUDED.settled_below),
           erased_below  = greatest(d.erased_below, EXCLUDED.erased_below),
           fencing_token = EXCLUDED.fencing_token,
           updated_at    = clock_timestamp()
)
SELECT o.submitter_id::INT AS submitter_id, o.below::BIGINT AS below, o.erase_below,
       (SELECT count(*) FROM erased) AS erased
  FROM ok o;
