package store

import (
	"fmt"
	"testing"

	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// TestCommitments_ShortHistory_NoRate: the spending of some seconds says nothing about a day.
func TestCommitments_ShortHistory_NoRate(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard())
	s := k.open("a")
	id, l := k.owned(s, "alice")
	pay := func(nonce uint64) {
		k.paid(s, l, Intent{Submitter: id, RequestID: fmt.Sprint(nonce), Payload: payload("x")},
			txn.Nonce(nonce), 100, 3, 0)
	}
	want := func(when string, has bool) {
		t.Helper()
		got, err := s.Commitments(k.ctx, []txn.SubmitterID{id}, nil)
		k.must(err)
		if c := got[id]; c.PerDay.IsZero() == has {
			t.Errorf("%s: %s per day", when, c.PerDay.Dec())
		}
	}
	pay(0)
	want("one transaction of now", false)
	k.exec("UPDATE managed_tx SET created_at = clock_timestamp() - INTERVAL '59 minutes'")
	want("59 minutes", false)
	k.exec("UPDATE managed_tx SET created_at = clock_timestamp() - INTERVAL '61 minutes'")
	want("61 minutes", true)
	k.exec("UPDATE managed_tx SET created_at = clock_timestamp()")
	for nonce := uint64(1); nonce < rateTransactions-1; nonce++ {
		pay(nonce)
	}
	want("99 transactions", false)
	pay(rateTransactions - 1)
	want("100 transactions", true)
	tx := k.queue(s, id, "in flight")
	k.done(s, l, take(tx, rateTransactions))
	rows, err := db.New(k.db.Pool).Commitments(k.ctx, db.CommitmentsParams{Most: 1,
		SubmitterIds: []int32{int32(id)}, FromNonces: []int64{-1}})
	k.must(err)
	if rows[0].Transactions != 1 {
		t.Error("one in flight takes the place of a final one")
	}
}
