package txn

import (
	"fmt"
	"slices"
)

// releases tells whether the next nonce may be taken after what is in a block. Depths begin with 1, the block of the receipt at the head of the chain; so depth d
// has d-1 blocks above. Confirmations count those above alone: what is final is one deeper than their number. As many as they are, if more than 1, therefore mean
// what they are meant for, "only when final", the chain's own tag included, and what is final is never waited for any longer (law L5).
func (p *Policy) releases(seen *Inclusion) bool {
	onlyFinal := p.ReleaseDepth == 0 || p.ReleaseDepth > 1 && p.ReleaseDepth >= p.Confirmations
	return seen.Final || !onlyFinal && seen.Confirmations+1 >= p.ReleaseDepth
}

// reportConfirmations tells the blocks above the receipt's, where the policy wants that: those that are new, or all of them when what was told is not on the canonical
// chain any more (newFork; C24).
func reportConfirmations(v *View, tx *Tx, seen *Inclusion) []Write {
	n := len(tx.Above)
	if !v.Policy.ReportConfirmations ||
		len(seen.Above) <= n && slices.Equal(seen.Above, tx.Above[:len(seen.Above)]) {
		return nil // no news: fewer of the same come from an endpoint that lags, or from a chain that went back and has nothing else yet
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

// audit finds final transactions whose block is not canonical any more. Finality was promised and did not hold: they are STUCK, their recorded bytes are handed
// over again, which can run them no second time, and the submitter is protected until all of them are final again (H22). What else left the chain with them is not
// waited for: it may need what the protection forbids, another form, and no nonce is taken before it is back (L5).
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
	guard := v.Cursor.Protected
	switch {
	case len(c.Writes) > 0 && guard == nil:
		c.Protect = &Protection{
			Expect:   v.Cursor.Next,
			Reason:   ReasonReorgedFinal,
			Evidence: c.Writes[0].Next.LastError,
		}
	case len(c.Writes) == 0 && guard != nil && guard.EndsAutomatically() && !v.hasReorgedFinal():
		c.Unprotect = &Unprotection{
			ID:     guard.ID,
			Expect: v.Cursor.Next,
			To:     v.Cursor.Next,
			Reason: "all that was final before is final again",
		}
		c.Writes = makeDue(v)
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

// undoFinality takes back what was said of a transaction whose block is not on the chain any more.
func undoFinality(v *View, tx *Finished) []Write {
	next := tx.Status
	next.State, next.Sub, next.Executed, next.Reason, next.SubmitAttempts, next.LastOutcome = Stuck, None, Unknown, ReasonReorgedFinal, 0, ""
	next.LastError = fmt.Sprintf(
		"it was final in block %d (%s), which is not on the chain any more; its bytes are handed over again",
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
