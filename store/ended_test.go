package store

import (
	"testing"

	"github.com/fencepost/fencepost/txn"
)

// A transaction that became final as not executed has the block, until that is taken back; and it
// is read with the transactions that a reorg could reach.
func TestRecentFinals_NeverExecuted(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l := k.owned(s, "alice")
	k.finals(s, l, 10, 60)
	tx := k.queue(s, id, "lost")
	for _, write := range []func(txn.Tx) txn.Change{
		func(tx txn.Tx) txn.Change { return take(tx, 2) },
		func(tx txn.Tx) txn.Change {
			w := failed(tx, txn.ReasonNonceElsewhere)
			w.Next.Released, w.Next.FinalBlock = true, 70
			return txn.Change{Writes: []txn.Write{w}}
		},
	} {
		c := write(tx)
		k.done(s, l, c)
		tx = after(tx, c.Writes[0])
	}
	recent := func(depth uint64) (n, ended int) {
		t.Helper()
		txs, err := s.RecentFinals(k.ctx, l, depth, 1)
		k.must(err)
		for _, f := range txs {
			if f.FinalBlock > 0 {
				ended++
				if f.ID != tx.ID || f.FinalBlock != 70 || f.Receipt != nil {
					t.Errorf("%+v", f.Status)
				}
			}
		}
		return len(txs), ended
	}
	for depth, want := range map[uint64][2]int{1: {2, 1}, 51: {3, 1}} {
		if n, ended := recent(depth); n != want[0] || ended != want[1] {
			t.Errorf("%d blocks deep: %d, of which %d have ended, want %v", depth, n, ended, want)
		}
	}
	// The chain has moved on: the block is out of reach.
	k.exec(
		"UPDATE managed_tx SET receipt_block = 100 WHERE submitter_id = $1 AND receipt_block = 60",
		int32(id))
	for depth, want := range map[uint64]int{30: 0, 31: 1} {
		if _, ended := recent(depth); ended != want {
			t.Errorf("%d blocks deep: %d have ended", depth, ended)
		}
	}
	w := move(tx, txn.EventReorged, txn.Stuck)
	w.Next.Executed, w.Next.FinalBlock = txn.Unknown, 0
	k.done(s, l, txn.Change{Writes: []txn.Write{w}})
	ledger, err := s.Load(k.ctx, l)
	k.must(err)
	if _, ended := recent(1000); ended != 0 || len(ledger.Open) != 1 ||
		ledger.Open[0].FinalBlock != 0 ||
		len(ledger.Open[0].Attempts) != 1 {
		t.Errorf("%d have ended; %+v", ended, ledger.Open)
	}
}
