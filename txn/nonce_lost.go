package txn

import "fmt"

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
// proof is that of FAIL: another transaction used the nonce, in a block at the depth of deepest,
// and no attempt is included. Without it, as if no endpoint has state of that depth, the
// transaction is broadcast again.
func endFill(v *View, tx *Tx) (Step, bool) {
	if !v.lost(tx) || !tx.fills() || tx.Turn.Claimed || tx.Due.After(v.Now) ||
		v.Cursor.Protected != nil {
		return nil, false
	}
	used := v.NonceUse
	if used == nil || used.Tx != tx.ID || used.At.Before(tx.Due) {
		return FindConsumer{Tx: tx}, true
	}
	seen, by := v.inclusion(tx), used.By
	if !seen.Known || seen.Receipt != nil || by == nil || (Finding{Tx: tx}).RefutedBy(by) ||
		by.Block+v.Policy.deepest() > v.Head {
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
