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

// A node crashes between a first hand-over and its record. Its successor is told that the bytes can
// never pass, by a node that did not take them: that is not believed, since another may have them.
// Of what its own first hand-over is about, the successor does believe it.
func TestBroadcast_CrashBeforeRecord_RejectionNotBelieved(t *testing.T) {
	t.Parallel()
	w := newSharedKeyHarness(t)
	proxy, err := pgproxy.Start(w.db.URL)
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
		t.Fatal("its first hand-over was recorded")
	}
	var refused atomic.Int32
	w.chain.Intercept(func(_ context.Context, call chaintest.Call) chaintest.Fault {
		if call.Method != chaintest.MethodSend {
			return chaintest.Fault{}
		}
		refused.Add(1)
		return chaintest.Fault{
			Lost:  true,
			Reply: &txn.Outcome{Class: txn.Invalid, Detail: "this node never takes it"},
		}
	})
	w.node()
	w.eventually("it is handed over twice more", func() error {
		if refused.Load() < 2 {
			return errors.New("not yet")
		}
		return nil
	})
	if got := w.number("SELECT count(*) FROM tx_attempt"); got != 1 {
		t.Errorf("%d forms are signed of what a pool has", got)
	}
	if tx := w.finish(id); tx.State != txn.Confirmed || tx.Executed != txn.Success {
		t.Errorf("%+v", tx.Status)
	}
	fresh := w.create(0, "two", transfer())
	tx := w.await(fresh, "given up", func(tx txn.Tx) bool { return tx.Rejected != "" })
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

// What a successor takes for pooled is the newest form, if nobody has said what became of it; but
// none that cancels.
func TestMayBePooled(t *testing.T) {
	t.Parallel()
	original, cancel := txn.Attempt{No: 1, Kind: txn.Original}, txn.Attempt{No: 2, Kind: txn.Cancel}
	for name, c := range map[string]struct {
		said     txn.Status
		attempts []txn.Attempt
		pooled   int
	}{
		"nothing was said": {txn.Status{}, []txn.Attempt{original}, 1},
		"nothing, and it shall not run": {txn.Status{CancelRequested: true},
			[]txn.Attempt{original}, 1},
		"it was refused": {txn.Status{LastOutcome: txn.PoolFull},
			[]txn.Attempt{original}, 0},
		"nothing of what cancels": {txn.Status{Pooled: 1},
			[]txn.Attempt{original, cancel}, 1},
		"nothing of what cancels something": {txn.Status{CancelRequested: true},
			[]txn.Attempt{original, cancel}, 0},
	} {
		c.said.Nonce = new(txn.Nonce)
		if got := mayBePooled(&txn.Tx{Status: c.said, Attempts: c.attempts}); got != c.pooled {
			t.Errorf("%s: %d", name, got)
		}
	}
}
