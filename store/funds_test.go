package store

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/txn"
)

// fall has nodes record at once that an account became low, or is no longer, and returns how many
// of them changed that.
func (k *kit) fall(id txn.SubmitterID, low bool, block uint64, nodes ...*Store) (changes int) {
	k.t.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	for _, s := range nodes {
		all.Go(func() {
			changed, err := s.RecordLow(k.ctx, id, LowChange{Low: low, Block: block,
				Emit: &txn.LowBalance{Balance: "3", Committed: "1", Low: "5", Block: block}})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				k.t.Error(err)
			}
			if changed {
				changes++
			}
		})
	}
	all.Wait()
	return changes
}

// TestRecordLow_ManyNodes_OneEventPerFall: the events of an account are in the feed, in order, and
// have hashes. An older balance changes nothing.
func TestRecordLow_ManyNodes_OneEventPerFall(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard()) // the test changes an event below
	nodes := []*Store{k.open("a"), k.open("b"), k.open("c")}
	s, id := nodes[0], k.submitter(nodes[0], "alice")
	start, err := s.Head(k.ctx)
	k.must(err)
	for fall := range uint64(3) {
		if n := k.fall(id, true, 10*fall, nodes...); n != 1 {
			t.Fatalf("%d nodes recorded the fall", n)
		}
		if n := k.fall(id, false, 10*fall, nodes...); n != 0 {
			t.Fatal("a balance of the same block changed the judgement")
		}
		if n := k.fall(id, false, 10*fall+1, nodes...); n != 1 {
			t.Fatalf("%d nodes recorded the rise", n)
		}
		if n := k.fall(id, true, 10*fall, nodes...); n != 0 {
			t.Fatal("a balance of an older block changed the judgement")
		}
	}
	end, err := s.Head(k.ctx)
	k.must(err)
	events, err := s.EventsSince(k.ctx, nil, start.Snapshot, end.Snapshot, EventKey{}, 0, 100)
	k.must(err)
	if len(events) != 3 {
		t.Fatalf("%d events", len(events))
	}
	for i, e := range events {
		of, err := txn.ParseLowBalance(e.Message)
		k.must(err)
		if !e.Tx.IsAccount() || e.Tx.Submitter() != id || e.Seq != int64(i+1) ||
			e.Kind != txn.EventLowBalance || e.SubmitterName != "alice" ||
			of.Block != uint64(10*i) || of.Balance != "3" {
			t.Errorf("event %d: %+v, %+v", i, e, of)
		}
	}
	if found := k.broken(s, id); len(found) > 0 {
		t.Errorf("violations: %q", found)
	}
	k.exec("DELETE FROM account_balance") // as of an account that came from another ledger
	if n := k.fall(id, true, 50, nodes...); n != 1 || value[int](k, "SELECT max(seq) "+
		"FROM tx_event WHERE kind = 'LOW_BALANCE'") != 4 {
		t.Errorf("%d nodes recorded the fall in another ledger", n)
	}
	facts, err := s.SinkFacts(k.ctx, "hook", []txn.TxID{events[0].Tx, {8}})
	if _, has := facts[events[0].Tx]; err != nil || !has || len(facts) != 1 {
		t.Errorf("facts %v, %v", facts, err)
	}
	k.exec("ALTER TABLE tx_event DISABLE TRIGGER USER")
	k.exec("UPDATE tx_event SET message = replace(message, '\"3\"', '\"4\"') WHERE seq = 2")
	if found := k.broken(s, id); !slices.Contains(found, "event_changed") {
		t.Errorf("found %q", found)
	}
}

// TestRecordLow_WrongBlock_CountsOnlyForMinutes: a block that an endpoint has made up must not
// silence an account for ever. At the block of the last judgement an account falls, once.
func TestRecordLow_WrongBlock_CountsOnlyForMinutes(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id := k.submitter(s, "alice")
	record := func(low bool, block uint64, readAt time.Time) bool {
		changed, err := s.RecordLow(k.ctx, id, LowChange{Low: low, Block: block, ReadAt: readAt})
		k.must(err)
		return changed
	}
	now := func() time.Time {
		all, err := s.FundsOf(k.ctx, []txn.SubmitterID{id})
		k.must(err)
		return all[id].ReadAt
	}
	before := now()
	if !record(true, 5, now()) || !record(false, 6, now()) {
		t.Fatal("not recorded")
	}
	if record(true, 6, before) {
		t.Error("what was read before the last judgement counts")
	}
	if !record(true, 6, now()) {
		t.Error("a transaction that was queued since does not count")
	}
	if record(false, 6, now()) {
		t.Error("a rise at the same block counts")
	}
	if !record(false, 1<<62, now()) || record(true, 7, now()) {
		t.Fatal("an older block counts at once")
	}
	k.exec("UPDATE account_balance SET judged_at = judged_at - INTERVAL '11 minutes'")
	if !record(true, 7, now()) || !record(false, 8, now()) {
		t.Error("a wrong block counts for ever")
	}
}
