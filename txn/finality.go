package txn

import (
	"fmt"
	"slices"
)

// releases reports whether the next nonce may be taken after this inclusion. Depths start at 1, the
// receipt's block at the head of the chain, so depth d has d-1 blocks above. Confirmations count
// only the blocks above: a final transaction is one deeper than their number. A release depth of at
// least Confirmations, if above 1, therefore means "only when final", the chain's own tag included,
// and a final transaction is never waited for any longer (law L5).
func (p *Policy) releases(seen *Inclusion) bool {
	onlyFinal := p.ReleaseDepth == 0 || p.ReleaseDepth > 1 && p.ReleaseDepth >= p.Confirmations
	return seen.Final || !onlyFinal && seen.Confirmations+1 >= p.ReleaseDepth
}

// reportConfirmations reports the blocks above the receipt's, if the policy wants it: the new ones,
// or all of them if the reported blocks left the canonical chain (NewFork; C24).
func reportConfirmations(v *View, tx *Tx, seen *Inclusion) []Write {
	n := len(tx.Above)
	if !v.Policy.ReportConfirmations ||
		len(seen.Above) <= n && slices.Equal(seen.Above, tx.Above[:len(seen.Above)]) {
		// fewer of the same blocks: the endpoint lags, or the chain went back without new blocks
		// yet
		return nil
	}
	return confirmations(v, tx, seen)
}

func confirmations(v *View, tx *Tx, seen *Inclusion) []Write {
	n, next := len(tx.Above), tx.Status
	next.Above = seen.Above
	w := v.move(tx, EventConfirmations, &next, 0)
	w[0].NewFork = n > len(seen.Above) || !slices.Equal(seen.Above[:n], tx.Above)
	w[0].Above = seen.Above
	if !w[0].NewFork {
		w[0].Above = seen.Above[n:]
	}
	return w
}

// auditFinality finds final transactions whose block is no longer canonical. They become STUCK and
// their recorded bytes are rebroadcast, which cannot execute them twice. The submitter is protected
// until all of them are final again (H22). Other transactions that left the chain with them are not
// waited for: they may need a new attempt, which the protection forbids, and no nonce is taken
// before they are included again (L5).
func auditFinality(v *View) (Step, bool) {
	if v.Cursor == nil {
		return nil, false
	}
	var c Change
	for i := range v.Audited {
		tx := &v.Audited[i]
		if hash, known := v.canonicalHash(tx.Receipt.BlockNumber); !known ||
			hash == tx.Receipt.BlockHash {
			continue
		}
		c.Writes = append(c.Writes, undoFinality(v, tx)...)
	}
	if v.concurrent() {
		c.Writes = append(c.Writes, alsoAffected(v, c.Writes)...)
	}
	guard := v.Cursor.Protected
	switch {
	case len(c.Writes) > 0 && guard == nil:
		c.Protect = &Protection{
			Expect:   v.Cursor.Next,
			Reason:   ReasonReorgedFinal,
			Evidence: c.Writes[0].Next.LastError,
		}
	case len(c.Writes) == 0 && guard != nil && guard.Reason == ReasonReorgedFinal &&
		!v.hasReorgedFinal():
		c.Unprotect = &Unprotection{
			ID:     guard.ID,
			Expect: v.Cursor.Next,
			To:     v.Cursor.Next,
			Reason: "all reorged final transactions are final again",
		}
		c.Writes = makeDue(v)
	case len(c.Writes) == 0:
		c.Unprotect = v.refuted()
		if c.Unprotect != nil {
			c.Writes = makeDue(v)
		}
	}
	return record(c)
}

func (v *View) hasReorgedFinal() bool {
	for i := range v.Open {
		if v.Open[i].Reason == ReasonReorgedFinal {
			return true
		}
	}
	return false
}

// undoFinality revokes the outcome of a transaction whose block left the chain.
func undoFinality(v *View, tx *Finished) []Write {
	next := tx.Status
	next.State = Stuck
	next.Sub = None
	next.Executed = Unknown
	next.Reason = ReasonReorgedFinal
	next.SubmitAttempts = 0
	next.LastOutcome = ""
	next.LastError = fmt.Sprintf(
		"it was final in block %d (%s), which left the chain; its bytes are being rebroadcast",
		tx.Receipt.BlockNumber, tx.Receipt.BlockHash.Hex())
	next.Receipt, next.Above = nil, nil
	w := v.move(&Tx{ID: tx.ID, Status: tx.Status}, EventReorged, &next, 0)
	w[0].NewFork = true
	return w
}

func (v *View) canonicalHash(number uint64) (Hash, bool) {
	if v.Canonical == nil {
		return Hash{}, false
	}
	return v.Canonical(number)
}
