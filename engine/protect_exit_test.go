package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// decide adds a decision of an operator and returns its result.
func (r *harness) decide(ask store.Ask) string {
	r.t.Helper()
	ask.Reason, ask.Operator = "reviewed", "kim"
	id, err := r.admin.AddCommand(context.Background(), r.submitters[0], ask)
	if err != nil {
		r.t.Fatal(err)
	}
	var result string
	r.eventually("the decision is applied or rejected", func() (err error) {
		var done bool
		result, done, err = r.admin.CommandResult(context.Background(), r.submitters[0], id)
		if err == nil && !done {
			err = errors.New("not yet")
		}
		return err
	})
	return result
}

// exit decides on the current protection.
func (w *sharedKeyHarness) exit(action txn.Action) string {
	w.t.Helper()
	return w.decide(
		store.Ask{Kind: txn.CommandExitProtect, Action: action, Expect: w.cursor().Protected.ID})
}

func (w *sharedKeyHarness) resolve(action txn.Action, id txn.TxID) string {
	w.t.Helper()
	return w.decide(store.Ask{Kind: txn.CommandResolve, Action: action, Tx: &id})
}

// want compares the code of a result, and looks for words in its text.
func (w *sharedKeyHarness) want(got, code string, words ...string) {
	w.t.Helper()
	is, text, _ := strings.Cut(got, ": ")
	if is != code {
		w.t.Fatalf("%s, want %s", got, code)
	}
	for _, word := range words {
		if !strings.Contains(text, word) {
			w.t.Errorf("%q lacks %q", text, word)
		}
	}
}

// finish mines until a transaction is final.
func (w *sharedKeyHarness) finish(id txn.TxID) store.TxInfo {
	w.t.Helper()
	w.eventually("it is final", func() error {
		tx, err := w.admin.Tx(context.Background(), id)
		if err == nil && !tx.State.Final() {
			w.chain.Mine(1)
			err = fmt.Errorf("%s %s %s", tx.State, tx.Reason, tx.LastError)
		}
		return err
	})
	return w.awaitFinal(id)
}

// executions returns the nonces of the executed transfers.
func (w *sharedKeyHarness) executions() (nonces []txn.Nonce) {
	for _, i := range w.chain.Included() {
		if *i.Payload.To == *transfer().To {
			nonces = append(nonces, i.Nonce)
		}
	}
	return nonces
}

func (w *sharedKeyHarness) gaps() (gaps []string) {
	w.t.Helper()
	_, _, list, err := w.admin.Waiting(w.t.Context(), w.submitters[0])
	if err != nil {
		w.t.Fatal(err)
	}
	for _, g := range list {
		gaps = append(gaps, fmt.Sprintf("%d-%d %t", g.First, g.Last, g.Tx != nil))
	}
	slices.Sort(gaps)
	return gaps
}

// checkInvariants audits the whole ledger.
func (w *sharedKeyHarness) checkInvariants() {
	w.t.Helper()
	found, _, err := w.admin.AuditWhole(context.Background(), w.submitters[0])
	if err != nil || len(found) > 0 {
		w.t.Errorf("%+v %v", found, err)
	}
}

// TestAlign_NoncesUsedElsewhere_Skipped uses the key three times elsewhere while nothing is in
// flight. Only aligning forward resolves that, once those transactions are deep enough.
func TestAlign_NoncesUsedElsewhere_Skipped(t *testing.T) {
	t.Parallel()
	w := newSharedKeyHarness(t)
	n := w.node()
	w.confirmOne("one")
	n.stop()
	for nonce := range uint64(3) {
		w.inject(w.foreignTx(1 + nonce))
	}
	w.node()
	id := w.create(0, "two", transfer())
	w.awaitProtected(txn.ReasonNonceElsewhere)
	w.want(w.exit(txn.ActionResume), txn.ResultRefused, "align")
	w.want(w.exit(txn.ActionAlign), txn.ResultRefused, "not settled")
	w.chain.Mine(1)
	w.want(w.exit(txn.ActionAlign), txn.ResultRefused, "not settled")
	w.chain.MineEmpty(
		int(w.policy.Confirmations)) // final, but not deep enough to skip
	w.want(w.exit(txn.ActionAlign), txn.ResultRefused, "not settled")
	w.chain.MineEmpty(int(w.policy.AuditDepth - w.policy.Confirmations))
	w.want(w.decide(store.Ask{Kind: txn.CommandExitProtect, Action: txn.ActionAlign, Expect: 0}),
		txn.ResultProtectionChanged)
	w.want(w.exit(txn.ActionAlign), txn.Applied)
	if tx := w.finish(id); tx.State != txn.Confirmed || *tx.Nonce != 4 {
		t.Errorf("%+v", tx.Status)
	}
	if got := w.gaps(); !slices.Equal(got, []string{"1-3 false"}) || w.cursor().Next != 5 {
		t.Errorf("gaps %v, cursor %+v", got, w.cursor())
	}
	w.want(w.decide(store.Ask{Kind: txn.CommandExitProtect, Action: txn.ActionResume, Expect: 1}),
		txn.ResultNotProtected)
	w.want(w.decide(store.Ask{Kind: txn.CommandProtect}), txn.Applied)
	w.want(w.decide(store.Ask{Kind: txn.CommandExitProtect, Action: txn.ActionResume, Expect: 1}),
		txn.ResultProtectionChanged)
	if p := w.cursor().Protected; p == nil || p.ID != 2 || p.Reason != txn.ProtectByOperator {
		t.Errorf("%+v", p)
	}
	w.want(w.exit(txn.ActionResume), txn.Applied)
	w.checkInvariants()
}

// protectedAfterLoss returns a submitter whose second transaction lost its nonce.
func protectedAfterLoss(t *testing.T, auditDepth uint64) (w *sharedKeyHarness, id txn.TxID,
	n *testNode) {
	w = newSharedKeyHarness(t)
	w.policy.AuditDepth = auditDepth
	n = w.node()
	w.confirmOne("one")
	id = w.create(0, "two", transfer())
	w.eventually("it is sent", w.is(id, txn.Pending))
	w.inject(w.foreignTx(1))
	w.chain.Mine(1)
	w.awaitProtected(txn.ReasonNonceElsewhere)
	if auditDepth == 0 { // deep enough for a decision
		w.chain.MineEmpty(int(newTracker(w.chain, w.policy, clock.Real{}).AuditDepth()))
	}
	return w, id, n
}

func TestFail_NonceUsedElsewhere_QueueContinues(t *testing.T) {
	t.Parallel()
	w, id, _ := protectedAfterLoss(t, 0)
	w.want(w.exit(txn.ActionAlign), txn.ResultRefused, id.String())
	w.want(w.exit(txn.ActionResume), txn.ResultRefused, id.String())
	w.want(w.resolve(txn.ActionFail, id), txn.Applied)
	if tx := w.awaitFinal(id); tx.State != txn.Failed || tx.Executed != txn.No ||
		tx.Reason != txn.ReasonNonceElsewhere {
		t.Errorf("%+v", tx.Status)
	}
	w.want(w.exit(txn.ActionResume), txn.Applied)
	next := w.create(0, "three", transfer())
	if tx := w.finish(next); tx.State != txn.Confirmed || *tx.Nonce != 2 {
		t.Errorf("%+v", tx.Status)
	}
	if got := w.executions(); !slices.Equal(got, []txn.Nonce{0, 2}) {
		t.Errorf("payloads executed under nonces %v", got)
	}
	w.checkInvariants()
}

// TestRequeue_NonceUsedElsewhere_ExecutedOnce requeues a transaction that lost its nonce. It
// executes once, under another nonce, also after a takeover.
func TestRequeue_NonceUsedElsewhere_ExecutedOnce(t *testing.T) {
	t.Parallel()
	w, id, n := protectedAfterLoss(t,
		500) // far more than the blocks mined before the protection
	w.want(w.resolve(txn.ActionRequeue, id), txn.ResultRefused, fmt.Sprint(w.policy.AuditDepth))
	w.chain.MineEmpty(int(w.policy.AuditDepth))
	w.want(w.resolve(txn.ActionRequeue, id), txn.Applied)
	n.stop()
	w.node()
	w.want(w.exit(txn.ActionResume), txn.Applied)
	behind := w.create(0, "three", transfer())
	if tx := w.finish(id); tx.State != txn.Confirmed || *tx.Nonce != 2 || tx.Requeued != 1 {
		t.Errorf("%+v", tx.Status)
	}
	if tx := w.finish(behind); tx.State != txn.Confirmed || *tx.Nonce != 3 {
		t.Errorf("%+v", tx.Status)
	}
	if got := w.executions(); !slices.Equal(got, []txn.Nonce{0, 2, 3}) {
		t.Errorf("payloads executed under nonces %v", got)
	}
	if got := w.gaps(); !slices.Equal(got, []string{"1-1 true"}) {
		t.Errorf("gaps %v", got)
	}
	w.checkInvariants()
}

// signed returns received bytes with their hash.
func (w *sharedKeyHarness) signed(raw []byte) txn.Signed {
	w.t.Helper()
	for _, r := range w.chain.Received() {
		if slices.Equal(r.Raw, raw) {
			return txn.Signed{Hash: r.Hash, Raw: raw}
		}
	}
	w.t.Fatal("the chain has not received these bytes")
	return txn.Signed{}
}

// TestFinal_LostByChain_Protects makes the chain lose a final transaction that is no longer
// audited. The chain grows past its block without it, so this is not a lagging endpoint.
func TestFinal_LostByChain_Protects(t *testing.T) {
	t.Parallel()
	w := newSharedKeyHarness(t)
	n := w.node()
	w.confirmOne("one")
	w.chain.Intercept(func(_ context.Context, call chaintest.Call) chaintest.Fault {
		return chaintest.Fault{Down: call.Method == chaintest.MethodQuote}
	})
	id := w.create(0, "two", transfer()) // keeps its owner
	audited := func(is bool) func() error {
		return func() error {
			tracker := n.engine.trackers[w.chain.ID()]
			if (len(tracker.Audited(w.submitters[0])) > 0) != is {
				return errors.New("not yet")
			}
			return nil
		}
	}
	w.eventually("it is audited", audited(true))
	w.chain.MineEmpty(int(w.policy.AuditDepth) + 1)
	w.eventually("it is no longer audited", audited(false))
	if err := w.chain.Rollback(int(w.chain.MineEmpty(1).Number), chaintest.Drop); err != nil {
		t.Fatal(err)
	}
	w.chain.MineEmpty(20) // TestReorgAfterFinality covers audited blocks
	w.eventually("it waits", func() error {
		tx, err := w.admin.Tx(context.Background(), id)
		if err == nil && tx.Reason != txn.ReasonChainBehind {
			err = fmt.Errorf("%s %s", tx.State, tx.Reason)
		}
		return err
	})
	w.chain.Intercept(nil) // after the wait: a pending quote would use an older account read
	w.awaitProtected(txn.ReasonChainBehind)
	w.want(w.exit(txn.ActionResume), txn.ResultRefused, "lacks them")
	w.want(w.exit(txn.ActionAlign), txn.ResultRefused)
	first := w.chain.Received()[0]
	o := w.chain.Send(t.Context(), txn.Signed{Hash: first.Hash, Raw: first.Raw})
	if o.Class != txn.Accepted {
		t.Fatalf("%+v", o)
	}
	w.chain.Mine(1)
	w.want(w.exit(txn.ActionResume), txn.Applied)
	if tx := w.finish(id); tx.State != txn.Confirmed || *tx.Nonce != 1 {
		t.Errorf("%+v", tx.Status)
	}
	if got := w.executions(); !slices.Equal(got, []txn.Nonce{0, 1}) {
		t.Errorf("payloads executed under nonces %v", got)
	}
	w.checkInvariants()
}
