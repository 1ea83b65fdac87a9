package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/fencepost/fencepost/txn"
)

// gamble makes a legal change of a transaction as it was read; by the time it is sent it may be out
// of date.
func gamble(r *rand.Rand, tx txn.Tx, cursor txn.Nonce) txn.Change {
	var moves []txn.Move
	for _, m := range txn.Moves {
		never := m.Kind == txn.EventRequeued ||
			(m.Kind == txn.EventReorged || m.Kind == txn.EventConfirmed) && tx.Nonce == nil
		ends := slices.ContainsFunc(m.To, txn.State.Final)
		if slices.Contains(m.From, tx.State) && !never && (!ends || r.IntN(6) == 0) {
			moves = append(moves, m)
		}
	}
	var m txn.Move
	if len(moves) > 0 {
		m = moves[r.IntN(len(moves))]
	}
	if m.Kind == "" || r.IntN(8) == 0 { // only when something is due
		return txn.Change{
			Writes: []txn.Write{{Tx: tx.ID, Version: tx.Version, From: tx.State, Next: tx.Status}},
		}
	}
	if m.Kind == txn.EventAllocated {
		return take(tx, cursor)
	}
	w := move(tx, m.Kind, m.To[0])
	next := &w.Next
	next.Executed, next.Sub = txn.Unknown, txn.None
	switch m.Kind {
	case txn.EventIncluded:
		w = included(tx, 10)
		w.Next.Released = r.IntN(2) == 0
		return txn.Change{Writes: []txn.Write{w}}
	case txn.EventReorged:
		next.Receipt = nil
	case txn.EventConfirmed:
		next.Executed, next.Released = txn.Success, true
	case txn.EventFailed, txn.EventCancelled:
		next.Executed, next.Released = txn.No, true
	}
	return txn.Change{Writes: []txn.Write{w}}
}

// TestRandomMoves lets two goroutines make random moves under one token, a caller cancel, and
// another node take the lease over now and then. Every outcome is a legal history.
func TestRandomMoves(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			nodes := []*Store{k.open("a"), k.open("b")}
			id, l := k.owned(nodes[0], "alice")
			var txs []txn.TxID
			for n := range 12 {
				txs = append(txs, k.queue(nodes[0], id, fmt.Sprint("r", n)).ID)
			}
			outcomes := map[Outcome]int{}
			for round := range 3 {
				for o, n := range k.gamblers(nodes[round%2], l, txs, seed*10+uint64(round)) {
					outcomes[o] += n
				}
				k.lapse(id)
				l = k.lease(nodes[(round+1)%2], id)
			}
			t.Logf("outcomes %v", outcomes)
			if outcomes[Done] == 0 || outcomes[Conflict] == 0 ||
				outcomes[Unsettled]+outcomes[Unreached] > 0 {
				t.Errorf("outcomes %v", outcomes)
			}
			k.legalHistory(id, txs)
		})
	}
}

func (k *kit) gamblers(s *Store, l *Lease, txs []txn.TxID, seed uint64) map[Outcome]int {
	outcomes := map[Outcome]int{}
	var mu sync.Mutex
	var both sync.WaitGroup
	for g := range uint64(2) {
		both.Go(func() {
			r := rand.New(rand.NewPCG(seed, g))
			for range 40 {
				id := txs[r.IntN(len(txs))]
				info, err := s.Tx(k.ctx, id)
				if err != nil {
					k.t.Error(err)
					return
				}
				if r.IntN(25) == 0 {
					if _, err := s.CancelQueued(k.ctx, id); err != nil {
						k.t.Error(err)
					}
				}
				var cursor int64
				if err := k.db.Pool.QueryRow(k.ctx,
					"SELECT next_nonce FROM submitter_nonce_cursor WHERE submitter_id = $1",
					l.Submitter()).Scan(&cursor); err != nil {
					k.t.Error(err)
				}
				o, err := s.Commit(l, gamble(r, info.Tx, txn.Nonce(cursor)))
				if o == Refused { // the slot is taken, and nothing else
					if want := "managed_tx_in_flight"; !containsText(err, want) {
						k.t.Errorf("refused: %v", err)
					}
				}
				mu.Lock()
				outcomes[o]++
				mu.Unlock()
			}
		})
	}
	both.Wait()
	return outcomes
}

// legalHistory checks the laws against the written rows.
func (k *kit) legalHistory(id txn.SubmitterID, txs []txn.TxID) {
	k.t.Helper()
	s := k.open("reader")
	var nonces []int
	for _, tx := range txs {
		info, err := s.Tx(k.ctx, tx)
		k.must(err)
		events, err := s.EventsOfTx(k.ctx, tx, 0, 1000)
		k.must(err)
		state := txn.State("")
		for i, e := range events {
			if e.Seq != int64(i+1) {
				k.t.Fatalf("event %d of %s has number %d", i+1, tx, e.Seq)
			}
			if i > 0 && !txn.Legal(e.Kind, state, e.State) {
				k.t.Fatalf("event %d of %s moves from %s to %s by %s", e.Seq, tx, state, e.State,
					e.Kind)
			}
			state = e.State
		}
		if info.Version != int64(len(events)) || info.State != state {
			k.t.Fatalf("%s is %s of version %d, its last event of %d says %s", tx, info.State,
				info.Version, len(events), state)
		}
		attempts, err := s.Attempts(k.ctx, tx)
		k.must(err)
		if (info.Nonce != nil) != (len(attempts) == 1) {
			k.t.Fatalf("%s has nonce %v and %d attempts", tx, info.Nonce, len(attempts))
		}
		if info.Nonce != nil {
			nonces = append(nonces, int(*info.Nonce))
		}
	}
	slices.Sort(nonces)
	for i, n := range nonces {
		if n != i {
			k.t.Fatalf("nonces %v", nonces)
		}
	}
	if next := value[int](k, "SELECT next_nonce FROM submitter_nonce_cursor WHERE "+
		"submitter_id = $1", id); next != len(
		nonces) {
		k.t.Fatalf("the cursor stands at %d after nonces %v", next, nonces)
	}
	if n := value[int](k, "SELECT count(*) FROM managed_tx WHERE submitter_id = $1 AND nonce IS "+
		"NOT NULL AND released_at IS NULL", id); n > 1 {
		k.t.Fatalf("%d transactions are in flight", n)
	}
}
