package sim

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/txn"
)

// Laws of reserved nonces. N1: no nonce is signed for under two reservations. N2: a nonce is
// RECYCLABLE only if nothing was or will be signed for it. N3: each nonce below the cursor is in
// the ledger once, ACCEPTED exactly if the chain has used it, and none blocks those above it.

// holdsRested reports whether every client has ended and every hole is filled or reserved again.
func (w *World) holdsRested() bool {
	if len(w.plan.Holds) == 0 {
		return true
	}
	w.mu.Lock()
	open := 0
	for _, h := range w.holds {
		if !h.over || h.twins > 0 {
			open++
		}
	}
	w.mu.Unlock()
	waiting, err := w.db.number(
		`SELECT (SELECT count(*) FROM nonce_request WHERE applied_at IS NULL)
		      + (SELECT count(*) FROM external_nonce WHERE state IN ('RESERVED', 'PENDING'))`)
	return err == nil && open == 0 && waiting == 0
}

func (w *World) unfinishedHolds() (s []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.holds {
		if !h.over || h.twins > 0 {
			s = append(s, fmt.Sprintf("client %d (%s) is not done: %s", h.plan.No, h.plan.Script,
				h.last))
		}
	}
	return s
}

// nonceRow is a nonce of clients as the ledger has it at the end.
type nonceRow struct{ state, reservation string }

func (w *World) judgeHolds(l *ledger) {
	if len(w.plan.Holds) == 0 {
		return
	}
	id := int32(w.submitters[w.plan.Submitters])
	rows := map[int64]nonceRow{}
	recycled, held := map[string]bool{}, map[string]int64{}
	read := func(query string, row func(nonce int64, r nonceRow)) {
		if err := w.db.each(query, func(rows pgx.Rows) error {
			var nonce int64
			var r nonceRow
			err := rows.Scan(&nonce, &r.state, &r.reservation)
			row(nonce, r)
			return err
		}); err != nil {
			w.violated("sim", "%v", err)
		}
	}
	read("SELECT nonce, state, reservation_id::TEXT FROM external_nonce",
		func(nonce int64, r nonceRow) { rows[nonce] = r })
	read("SELECT nonce, state, reservation_id::TEXT FROM sim_nonce ORDER BY no",
		func(nonce int64, r nonceRow) {
			held[r.reservation] = nonce
			recycled[r.reservation] = recycled[r.reservation] ||
				r.state == string(txn.NonceRecyclable)
		})
	for _, h := range w.holds {
		if nonce, ok := held[h.id.String()]; h.has && (!ok || nonce != int64(h.nonce)) {
			w.violated("N3", "client %d was given nonce %d, which the ledger does not have",
				h.plan.No, h.nonce)
		}
		if h.signed != nil && recycled[h.id.String()] {
			w.violated("N2", "nonce %d was RECYCLABLE although client %d signed for it", h.nonce,
				h.plan.No)
		}
	}
	w.judgeNumbers(l, id, rows)
}

// judgeNumbers checks N3.
func (w *World) judgeNumbers(l *ledger, id int32, rows map[int64]nonceRow) {
	address := chaintest.Address(w.plan.Submitters)
	next := int64(0)
	for _, in := range w.chain.Included() {
		if in.Sender == address {
			next = max(next, int64(in.Nonce)+1)
		}
	}
	c := l.cursors[id]
	if int64(len(rows)) != c[1]-c[0] {
		w.violated("N3", "%d nonces are recorded, and the cursor went from %d to %d", len(rows),
			c[0], c[1])
	}
	for n := c[0]; n < c[1]; n++ {
		want := txn.NonceAccepted
		if n >= next {
			want = txn.NonceRecyclable
		}
		if got := rows[n].state; got != string(want) {
			w.violated("N3", "nonce %d is %q, and the chain's next nonce is %d", n, got, next)
		}
	}
	if next > c[1] {
		w.violated("N3", "the chain's next nonce is %d, and the cursor stands at %d", next, c[1])
	}
}

// TestExternalSeeds runs simulations whose clients reserve nonces and sign themselves.
func TestExternalSeeds(t *testing.T) {
	t.Parallel()
	playSeeds(t, "external", DrawExternal)
}
