package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holiman/uint256"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// sendAndCancel cancels a transaction in flight.
func (v *chainHarness) sendAndCancel() txn.TxID {
	v.t.Helper()
	id := v.create(0, "one", transfer())
	v.eventually("it is sent", v.is(id, txn.Pending))
	if got := v.decide(store.Ask{Kind: txn.CommandCancel, Tx: &id}); got != txn.Applied {
		v.t.Fatal(got)
	}
	return id
}

// awaitSent waits for more broadcasts and returns all since the mark.
func (v *chainHarness) awaitSent(mark, more int) (all []txn.Hash) {
	v.t.Helper()
	_, from := v.sent(0)
	v.eventually("more broadcasts", func() error {
		if _, n := v.sent(0); n < from+more {
			return fmt.Errorf("%d", n-from)
		}
		return nil
	})
	all, _ = v.sent(mark)
	return all
}

// TestCancel_ExpensiveTransfers_GasEstimated uses a chain on which a plain transfer needs more than
// 21,000 gas.
func TestCancel_ExpensiveTransfers_GasEstimated(t *testing.T) {
	t.Parallel()
	v := newChainHarness(t, "memory", quick, nil)
	v.memory.SetExtraGas(400_000)
	v.node()
	id := v.sendAndCancel()
	attempts := v.awaitAttempts(id, 2)
	if tx := v.finish(id); tx.State != txn.Cancelled || attempts[1].GasLimit < 421_000 ||
		attempts[1].GasLimit > 600_000 {
		t.Errorf("%+v with a gas limit of %d", tx.Status, attempts[1].GasLimit)
	}
}

// TestCancel_EstimateFailed_EstimatedAgain fails the gas estimate of a cancel, and a node rejects
// it. Once the estimate works, another cancel is signed.
func TestCancel_EstimateFailed_EstimatedAgain(t *testing.T) {
	t.Parallel()
	v := newChainHarness(t, "memory", quick, nil)
	v.memory.SetExtraGas(400_000)
	silent := true
	v.memory.Intercept(func(_ context.Context, call chaintest.Call) chaintest.Fault {
		v.mu.Lock()
		defer v.mu.Unlock()
		if silent && call.Method == chaintest.MethodGas {
			return chaintest.Unavailable()
		}
		return chaintest.Fault{}
	})
	v.node()
	id := v.sendAndCancel()
	tx := v.await(id, "the cancel is rejected",
		func(tx txn.Tx) bool { return tx.State == txn.Stuck && tx.Reason == txn.ReasonRejected })
	v.awaitSent(0, 5)
	attempts := v.awaitAttempts(id, 2)
	if len(attempts) != 2 || attempts[1].GasLimit != 21_000 {
		t.Fatalf("%+v: %d attempts, gas limit %d", tx.Status, len(attempts), attempts[1].GasLimit)
	}
	v.mu.Lock()
	silent = false
	v.mu.Unlock()
	if attempts = v.awaitAttempts(id, 3); attempts[2].GasLimit < 421_000 ||
		attempts[2].Kind != txn.Cancel {
		t.Errorf("%+v", attempts[2])
	}
	v.await(id, "the new cancel is accepted",
		func(tx txn.Tx) bool { return tx.State == txn.Tracking })
	if tx := v.finish(id); tx.State != txn.Cancelled || tx.TxHash != attempts[2].Hash {
		t.Errorf("%+v", tx.Status)
	}
}

// TestCancel_NotIncluded_BumpedAutomatically disables bumping. A cancel that is not included is
// bumped anyway.
func TestCancel_NotIncluded_BumpedAutomatically(t *testing.T) {
	onEach(t, func(t *testing.T, kind string) {
		p := quick
		p.Bump = txn.DefaultBumpPolicy{Enabled: false, MinInterval: time.Millisecond,
			MaxAttempts: 3}
		v := newChainHarness(t, kind, p, nil)
		v.dropSends(func(n int) bool { return n < 4 })
		v.node()
		id := v.sendAndCancel()
		attempts := v.awaitAttempts(id, 4)
		for i, f := range attempts[1:] {
			if old := attempts[i].Fees; f.Kind != txn.Cancel || !f.Fees.Cap.Gt(&old.Cap) ||
				!f.Fees.Tip.Gt(&old.Tip) {
				t.Errorf("attempt %d, %s, offers %s after %s", f.No, f.Kind, f.Fees.Cap.Dec(),
					old.Cap.Dec())
			}
		}
		v.dropSends(nil)
		if tx := v.finish(id); tx.State != txn.Cancelled {
			t.Errorf("%+v", tx.Status)
		}
	})
}

func TestCancel_AtFeeCap_Stuck(t *testing.T) {
	t.Parallel()
	p := quick
	p.BumpMaxFee, p.Bump = *uint256.NewInt(3e9), txn.DefaultBumpPolicy{
		Enabled:     false,
		MinInterval: time.Millisecond,
		MaxAttempts: 10,
	}
	v := newChainHarness(t, "memory", p, nil)
	v.node()
	v.dropSends(func(n int) bool { return n > 1 })
	id := v.sendAndCancel()
	v.awaitBumped(id, "the cap is reported",
		func(tx txn.Tx) bool {
			return tx.State == txn.Stuck && tx.Reason == txn.ReasonFeeCapReached
		})
	attempts := v.awaitAttempts(id, 2)
	for _, f := range attempts[1:] {
		if f.Kind != txn.Cancel || f.Fees.Cap.Gt(&p.BumpMaxFee) {
			t.Errorf("attempt %d, %s, offers %s", f.No, f.Kind, f.Fees.Cap.Dec())
		}
	}
	v.dropSends(nil)
	if tx := v.finish(id); tx.State == txn.Stuck || tx.Reason == txn.ReasonFeeCapReached {
		t.Errorf("%+v", tx.Status)
	}
}

// TestRetry_CancelRejected_OriginalSentOnce has every node reject the cancel. The original is not
// rebroadcast automatically, and once per decision of an operator.
func TestRetry_CancelRejected_OriginalSentOnce(t *testing.T) {
	t.Parallel()
	p := quick
	p.ResubmitMax = 3
	v := newChainHarness(t, "memory", p, nil)
	original := txn.Hash{}
	v.memory.Intercept(func(_ context.Context, call chaintest.Call) chaintest.Fault {
		v.mu.Lock()
		defer v.mu.Unlock()
		if call.Method == chaintest.MethodSend && original != (txn.Hash{}) &&
			call.Signed.Hash != original {
			return chaintest.Say("txpool is full")
		}
		return chaintest.Fault{}
	})
	v.node()
	id := v.create(0, "one", transfer())
	v.eventually("it is sent", v.is(id, txn.Pending))
	all, _ := v.sent(0)
	v.mu.Lock()
	original = all[0]
	v.mu.Unlock()
	v.forget()
	if got := v.decide(store.Ask{Kind: txn.CommandCancel, Tx: &id}); got != txn.Applied {
		t.Fatal(got)
	}
	v.await(id, "the cancel is rejected", func(tx txn.Tx) bool { return tx.State == txn.Stuck })
	_, mark := v.sent(0)
	if again := v.awaitSent(mark, 3); slices.Contains(again, original) {
		t.Error("the original is rebroadcast automatically")
	}
	_, mark = v.sent(0)
	got := v.decide(store.Ask{Kind: txn.CommandResolve, Action: txn.ActionRetry, Tx: &id})
	if got != txn.Applied {
		t.Fatal(got)
	}
	v.eventually("the pool has the original", func() error {
		if again, _ := v.sent(mark); !slices.Contains(again, original) ||
			len(v.memory.Pool()) != 1 {
			return fmt.Errorf("%v", again)
		}
		return nil
	})
	again := v.awaitSent(mark, 3)
	if n := len(slices.DeleteFunc(again, func(h txn.Hash) bool { return h != original })); n != 1 {
		t.Errorf("%d broadcasts of the original, want 1", n)
	}
	if tx := v.finish(id); tx.State != txn.Confirmed || tx.Reason != txn.ReasonCancelLost ||
		!tx.CancelRequested {
		t.Errorf("%+v", tx.Status)
	}
}

// TestRelease_FullDepth_OnlyWhenFinal verifies that a release depth of full finality releases the
// nonce with the final move, not earlier.
func TestRelease_FullDepth_OnlyWhenFinal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		depth uint64
		tag   string
	}{"by confirmations": {quick.Confirmations, ""}, "by the tag": {0, "finalized"},
		"by both": {quick.Confirmations, "finalized"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := quick
			p.ReleaseDepth = c.depth
			v := newChainHarness(t, "memory", p, func(o *Options) { o.Chains[0].FinalTag = c.tag })
			v.memory.SetTags(0, 0)
			v.node()
			first, second := v.create(0, "one", transfer()), v.create(0, "two", transfer())
			v.eventually("it is sent", v.is(first, txn.Pending))
			in := v.memory.Mine(1).Number
			blocks := int(quick.Confirmations) - 1 // one too few
			if c.tag != "" {
				blocks += 50 // only the tag is missing
			}
			v.memory.MineEmpty(blocks)
			v.await(first, "it is in a block", func(tx txn.Tx) bool { return tx.Receipt != nil })
			v.awaitCalls(v.memory, chaintest.MethodHead, 5)
			if tx, err := v.admin.Tx(t.Context(), second); err != nil || tx.Nonce != nil {
				t.Fatalf("the next one has a nonce before the first is final: %+v %v", tx.Status,
					err)
			}
			if tx, err := v.admin.Tx(t.Context(), first); err != nil || tx.Released ||
				tx.State.Final() {
				t.Errorf("%+v %v", tx.Status, err)
			}
			if c.tag != "" {
				v.memory.SetTags(in, in)
			} else {
				v.memory.MineEmpty(1)
			}
			if tx := v.awaitFinal(first); !tx.Released {
				t.Errorf("%+v", tx.Status)
			}
			v.eventually("the next one is sent", v.is(second, txn.Pending))
		})
	}
}

// TestQueueHead_WrongClock_WaitKept verifies that the database clock measures how long the head has
// waited: a node with a wrong clock does not time it out early, and a successor continues the wait.
func TestQueueHead_WrongClock_WaitKept(t *testing.T) {
	t.Parallel()
	for name, skew := range map[string]time.Duration{"ahead": 2 * time.Hour,
		"behind": -2 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := quick
			p.PrepareMaxAge = time.Hour
			v := newChainHarness(t, "memory", p, nil)
			v.setQuotes(false)
			n := v.node()
			id := v.create(0, "one", transfer())
			v.await(id, "it waits",
				func(tx txn.Tx) bool { return tx.Reason == txn.ReasonChainUnavailable })
			n.stop()
			v.skew = skew
			v.node()
			tries := v.number("SELECT submit_attempts FROM managed_tx")
			v.create(0, "two", transfer()) // makes the owner read the queue again
			v.eventually("it is tried again", func() error {
				if v.number("SELECT max(submit_attempts) FROM managed_tx") <= tries &&
					v.number("SELECT count(*) FROM managed_tx WHERE terminal_at IS NOT NULL") == 0 {
					return errors.New("not yet")
				}
				return nil
			})
			if tx, err := v.admin.Tx(t.Context(), id); err != nil || tx.State != txn.Queued {
				t.Fatalf("%+v %v", tx.Status, err)
			}
			if name == "behind" { // a slow clock does not prolong the wait
				_, err := v.db.Pool.Exec(t.Context(), "UPDATE managed_tx "+
					"SET waiting_since = clock_timestamp() - interval '61 minutes' "+
					"WHERE waiting_since IS NOT NULL")
				if err != nil {
					t.Fatal(err)
				}
				v.create(0, "three", transfer())
				v.await(id, "the wait times out",
					func(tx txn.Tx) bool {
						return tx.State == txn.Failed && tx.Reason == txn.ReasonPrepareTimeout
					})
				return
			}
			v.setQuotes(true)
			if tx := v.finish(id); tx.State != txn.Confirmed {
				t.Errorf("%+v", tx.Status)
			}
		})
	}
}

// TestCounters_Start_AllPresent verifies that every label value has a series at zero, so that a
// rate sees the first event.
func TestCounters_Start_AllPresent(t *testing.T) {
	t.Parallel()
	var o Options
	counted := measure(t, &o)
	m, err := newMetrics(o.Meter)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newAuditor(&Engine{Options: o, metrics: m}); err != nil {
		t.Fatal(err)
	}
	var all metricdata.ResourceMetrics
	if err := counted.reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	series := map[string]int{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if sum, ok := m.Data.(metricdata.Sum[int64]); ok {
				series[m.Name] = len(sum.DataPoints)
			}
		}
	}
	for name, want := range map[string]int{
		"fencepost_lease_acquire": 6, "fencepost_lease_renew": 3, "fencepost_lease_fenced": 7,
		"fencepost_commit": 6, "fencepost_tx_submit": len(txn.Classes),
		"fencepost_lease_handover": 1, "fencepost_lease_wedged": 1, "fencepost_tx_replaced": 2,
		"fencepost_stuck_decision": 4, "fencepost_tx_reorged_final": 1,
		"fencepost_tx_unverified":      1,
		"fencepost_confirmations_fork": 1, "fencepost_audit": 3, "fencepost_audit_violation": 9,
		"fencepost_receipt_check": 3, "fencepost_tx_resubmit": 2, "fencepost_tx_final": 3,
		"fencepost_account_read": 2, "fencepost_nonce_move": 5,
	} {
		if series[name] != want || counted.sum(name) != 0 {
			t.Errorf("%s: %d series, want %d; sum %v", name, series[name], want,
				counted.sum(name))
		}
		delete(series, name)
	}
	if len(series) > 0 {
		t.Errorf("unexpected series %v", series)
	}
}
