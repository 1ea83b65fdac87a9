package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/chain"
	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/internal/dbtest/pgproxy"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// onEach runs a test on each kind of chain.
func onEach(t *testing.T, test func(t *testing.T, kind string)) {
	t.Parallel()
	for _, kind := range chainKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, kind)
		})
	}
}

// Three replacements, and each of the four forms is the one that gets into a block.
func TestBump_AnyAttemptIncluded_Confirmed(t *testing.T) {
	onEach(t, func(t *testing.T, kind string) {
		for no := 1; no <= 4; no++ {
			t.Run(fmt.Sprint(no), func(t *testing.T) {
				t.Parallel()
				v := newChainHarness(t, kind, withBump(quick), nil)
				v.dropSends(func(n int) bool { return n > no })
				v.node()
				id := v.create(0, "one", transfer())
				attempts := v.awaitAttempts(id, 4)
				v.await(id, "a pool has the form",
					func(tx txn.Tx) bool { return tx.Accepted >= no })
				v.mine(1)
				tx := v.finish(id)
				if tx.State != txn.Confirmed || tx.TxHash != attempts[no-1].Hash ||
					tx.Receipt.TxHash != tx.TxHash {
					t.Errorf("%s with %s, want form %d of %d", tx.State, tx.TxHash, no,
						len(attempts))
				}
				for i, f := range attempts[1:] {
					if old := attempts[i].Fees; f.Kind != txn.Bump || f.Nonce != 0 ||
						!f.Fees.Cap.Gt(&old.Cap) || !f.Fees.Tip.Gt(&old.Tip) {
						t.Errorf("form %d offers %s after %s", f.No, f.Fees.Cap.Dec(),
							old.Cap.Dec())
					}
				}
				v.dropSends(nil)
				if next := v.finish(v.create(0, "two", transfer())); *next.Nonce != 1 ||
					next.State != txn.Confirmed {
					t.Errorf("the next one is %s with nonce %d", next.State, *next.Nonce)
				}
			})
		}
	})
}

// The first form was in a block. That block goes, and the newest form gets in.
func TestReorg_OtherAttemptIncluded_Confirmed(t *testing.T) {
	onEach(t, func(t *testing.T, kind string) {
		v := newChainHarness(t, kind, withBump(quick), nil)
		v.dropSends(func(n int) bool { return n > 1 })
		v.node()
		id := v.create(0, "one", transfer())
		attempts := v.awaitAttempts(id, 2)
		v.mine(1)
		v.await(id, "the first form is in a block",
			func(tx txn.Tx) bool { return tx.Receipt != nil && tx.TxHash == attempts[0].Hash })
		v.dropSends(func(n int) bool { return n == 1 })
		if err := v.reorg(v.blocksFrom(id)); err != nil {
			t.Fatal(err)
		}
		v.awaitEvent(id, txn.EventReorged, 1)
		tx := v.finish(id)
		if tx.State != txn.Confirmed || tx.TxHash == attempts[0].Hash || v.nonceOnChain() != 1 {
			t.Errorf("%s with %s; %d nonces are used on chain", tx.State, tx.TxHash,
				v.nonceOnChain())
		}
	})
}

// above is how many of the newest blocks must go for a transaction to be in none.
func (v *chainHarness) blocksFrom(id txn.TxID) int {
	v.t.Helper()
	if v.memory == nil {
		return v.devBlocksFrom(id)
	}
	tx, err := v.admin.Tx(v.t.Context(), id)
	if err != nil || tx.Receipt == nil {
		v.t.Fatal("no receipt", err)
	}
	head, err := v.memory.Head(v.t.Context())
	if err != nil {
		v.t.Fatal(err)
	}
	return int(head.Number-tx.Receipt.BlockNumber) + 1
}

func (v *chainHarness) nonceOnChain() uint64 {
	v.t.Helper()
	if v.memory == nil {
		n, err := v.chainClient().NonceAt(v.t.Context(), devchain.Address(0), nil)
		if err != nil {
			v.t.Fatal(err)
		}
		return n
	}
	a, err := v.memory.Account(v.t.Context(), devchain.Address(0), 0)
	if err != nil {
		v.t.Fatal(err)
	}
	return uint64(a.Latest)
}

// N was in a block and N+1 in the pool; then the block of N goes. Both get in, and nothing is
// allocated between.
func TestReorg_LowerNonceDropped_BothRebroadcast(t *testing.T) {
	onEach(t, func(t *testing.T, kind string) {
		p := quick
		p.Confirmations = 20
		v := newChainHarness(t, kind, p, nil)
		v.node()
		a, b, c := v.create(0, "a", transfer()), v.create(0, "b",
			transfer()), v.create(0, "c", transfer())
		v.eventually("the first is sent", v.is(a, txn.Pending))
		v.mine(1)
		v.eventually("the second is sent", v.is(b, txn.Pending))
		if err := v.reorg(v.blocksFrom(a)); err != nil {
			t.Fatal(err)
		}
		v.awaitEvent(a, txn.EventReorged, 1)
		if tx, err := v.admin.Tx(t.Context(), c); err != nil || tx.Nonce != nil {
			t.Errorf("the third has a nonce: %+v %v", tx.Status, err)
		}
		for i, id := range []txn.TxID{a, b, c} {
			if tx := v.finish(id); tx.State != txn.Confirmed || *tx.Nonce != txn.Nonce(i) {
				t.Errorf("%d: %s with nonce %d", i, tx.State, *tx.Nonce)
			}
		}
		v.checkLedger()
	})
}

func TestCancel_Race(t *testing.T) {
	onEach(t, func(t *testing.T, kind string) {
		for name, wins := range map[string]bool{"wins": true, "loses": false} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				v := newChainHarness(t, kind, quick, nil)
				v.dropSends(func(n int) bool { return n > 1 && !wins })
				v.node()
				to := txn.Address{0xab}
				id := v.create(0, "one", txn.Payload{To: &to, Value: *uint256.NewInt(7)})
				behind := v.create(0, "two", transfer())
				v.eventually("it is sent", v.is(id, txn.Pending))
				if got := v.decide(store.Ask{Kind: txn.CommandCancel, Tx: &id}); got != txn.Applied {
					t.Fatal(got)
				}
				attempts := v.awaitAttempts(id, 2)
				_, mark := v.sent(0)
				v.eventually("it is handed over again", func() error {
					if again, _ := v.sent(mark); len(again) == 0 {
						return errors.New("not yet")
					} else if slices.Contains(again, attempts[0].Hash) {
						t.Error("what shall be cancelled is handed over")
					}
					return nil
				})
				v.mine(1)
				tx := v.finish(id)
				// it may have risen meanwhile
				cancelled := func(f txn.Attempt) bool {
					return f.Hash == tx.TxHash && f.Kind == txn.Cancel
				}
				if wins &&
					(tx.State != txn.Cancelled || tx.Executed != txn.No ||
						!slices.ContainsFunc(v.awaitAttempts(id, 2), cancelled)) {
					t.Errorf("%+v", tx.Status)
				}
				if !wins &&
					(tx.State != txn.Confirmed || tx.Executed != txn.Success ||
						tx.Reason != txn.ReasonCancelLost || tx.TxHash != attempts[0].Hash) {
					t.Errorf("%+v", tx.Status)
				}
				v.dropSends(nil)
				if next := v.finish(behind); next.State != txn.Confirmed || *next.Nonce != 1 {
					t.Errorf("the next one is %+v", next.Status)
				}
			})
		}
	})
}

// A node that was restarted has forgotten its pool: it is handed the same bytes.
func TestPool_DropsTransaction_Rebroadcast(t *testing.T) {
	onEach(t, func(t *testing.T, kind string) {
		v := newChainHarness(t, kind, quick, nil)
		v.node()
		id := v.create(0, "one", transfer())
		v.eventually("it is sent", v.is(id, txn.Pending))
		v.forget()
		v.awaitEvent(id, txn.EventResubmitted, 1)
		tx := v.finish(id)
		all, _ := v.sent(0)
		if tx.State != txn.Confirmed || len(slices.Compact(all)) != 1 || len(all) < 2 ||
			v.number("SELECT count(*) FROM tx_attempt") != 1 {
			t.Errorf("%s; sent %v", tx.State, all)
		}
	})
}

// onFees is a chain in memory with a cap on fees, and a policy with the same.
func newFeeHarness(t *testing.T, most uint64) *chainHarness {
	t.Helper()
	p := withBump(quick)
	p.BumpMaxFee = *uint256.NewInt(most)
	v := newChainHarness(t, "memory", p, nil)
	v.onMemory(
		chaintest.New(chaintest.Options{Fees: chain.FeeOptions{MaxFee: *uint256.NewInt(most)}}))
	v.node()
	return v
}

// The base fee climbs above all that may be offered, and comes back. Meanwhile the transaction says
// so, and is handed over to a node that forgets.
func TestBaseFee_AboveCap_Stuck(t *testing.T) {
	t.Parallel()
	v := newFeeHarness(t, 10e9)
	id := v.create(0, "one", transfer())
	behind := v.create(0, "two", transfer())
	v.eventually("it is sent", v.is(id, txn.Pending))
	v.memory.SetBaseFee(*uint256.NewInt(200e9))
	v.mine(2)
	tx := v.await(id, "it says that the cap is reached",
		func(tx txn.Tx) bool { return tx.State == txn.Stuck })
	if tx.Reason != txn.ReasonFeeCapReached || tx.LastError == "" {
		t.Fatalf("%+v", tx.Status)
	}
	v.forget()
	v.eventually("it is handed over", func() error {
		if len(v.memory.Pool()) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	v.memory.SetBaseFee(*uint256.NewInt(1e9))
	for i, id := range []txn.TxID{id, behind} {
		if tx := v.finish(id); tx.State != txn.Confirmed || *tx.Nonce != txn.Nonce(i) {
			t.Errorf("%+v", tx.Status)
		}
	}
}

// What replaces may offer more than what is new: fees that rise above the cap of the one are
// followed up to that of the other.
func TestReplacement_OwnFeeCap_Kept(t *testing.T) {
	t.Parallel()
	p := withBump(quick)
	p.BumpMaxFee = *uint256.NewInt(10e9)
	v := newChainHarness(t, "memory", p, nil)
	v.onMemory(
		chaintest.New(
			chaintest.Options{
				BaseFee: *uint256.NewInt(1e9),
				Fees:    chain.FeeOptions{MaxFee: *uint256.NewInt(3e9)},
			},
		),
	)
	v.node()
	id := v.create(0, "one", transfer())
	v.eventually("it is sent", v.is(id, txn.Pending))
	v.memory.SetBaseFee(*uint256.NewInt(5e9))
	tx := v.finish(id)
	attempts := v.awaitAttempts(id, 2)
	first, last := attempts[0].Fees.Cap, attempts[len(attempts)-1].Fees.Cap
	if tx.State != txn.Confirmed || first.Gt(uint256.NewInt(3e9)) ||
		!last.Gt(uint256.NewInt(5e9)) || last.Gt(uint256.NewInt(10e9)) {
		t.Errorf("%s: the first form offers %s, the last %s", tx.State, first.Dec(), last.Dec())
	}
}

// All of the cap was offered, and a pool that wants more refuses it. When it wants less the
// transaction goes on by itself.
func TestFees_FallBelowCap_Confirmed(t *testing.T) {
	t.Parallel()
	v := newFeeHarness(t, 3e9)
	v.memory.SetMinTip(*uint256.NewInt(100e9)) // nobody tells
	id := v.create(0, "one", transfer())
	v.await(id, "the cap is reached",
		func(tx txn.Tx) bool {
			return tx.State == txn.Stuck && tx.Reason == txn.ReasonFeeCapReached
		})
	if n := len(v.memory.Included()); n != 0 || len(v.memory.Pool()) != 0 {
		t.Fatal("the pool took it")
	}
	v.memory.SetMinTip(*uint256.NewInt(1))
	if tx := v.finish(id); tx.State != txn.Confirmed {
		t.Errorf("%+v", tx.Status)
	}
	for _, a := range v.awaitAttempts(id, 1) {
		if most := uint256.NewInt(3e9); a.Fees.Cap.Gt(most) {
			t.Errorf("form %d offers %s", a.No, a.Fees.Cap.Dec())
		}
	}
}

// The caps of the account and of the caller hold for the first form and for replacements; a change
// of the account's is heard.
func TestFeeCap_SubmitterAndIntent_Kept(t *testing.T) {
	t.Parallel()
	v := newChainHarness(t, "memory", withBump(quick), nil)
	v.node()
	v.dropSends(func(int) bool { return true })
	set := func(most uint64) {
		t.Helper()
		if err := v.admin.SetPolicies(t.Context(), v.submitters[0],
			store.PolicyChange{MaxFee: uint256.NewInt(most)}); err != nil {
			t.Fatal(err)
		}
		if got := v.decide(store.Ask{Kind: txn.CommandUpdate}); got != txn.Applied {
			t.Fatal(got)
		}
	}
	set(2e9)
	id := v.createWith("one", transfer(), txn.Terms{MaxFee: *uint256.NewInt(5e9)})
	v.await(id, "the account's cap is reached",
		func(tx txn.Tx) bool { return tx.Reason == txn.ReasonFeeCapReached })
	for _, a := range v.awaitAttempts(id, 1) {
		if a.Fees.Cap.Gt(uint256.NewInt(2e9)) {
			t.Errorf("form %d offers %s", a.No, a.Fees.Cap.Dec())
		}
	}
	set(0)
	v.await(id, "it goes on", func(tx txn.Tx) bool { return tx.State == txn.Tracking })
	v.dropSends(nil)
	tx := v.finish(id)
	attempts := v.awaitAttempts(id, 2)
	if last := attempts[len(attempts)-1]; tx.State != txn.Confirmed ||
		last.Fees.Cap.Gt(uint256.NewInt(5e9)) || !last.Fees.Cap.Gt(uint256.NewInt(2e9)) {
		t.Errorf("%s; the last form offers %s", tx.State, last.Fees.Cap.Dec())
	}
}

// An operator asks for more though the policy offers none.
func TestSpeedUp_BumpsDisabled_Replaced(t *testing.T) {
	t.Parallel()
	v := newChainHarness(t, "memory", quick, nil)
	v.node()
	id := v.createWith("one", transfer(), txn.Terms{Speed: txn.Fast})
	v.eventually("it is sent", v.is(id, txn.Pending))
	if got := v.decide(store.Ask{Kind: txn.CommandSpeedUp, Tx: &id}); got != txn.Applied {
		t.Fatal(got)
	}
	attempts := v.awaitAttempts(id, 2)
	if tx := v.finish(id); tx.TxHash != attempts[1].Hash || attempts[1].Kind != txn.Bump {
		t.Errorf("%+v", tx.Status)
	}
}

// The deadline passes while it waits for its turn: no nonce. It passes while it is in flight: only
// who asks for it is cancelled. How wrong the node's clock is makes no difference.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	for name, skew := range map[string]time.Duration{"right": 0, "ahead": time.Hour,
		"behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testDeadlines(t, skew)
		})
	}
}

func testDeadlines(t *testing.T, skew time.Duration) {
	v := newChainHarness(t, "memory", quick, nil)
	v.skew = skew
	v.node()
	soon := func() time.Time { return time.Now().Add(700 * time.Millisecond) }
	pass := func() {
		t.Helper()
		passed := soon()
		v.eventually("the deadline passes", func() error {
			if time.Now().Before(passed) {
				return errors.New("not yet")
			}
			return nil
		})
	}
	first := v.create(0, "first", transfer())
	late := v.createWith("late", transfer(), txn.Terms{NotAfter: soon()})
	v.eventually("the first is sent", v.is(first, txn.Pending))
	pass()
	v.finish(first)
	if tx := v.finish(late); tx.State != txn.Failed || tx.Reason != txn.ReasonDeadline ||
		tx.Executed != txn.No || tx.Nonce != nil {
		t.Errorf("%+v", tx.Status)
	}
	cancelled := v.createWith("cancelled", transfer(),
		txn.Terms{NotAfter: soon(), CancelLate: true})
	attempts := v.awaitAttempts(cancelled, 2)
	if tx := v.finish(cancelled); tx.State != txn.Cancelled || tx.Executed != txn.No ||
		tx.Reason != txn.ReasonDeadline || attempts[1].Kind != txn.Cancel || *tx.Nonce != 1 {
		t.Errorf("%+v", tx.Status)
	}
	kept := v.createWith("kept", transfer(), txn.Terms{NotAfter: soon()})
	v.eventually("it is sent", v.is(kept, txn.Pending))
	pass()
	if tx := v.finish(kept); tx.State != txn.Confirmed || len(v.awaitAttempts(kept, 1)) != 1 {
		t.Errorf("%+v", tx.Status)
	}
}

// replacing are the points of a replacement; no other step passes them.
var replacing = []Point{BeforeReplace, BeforeRecordReplacement, AfterRecordReplacement}

// TestReplacement_CrashAtEveryPoint ends a node there for good. Its successor sends what was
// recorded, and what was not recorded was never sent.
func TestReplacement_CrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, point := range replacing {
		for _, kind := range []txn.AttemptKind{txn.Bump, txn.Cancel} {
			t.Run(fmt.Sprint(point, " of ", kind), func(t *testing.T) {
				t.Parallel()
				p := quick
				if kind == txn.Bump {
					p = withBump(p)
				}
				v := newChainHarness(t, "memory", p, nil)
				before := v.crashDuringReplacement(point, kind)
				wanted := 1
				if point == AfterRecordReplacement {
					wanted = 2
				}
				if len(before) != wanted {
					t.Fatalf("%d forms are recorded at the crash", len(before))
				}
				v.node()
				if wanted == 2 {
					v.eventually("the recorded form is sent", func() error {
						if all, _ := v.sent(0); all[len(all)-1] == before[0].Hash {
							return errors.New("not yet")
						}
						return nil
					})
				}
				v.awaitAttempts(before[0].tx, 2)
				tx := v.finish(before[0].tx)
				after := v.recorded()
				for i, a := range before {
					if !bytes.Equal(after[i].Raw, a.Raw) {
						t.Errorf("form %d was recorded with other bytes", a.No)
					}
				}
				all, _ := v.sent(0)
				for _, hash := range all {
					if !slices.ContainsFunc(after,
						func(a recorded) bool { return a.Hash == hash }) {
						t.Errorf("%s was sent and is not recorded", hash)
					}
				}
				if want := map[txn.AttemptKind]txn.State{txn.Bump: txn.Confirmed,
					txn.Cancel: txn.Cancelled}[kind]; tx.State != want {
					t.Errorf("%+v", tx.Status)
				}
			})
		}
	}
}

type recorded struct {
	txn.Attempt
	tx txn.TxID
}

func (r *harness) recorded() (all []recorded) {
	r.t.Helper()
	rows, err := r.db.Pool.Query(context.Background(),
		"SELECT tx_id::TEXT, attempt_no, tx_hash, raw_tx FROM tx_attempt ORDER BY attempt_no")
	if err != nil {
		r.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var hash []byte
		var a recorded
		if err := rows.Scan(&id, &a.No, &hash, &a.Raw); err != nil {
			r.t.Fatal(err)
		}
		a.Hash = txn.Hash(hash)
		if a.tx, err = txn.ParseTxID(id); err != nil {
			r.t.Fatal(err)
		}
		all = append(all, a)
	}
	return all
}

// crashReplacing runs a node until it passes the point, cuts it off, and tells what was recorded.
func (v *chainHarness) crashDuringReplacement(point Point, kind txn.AttemptKind) []recorded {
	v.t.Helper()
	proxy, err := pgproxy.Start(v.db.URL)
	if err != nil {
		v.t.Fatal(err)
	}
	var passed atomic.Bool
	crashed := make(chan struct{})
	n := v.startNodeOn(v.openStore("crash", proxy.URL()), func(o *Options) {
		o.Chains[0].Chain = filteredChain{v.memory, v.sendFilter}
		o.Gate = func(_ context.Context, at Point, _ txn.SubmitterID) error {
			if at != point || !passed.CompareAndSwap(false, true) {
				return nil
			}
			proxy.Refuse()
			proxy.CutAll()
			close(crashed)
			return errors.New("crash")
		}
	})
	id := v.create(0, "one", transfer())
	if kind == txn.Cancel {
		v.eventually("it is sent", v.is(id, txn.Pending))
		if _, err := v.admin.AddCommand(v.t.Context(), v.submitters[0],
			store.Ask{Kind: txn.CommandCancel, Tx: &id}); err != nil {
			v.t.Fatal(err)
		}
	}
	<-crashed
	n.stop()
	if err := proxy.Close(); err != nil {
		v.t.Fatal(err)
	}
	return v.recorded()
}
