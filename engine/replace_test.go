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

// TestQuirk_ChainHalts_NotBumped makes no block: the attempt is rebroadcast and not bumped. Each
// block, although it does not include the attempt, is followed by one bump.
func TestQuirk_ChainHalts_NotBumped(t *testing.T) {
	t.Parallel()
	v := newChainHarness(t, "memory", withBump(quick), nil)
	v.node()
	id := v.create(0, "one", transfer())
	for made := 1; made <= 3; made++ {
		v.await(id, "rebroadcasts", func(tx txn.Tx) bool {
			return tx.Accepted == made && tx.SubmitAttempts >= 5
		})
		if n := len(v.recorded()); n != made {
			t.Fatalf("%d attempts after %d blocks", n, made-1)
		}
		v.empty()
		v.awaitEvent(id, txn.EventReplaced, made)
	}
	v.finish(id)
}

// TestBump_AnyAttemptIncluded_Confirmed bumps three times, and includes each of the four attempts.
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
				v.await(id, "a pool has the attempt",
					func(tx txn.Tx) bool { return tx.Accepted >= no })
				v.mine(1)
				tx := v.finish(id)
				if tx.State != txn.Confirmed || tx.TxHash != attempts[no-1].Hash ||
					tx.Receipt.TxHash != tx.TxHash {
					t.Errorf("%s with %s, want attempt %d of %d", tx.State, tx.TxHash, no,
						len(attempts))
				}
				for i, f := range attempts[1:] {
					if old := attempts[i].Fees; f.Kind != txn.Bump || f.Nonce != 0 ||
						!f.Fees.Cap.Gt(&old.Cap) || !f.Fees.Tip.Gt(&old.Tip) {
						t.Errorf("attempt %d offers %s after %s", f.No, f.Fees.Cap.Dec(),
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

// TestReorg_OtherAttemptIncluded_Confirmed removes the block of the first attempt and includes the
// newest.
func TestReorg_OtherAttemptIncluded_Confirmed(t *testing.T) {
	onEach(t, func(t *testing.T, kind string) {
		v := newChainHarness(t, kind, withBump(quick), nil)
		v.dropSends(func(n int) bool { return n > 1 })
		v.node()
		id := v.create(0, "one", transfer())
		attempts := v.awaitAttempts(id, 2)
		v.mine(1)
		v.await(id, "the first attempt is included",
			func(tx txn.Tx) bool { return tx.Receipt != nil && tx.TxHash == attempts[0].Hash })
		v.dropSends(func(n int) bool { return n == 1 })
		if err := v.reorg(v.blocksFrom(id)); err != nil {
			t.Fatal(err)
		}
		v.awaitEvent(id, txn.EventReorged, 1)
		tx := v.finish(id)
		if tx.State != txn.Confirmed || tx.TxHash == attempts[0].Hash || v.nonceOnChain() != 1 {
			t.Errorf("%s with %s; next nonce on chain %d", tx.State, tx.TxHash,
				v.nonceOnChain())
		}
	})
}

// blocksFrom returns the number of blocks from that of a transaction to the head.
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

// TestReorg_LowerNonceDropped_BothRebroadcast removes the block of nonce N while N+1 is in the
// pool. Both are included, and nothing is allocated in between.
func TestReorg_LowerNonceDropped_BothRebroadcast(t *testing.T) {
	onEach(t, func(t *testing.T, kind string) {
		p := quick
		p.Confirmations = 20
		v := newChainHarness(t, kind, p, nil)
		v.node()
		a := v.create(0, "a", transfer())
		b := v.create(0, "b", transfer())
		c := v.create(0, "c", transfer())
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
				got := v.decide(store.Ask{Kind: txn.CommandCancel, Tx: &id})
				if got != txn.Applied {
					t.Fatal(got)
				}
				attempts := v.awaitAttempts(id, 2)
				_, mark := v.sent(0)
				v.eventually("it is rebroadcast", func() error {
					if again, _ := v.sent(mark); len(again) == 0 {
						return errors.New("not yet")
					} else if slices.Contains(again, attempts[0].Hash) {
						t.Error("the cancelled original is rebroadcast")
					}
					return nil
				})
				v.mine(1)
				tx := v.finish(id)
				// it may have been bumped
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

// TestPool_DropsTransaction_Rebroadcast empties the pool, as a restart does: the same bytes are
// sent again.
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

// newFeeHarness returns a harness with a fee cap in the chain and the policy.
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

// TestBaseFee_AboveCap_Stuck raises the base fee above the cap and lowers it again. Meanwhile the
// transaction is STUCK and still rebroadcast.
func TestBaseFee_AboveCap_Stuck(t *testing.T) {
	t.Parallel()
	v := newFeeHarness(t, 10e9)
	id := v.create(0, "one", transfer())
	behind := v.create(0, "two", transfer())
	v.eventually("it is sent", v.is(id, txn.Pending))
	v.memory.SetBaseFee(*uint256.NewInt(200e9))
	v.mine(2)
	tx := v.await(id, "the cap is reported",
		func(tx txn.Tx) bool { return tx.State == txn.Stuck })
	if tx.Reason != txn.ReasonFeeCapReached || tx.LastError == "" {
		t.Fatalf("%+v", tx.Status)
	}
	v.forget()
	v.eventually("it is rebroadcast", func() error {
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

// TestReplacement_OwnFeeCap_Kept gives replacements a higher cap than new transactions: fees
// between the caps are paid by a replacement.
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
		t.Errorf("%s: the first attempt offers %s, the last %s", tx.State, first.Dec(), last.Dec())
	}
}

// TestFees_FallBelowCap_Confirmed reaches the cap while the pool requires more. When it requires
// less the transaction proceeds automatically.
func TestFees_FallBelowCap_Confirmed(t *testing.T) {
	t.Parallel()
	v := newFeeHarness(t, 3e9)
	v.memory.SetMinTip(*uint256.NewInt(100e9)) // not in the quotes
	id := v.create(0, "one", transfer())
	v.await(id, "the cap is reached",
		func(tx txn.Tx) bool {
			return tx.State == txn.Stuck && tx.Reason == txn.ReasonFeeCapReached
		})
	if n := len(v.memory.Included()); n != 0 || len(v.memory.Pool()) != 0 {
		t.Fatal("the pool accepted it")
	}
	v.memory.SetMinTip(*uint256.NewInt(1))
	if tx := v.finish(id); tx.State != txn.Confirmed {
		t.Errorf("%+v", tx.Status)
	}
	for _, a := range v.awaitAttempts(id, 1) {
		if most := uint256.NewInt(3e9); a.Fees.Cap.Gt(most) {
			t.Errorf("attempt %d offers %s", a.No, a.Fees.Cap.Dec())
		}
	}
}

// TestFeeCap_SubmitterAndIntent_Kept verifies that the caps of submitter and intent hold for every
// attempt, and that a changed cap applies.
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
	v.awaitBumped(id, "the cap of the submitter is reached",
		func(tx txn.Tx) bool { return tx.Reason == txn.ReasonFeeCapReached })
	for _, a := range v.awaitAttempts(id, 1) {
		if a.Fees.Cap.Gt(uint256.NewInt(2e9)) {
			t.Errorf("attempt %d offers %s", a.No, a.Fees.Cap.Dec())
		}
	}
	set(0)
	v.awaitBumped(id, "it proceeds", func(tx txn.Tx) bool { return tx.State == txn.Tracking })
	v.dropSends(nil)
	tx := v.finish(id)
	attempts := v.awaitAttempts(id, 2)
	if last := attempts[len(attempts)-1]; tx.State != txn.Confirmed ||
		last.Fees.Cap.Gt(uint256.NewInt(5e9)) || !last.Fees.Cap.Gt(uint256.NewInt(2e9)) {
		t.Errorf("%s; the last attempt offers %s", tx.State, last.Fees.Cap.Dec())
	}
}

// TestSpeedUp_BumpsDisabled_Replaced verifies that an operator can bump although the policy does
// not.
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

// TestDeadlines passes the deadline of a queued transaction, which gets no nonce, and of one in
// flight, which is cancelled only on request. The clock of the node does not matter.
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

// TestReplacement_CrashAtEveryPoint crashes a node at each point of a replacement. Its successor
// sends exactly the recorded attempts.
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
					t.Fatalf("%d attempts recorded at the crash", len(before))
				}
				v.node()
				if wanted == 2 {
					v.eventually("the recorded attempt is sent", func() error {
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
						t.Errorf("the bytes of attempt %d changed", a.No)
					}
				}
				all, _ := v.sent(0)
				for _, hash := range all {
					if !slices.ContainsFunc(after,
						func(a recorded) bool { return a.Hash == hash }) {
						t.Errorf("%s was sent without a record", hash)
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

// crashDuringReplacement runs a node until it passes the point, cuts it off, and returns the
// recorded attempts.
func (v *chainHarness) crashDuringReplacement(point Point, kind txn.AttemptKind) []recorded {
	v.t.Helper()
	proxy, err := pgproxy.Start(v.db.NodeURL)
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
	v.eventually("it crashes", func() error {
		select {
		case <-crashed:
			return nil
		default:
			v.empty() // a bump follows a block
			return errors.New("not yet")
		}
	})
	n.stop()
	if err := proxy.Close(); err != nil {
		v.t.Fatal(err)
	}
	return v.recorded()
}
