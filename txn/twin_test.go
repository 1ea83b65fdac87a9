package txn

import (
	"strings"
	"testing"
)

// TestTwin_BytesBeforeFirstBroadcast_Protects puts the bytes of a transaction on chain or into a
// pool before the owner has broadcast them.
func TestTwin_BytesBeforeFirstBroadcast_Protects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		unsent   bool
		included bool
		sign     bool
		pooled   Diagnosis
		protects bool
	}{
		"in a block":                     {true, true, false, "", true},
		"in a block, maybe broadcast":    {false, true, false, "", false},
		"in a pool, after a sign":        {true, false, true, InPool, true},
		"in a pool, maybe broadcast":     {false, false, true, InPool, false},
		"in a pool, without a sign":      {true, false, false, InPool, false},
		"in no pool":                     {true, false, true, PossiblyLost, false},
		"pool unknown":                   {true, false, true, "UNKNOWN", false},
		"in a block and, unseen, a pool": {true, true, true, PossiblyLost, true},
	} {
		w := newWorld(2, policy)
		w.unsent, w.pooled = c.unsent, c.pooled
		for len(w.view.Open) == 0 {
			w.do(t, Decide(&w.view), Outcome{Class: Accepted}, accepted)
		}
		w.view.Twin = c.sign
		tx := w.view.Open[0]
		if c.included {
			w.include(tx.TxHash, true)
		}
		for range 10 {
			step := Decide(&w.view)
			if _, rests := step.(Rest); rests {
				break
			}
			w.do(t, step, Outcome{Class: AlreadyKnown}, accepted)
		}
		p := protected(w)
		if (p != nil) != c.protects || p != nil && p.Reason != ReasonNonceElsewhere {
			t.Errorf("%s: %+v", name, p)
		}
		if got := w.kinds[tx.ID]; len(got) < 2 { // it is tracked in any case
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestTwin_DuringLiftableProtection_TakesItsPlace finds a twin while the protection in force would
// lift with its evidence. An unsent cancel is signed as well: the evidence names what was included.
func TestTwin_DuringLiftableProtection_TakesItsPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(1, policy)
	w.unsent = true
	for len(w.view.Open) == 0 {
		w.do(t, Decide(&w.view), Outcome{Class: Accepted}, accepted)
	}
	tx := &w.view.Open[0]
	first := tx.TxHash
	tx.Attempts = append(tx.Attempts, Attempt{No: 2, Kind: Cancel, Nonce: *tx.Nonce,
		Hash: Hash{0xca}})
	cursor := *w.view.Cursor
	cursor.Protections = 1
	cursor.Protected = &Protected{ID: 1, Reason: ReasonNonceElsewhere, Tx: tx.ID}
	w.view.Cursor = &cursor
	w.include(first, true)
	w.settle(t)
	if p := protected(w); p == nil || p.ID != 2 || p.Tx != (TxID{}) ||
		!strings.Contains(p.Evidence, first.Hex()) {
		t.Errorf("%+v", p)
	}
}
