package txn

import (
	"fmt"
	"slices"
)

// A client may use the nonce of its reservation by a transaction that Fencepost does not know. A
// transaction that Fencepost tracks for that nonce has lost it then, and is STUCK. No protection
// follows. One that a client signed waits for an operator: the unknown transaction may have the
// same payload. A cancel transaction of Fencepost has no effect that could happen twice, so it ends
// on proof alone.

// lost reports whether a transaction has lost its nonce to an unknown one of a client. In settled
// blocks the nonce is used, so the transaction blocks nothing.
func (v *View) lost(tx *Tx) bool {
	return v.Submitter.Mode == External && tx.State == Stuck && tx.Reason == ReasonNonceElsewhere
}

// endFill ends a cancel transaction that lost the nonce it fills, instead of its due broadcast. The
// nonce must be ACCEPTED, which takes two reads of the account: no other transaction could ever
// fill it. Another transaction must have used it in a block that was at the depth of deepest when
// it was found, and no attempt may be included. Otherwise, as when no endpoint has state that old,
// the transaction is broadcast again.
func endFill(v *View, tx *Tx) (Step, bool) {
	if !v.lost(tx) || !tx.fills() || tx.Turn.Claimed || tx.Due.After(v.Now) ||
		v.Cursor.Protected != nil || !v.External.accepted(*tx.Nonce) {
		return nil, false
	}
	used := v.NonceUse
	if used == nil || used.Tx != tx.ID || used.At.Before(tx.Due) {
		return FindConsumer{Tx: tx}, true
	}
	seen, by := v.inclusion(tx), used.By
	if !seen.Known || seen.Receipt != nil || by == nil || (Finding{Tx: tx}).RefutedBy(by) ||
		by.Block+v.Policy.deepest() > min(used.Head, v.Head) {
		return nil, false
	}
	if hash, known := v.canonicalHash(by.Block); known && hash != by.BlockHash {
		return nil, false
	}
	next := tx.Status
	next.State, next.Sub = Failed, None
	next.Executed, next.Released = No, true
	next.Doubted = false
	next.LastError = fmt.Sprintf("nonce %d was used before it was filled", *tx.Nonce) +
		by.Evidence()
	return Record{Change{Writes: v.move(tx, EventFailed, &next, 0)}}, true
}

// accepted reports whether a nonce below the cursor is ACCEPTED.
func (x *ExternalView) accepted(nonce Nonce) bool {
	return !slices.ContainsFunc(x.Nonces, func(n ExternalNonce) bool { return n.Nonce == nonce })
}
