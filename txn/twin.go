package txn

import "fmt"

// Two ledgers that use one key sign the same bytes for the same payload, nonce and fees, because
// signatures are deterministic. Both then see their transaction included, and one execution serves
// two intents. Nothing on chain shows it. An owner knows it if the bytes were on chain, or in a
// pool, before they first left this node.

// sentByOther returns the protection for a transaction that is included and that this owner has
// never broadcast; nil: none.
func sentByOther(v *View, tx *Tx, next *Status) *Protection {
	if !tx.Unsent || next.Sub != Included || v.Cursor.AwaitsDecision() {
		return nil
	}
	r := next.Receipt
	return twin(v, tx, r.TxHash, fmt.Sprintf("was in block %d (%s)", r.BlockNumber,
		r.BlockHash.Hex()))
}

// checkUnsent looks for a transaction in a pool before its first broadcast, while there is a sign
// of another ledger: a node called an earlier one known at its first broadcast. That alone proves
// nothing, because a gateway may have sent it to several nodes.
func checkUnsent(v *View, tx *Tx) (Step, bool) {
	switch {
	case !tx.Unsent || !v.Twin || v.Cursor.AwaitsDecision():
		return nil, false
	case !tx.Turn.Diagnosed:
		return Diagnose{tx}, true
	case tx.Diagnosis != InPool:
		return nil, false
	}
	return Record{Change{Protect: twin(v, tx, tx.newest().Hash, "was in a pool")}}, true
}

func twin(v *View, tx *Tx, sent Hash, where string) *Protection {
	return &Protection{
		Expect:   v.Cursor.Next,
		Replaces: v.Cursor.replaceable(),
		Reason:   ReasonNonceElsewhere,
		Evidence: fmt.Sprintf("the bytes of transaction %s (%s, nonce %d) %s before their first "+
			"broadcast: another ledger or program signs the same transactions with this key, and "+
			"one execution may serve two requests", tx.ID, sent.Hex(), *tx.Nonce,
			where),
	}
}

// KnownUnsent reports whether a node called bytes known at their first broadcast.
func KnownUnsent(b Broadcast, answer Outcome) bool {
	return b.Tx.Unsent && answer.Class == AlreadyKnown
}

// ClearsTwin reports whether a look-up found no sign of another ledger.
func ClearsTwin(s Diagnose, found Diagnosis) bool {
	return s.Tx.Unsent && (found == PossiblyLost || found == PossiblyReplaced)
}
