package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// TestChain_Slow_LeaseKept delays each response of a step with two reads, or never responds. The
// owner gives up before it counts as stuck, the transaction reports the reason, and it proceeds
// when the chain does.
func TestChain_Slow_LeaseKept(t *testing.T) {
	t.Parallel()
	for name, slow := range map[string][]chaintest.Method{
		"a quote": {chaintest.MethodQuote}, "a broadcast": {chaintest.MethodSend},
		"an account": {chaintest.MethodAccount},
		"a cancel":   {chaintest.MethodFees, chaintest.MethodGas},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSharedKeyHarness(t)
			const progress = leaseDuration * 3 / 2
			w.startNode("a", func(o *Options) {
				o.Chains[0].Chain = w.chain
				o.ProgressTimeout = progress
				o.AuditInterval = NoAudit
			})
			var sent txn.TxID
			if name == "a cancel" {
				sent = w.create(0, "one", transfer())
				w.eventually("it is sent", w.is(sent, txn.Pending))
			}
			var hung atomic.Int32
			w.chain.Intercept(func(ctx context.Context, call chaintest.Call) chaintest.Fault {
				for _, method := range slow {
					if call.Method != method {
						continue
					}
					hung.Add(1)
					late := time.NewTimer(progress * 3 / 5)
					defer late.Stop()
					if len(slow) == 1 { // never responds
						<-ctx.Done()
						return chaintest.Fault{}
					}
					select { // a single one would be in time
					case <-ctx.Done():
					case <-late.C:
					}
				}
				return chaintest.Fault{}
			})
			if sent != (txn.TxID{}) {
				w.decide(store.Ask{Kind: txn.CommandCancel, Tx: &sent})
			} else {
				sent = w.create(0, "one", transfer())
			}
			w.eventually("it hung twice", func() error {
				if hung.Load() < 2 {
					return errors.New("not yet")
				}
				return nil
			})
			if len(slow) > 1 {
				w.eventually("its cancel is signed", func() error {
					if w.number("SELECT count(*) FROM tx_attempt WHERE kind = 'CANCEL'") == 0 {
						return errors.New("not yet")
					}
					return nil
				})
			}
			w.chain.Intercept(nil)
			if tx := w.finish(sent); tx.Executed == txn.Unknown {
				t.Errorf("%+v", tx.Status)
			}
			if token := w.number("SELECT fencing_token FROM submitter_lease"); token != 1 {
				t.Errorf("the lease was lost: token %d", token)
			}
		})
	}
}

// TestAccountRead_Slow_Used verifies that an account read that takes longer than its validity is
// used: slow reads are not idle time.
func TestAccountRead_Slow_Used(t *testing.T) {
	t.Parallel()
	c := chaintest.New(chaintest.Options{})
	now := clock.NewFake(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	quiet := slog.New(slog.DiscardHandler)
	c.MineEmpty(10)
	tracker := newTracker(c, quick, now)
	if err := tracker.Update(t.Context()); err != nil {
		t.Fatal(err)
	}
	reads, quoted := 0, errors.New("asked for a quote")
	c.Intercept(func(_ context.Context, call chaintest.Call) chaintest.Fault {
		if call.Method == chaintest.MethodAccount {
			reads++
			now.Advance(rereadAfter + time.Second)
		}
		return chaintest.Fault{}
	})
	gate := func(_ context.Context, p Point, _ txn.SubmitterID) error {
		if p == BeforeQuote {
			return quoted
		}
		return nil
	}
	m, err := newMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	e := &Engine{
		Options: Options{Clock: now, Logger: quiet, Gate: gate, ProgressTimeout: time.Minute},
		metrics: m,
	}
	e.keeper = newKeeper(e)
	a := &actor{e: e, id: 1, track: tracker, chain: c, log: quiet, busyAt: now.Now()}
	a.ledger = store.Ledger{
		Submitter: txn.Submitter{ID: 1, Limit: 1, Status: txn.Active},
		Cursor:    &txn.Cursor{},
	}
	a.inbox.Queue = []txn.Tx{
		{ID: txn.TxID{1}, Submitter: 1, Status: txn.Status{State: txn.Queued, Version: 1}},
	}
	for range 4 {
		if err = a.step(t.Context()); err != nil {
			break
		}
	}
	if !errors.Is(err, quoted) || reads != 1 {
		t.Errorf("%v after %d reads", err, reads)
	}
}

// cancelableSigner is a signer that observes its context.
type cancelableSigner struct{ Signer }

func (h cancelableSigner) Sign(ctx context.Context, signer string, u txn.Unsigned) (txn.Signed,
	error) {
	if ctx.Err() != nil {
		return txn.Signed{}, ctx.Err()
	}
	return h.Signer.Sign(ctx, signer, u)
}

// TestCancel_EstimateHangs_StillSigned verifies that a hanging gas estimate leaves time for the
// signature.
func TestCancel_EstimateHangs_StillSigned(t *testing.T) {
	t.Parallel()
	w := newSharedKeyHarness(t)
	w.startNode("a", func(o *Options) {
		o.Chains[0].Chain, o.Signer = w.chain, cancelableSigner{o.Signer}
		o.ProgressTimeout, o.AuditInterval = leaseDuration*3/2, NoAudit
	})
	id := w.create(0, "one", transfer())
	w.eventually("it is sent", w.is(id, txn.Pending))
	w.chain.Intercept(func(ctx context.Context, call chaintest.Call) chaintest.Fault {
		if call.Method == chaintest.MethodGas {
			<-ctx.Done()
		}
		return chaintest.Fault{}
	})
	w.decide(store.Ask{Kind: txn.CommandCancel, Tx: &id})
	w.eventually("its cancel is signed", func() error {
		if w.number("SELECT count(*) FROM tx_attempt WHERE kind = 'CANCEL'") == 0 {
			return errors.New("not yet")
		}
		return nil
	})
}
