package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/internal/dbtest/pgproxy"
	"github.com/fencepost/fencepost/txn"
)

// TestBroadcast_CrashBeforeRecord_RejectionNotBelieved crashes a node between a first broadcast and
// its record. The successor does not believe a node that rejects the bytes for good, because
// another may have them. It believes that about its own first broadcasts.
func TestBroadcast_CrashBeforeRecord_RejectionNotBelieved(t *testing.T) {
	t.Parallel()
	w := newSharedKeyHarness(t)
	proxy, err := pgproxy.Start(w.db.NodeURL)
	if err != nil {
		t.Fatal(err)
	}
	crashed := make(chan struct{})
	var once atomic.Bool
	n := w.startNodeOn(w.openStore("crash", proxy.URL()), func(o *Options) {
		o.Chains[0].Chain = w.chain
		o.Gate = func(_ context.Context, at Point, _ txn.SubmitterID) error {
			if at != AfterSend || !once.CompareAndSwap(false, true) {
				return nil
			}
			proxy.Refuse()
			proxy.CutAll()
			close(crashed)
			return errors.New("crash")
		}
	})
	id := w.create(0, "one", transfer())
	<-crashed
	n.stop()
	if err := proxy.Close(); err != nil {
		t.Fatal(err)
	}
	if w.number(
		"SELECT count(*) FROM managed_tx WHERE nonce = 0 AND last_answer = '' AND "+
			"pooled_attempt = 0") != 1 {
		t.Fatal("the first broadcast is recorded")
	}
	var refused atomic.Int32
	w.chain.Intercept(func(_ context.Context, call chaintest.Call) chaintest.Fault {
		if call.Method != chaintest.MethodSend {
			return chaintest.Fault{}
		}
		refused.Add(1)
		return chaintest.Fault{
			Lost:  true,
			Reply: &txn.Outcome{Class: txn.Invalid, Detail: "never valid"},
		}
	})
	w.node()
	w.eventually("two rebroadcasts", func() error {
		if refused.Load() < 2 {
			return errors.New("not yet")
		}
		return nil
	})
	if got := w.number("SELECT count(*) FROM tx_attempt"); got != 1 {
		t.Errorf("%d attempts of a pooled transaction", got)
	}
	if tx := w.finish(id); tx.State != txn.Confirmed || tx.Executed != txn.Success {
		t.Errorf("%+v", tx.Status)
	}
	fresh := w.create(0, "two", transfer())
	tx := w.await(fresh, "rejected", func(tx txn.Tx) bool { return tx.Rejected != "" })
	if tx.Pooled != 0 {
		t.Errorf("%+v", tx.Status)
	}
	w.chain.Intercept(nil)
	if tx := w.finish(fresh); tx.State != txn.Failed && tx.State != txn.Cancelled ||
		tx.Executed != txn.No {
		t.Errorf("%+v", tx.Status)
	}
	w.checkInvariants()
}

// TestMayBePooled verifies which attempt a new owner takes for pooled: the newest without an
// outcome, unless it is a cancel.
func TestMayBePooled(t *testing.T) {
	t.Parallel()
	original, cancel := txn.Attempt{No: 1, Kind: txn.Original}, txn.Attempt{No: 2, Kind: txn.Cancel}
	for name, c := range map[string]struct {
		said     txn.Status
		attempts []txn.Attempt
		pooled   int
	}{
		"no outcome": {txn.Status{}, []txn.Attempt{original}, 1},
		"no outcome, cancel requested": {txn.Status{CancelRequested: true},
			[]txn.Attempt{original}, 1},
		"rejected": {txn.Status{LastOutcome: txn.PoolFull},
			[]txn.Attempt{original}, 0},
		"cancel without outcome": {txn.Status{Pooled: 1},
			[]txn.Attempt{original, cancel}, 1},
		"cancel without outcome, cancel requested": {txn.Status{CancelRequested: true},
			[]txn.Attempt{original, cancel}, 0},
	} {
		c.said.Nonce = new(txn.Nonce)
		if got := mayBePooled(&txn.Tx{Status: c.said, Attempts: c.attempts}); got != c.pooled {
			t.Errorf("%s: %d", name, got)
		}
	}
}
