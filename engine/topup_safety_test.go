package engine

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/engine/funds"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// count returns how many top-ups of the i-th submitter were decided.
func (r *treasury) count(i int) int {
	r.t.Helper()
	return r.number("SELECT count(*) FROM top_up WHERE submitter_id = $1", r.submitters[i])
}

// heldBy fails unless the i-th submitter has so many decided top-ups, none of which has a
// transaction, and gets nothing for that reason.
func (r *treasury) heldBy(i, decided int, reason string) {
	r.t.Helper()
	n, created := r.count(i), r.number("SELECT count(*) FROM managed_tx WHERE caller = $1",
		store.TopUpCaller)
	if held := r.topUps(i).Held; n != decided || created != 0 || held != reason {
		r.t.Errorf("%d top-ups with %d transactions, held by %q; want %d, and %s", n, created,
			held, decided, reason)
	}
}

// decideOnly has a node decide a top-up and die before it creates the transaction.
func (r *treasury) decideOnly() {
	r.t.Helper()
	w := r.watch("dying", func(o *funds.Options) { o.Store = dying{o.Store} })
	_ = w.Look(r.t.Context())
	r.chain.MineEmpty(1)
	if err := w.Look(r.t.Context()); err == nil {
		r.t.Fatal("the node did not die")
	}
}

// TestTopUp_PaymentInBlock_NoNeed: a payment that is in a block, and that no owner has recorded
// there yet, is not counted beside the balance that lacks it.
func TestTopUp_PaymentInBlock_NoNeed(t *testing.T) {
	t.Parallel()
	r := newTreasury(t, 2)
	n := r.startNode("a", func(o *Options) { o.Chains[0].Chain = r.chain })
	pay := transfer()
	pay.Value.Mul(uint256.NewInt(9), uint256.NewInt(100_000_000_000_000_000))
	id := r.create(1, "one", pay)
	r.eventually("sent", r.is(id, txn.Pending))
	limit := ether(1)
	w := r.watch("x", func(o *funds.Options) { o.Low = &limit })
	r.look(w)
	n.stop()
	r.chain.Mine(1)
	r.look(w)
	if u := r.topUps(1); r.count(1) != 0 || u.Falls != 0 {
		t.Errorf("an account with 1.1 coins, and nothing to pay: %+v", u)
	}
}

// TestTopUp_AccountStopped_Held: an account that is protected, as somebody else may have its key,
// or paused, gets nothing, also if its top-up is decided.
func TestTopUp_AccountStopped_Held(t *testing.T) {
	t.Parallel()
	t.Run("protected", func(t *testing.T) {
		t.Parallel()
		r := newTreasury(t, 2, "a")
		r.rule.From = "s1"
		r.awaitFinalMining(r.create(0, "one", transfer()))
		if got := r.decide(store.Ask{Kind: txn.CommandProtect}); got != txn.Applied {
			t.Fatal(got)
		}
		r.chain.Drain(devchain.Address(0))
		r.look(r.watch("x", nil))
		r.heldBy(0, 0, funds.HeldAccountProtected)
	})
	t.Run("paused after the decision", func(t *testing.T) {
		t.Parallel()
		r := newTreasury(t, 2)
		r.chain.Drain(devchain.Address(1))
		r.decideOnly()
		r.exec("UPDATE submitter SET status = 'PAUSED' WHERE name = 's1'")
		w := r.watch("x", nil)
		r.look(w)
		r.heldBy(1, 1, funds.HeldAccountPaused)
		r.exec("UPDATE submitter SET status = 'ACTIVE' WHERE name = 's1'")
		r.look(w)
		r.decided(1, 1)
	})
}

// awaitFinalMining mines until a transaction is final.
func (r *treasury) awaitFinalMining(id txn.TxID) {
	r.t.Helper()
	r.eventually("final", func() error {
		r.chain.Mine(1)
		tx, err := r.admin.Tx(r.t.Context(), id)
		if err == nil && !tx.State.Final() {
			err = fmt.Errorf("it is %s %s", tx.State, tx.Sub)
		}
		return err
	})
}

// TestTopUp_RowByHand_CreatesNothing: only a row that a rule of the node allows, with the code of
// the node's key, becomes a transaction.
func TestTopUp_RowByHand_CreatesNothing(t *testing.T) {
	t.Parallel()
	r := newTreasury(t, 3)
	key := []byte("0123456789abcdef0123456789abcdef")
	s, err := store.Open(t.Context(), store.Config{URL: r.db.NodeURL, Schema: r.db.Schema,
		Node: "k/" + uuid.NewString(), LeaseDuration: leaseDuration, Clock: clock.Real{},
		IntentKey: key})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	keyed := r.watch("x", func(o *funds.Options) { o.Store = s })
	byHand := func(amount string) {
		r.exec("DELETE FROM top_up")
		r.exec("INSERT INTO top_up (submitter_id, no, treasury_id, request_id, amount) " +
			"SELECT a.submitter_id, 1, f.submitter_id, 'by-hand', " + amount +
			" FROM submitter a, submitter f WHERE a.name = 's1' AND f.name = 's0'")
	}
	byHand("7000000000000000000")
	r.look(keyed)
	r.heldBy(1, 1, funds.HeldUnverified)
	r.look(r.watch("y", func(o *funds.Options) { o.Rules = nil }))
	r.heldBy(1, 1, funds.HeldNoRule)
	byHand("7000000000000000001")
	r.look(r.watch("z", nil)) // more than max_per_day
	r.heldBy(1, 1, funds.HeldNoRule)
	r.exec("DELETE FROM top_up")

	r.chain.Drain(devchain.Address(2))
	w := r.watch("u", func(o *funds.Options) { o.Store = dying{s} })
	_ = w.Look(t.Context())
	r.chain.MineEmpty(1)
	_ = w.Look(t.Context())
	r.exec("UPDATE top_up SET amount = amount + 1")
	r.look(keyed)
	r.heldBy(2, 1, funds.HeldUnverified)
	r.exec("UPDATE top_up SET amount = amount - 1")
	r.look(keyed)
	r.decided(2, 1)
}

// TestTopUp_ReorgAfterFinal_DecidesNothing: a reorganization has removed the block of the last
// top-up, which may be included again.
func TestTopUp_ReorgAfterFinal_DecidesNothing(t *testing.T) {
	t.Parallel()
	r := newTreasury(t, 2)
	n := r.startNode("a", func(o *Options) { o.Chains[0].Chain = r.chain })
	r.chain.Drain(devchain.Address(1))
	w := r.watch("x", nil)
	r.look(w)
	r.settle(1)
	n.stop()
	head, err := r.chain.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	depth := int(head.Number-r.topUps(1).TopUp.ReceiptBlock) + 1
	if err := r.chain.Reorg(depth, chaintest.Drop); err != nil {
		t.Fatal(err)
	}
	r.chain.MineEmpty(3)
	r.look(w)
	r.look(w)
	if held := r.topUps(1).Held; r.count(1) != 1 || held != funds.HeldNotInChain {
		t.Errorf("%d top-ups for one need, held by %q", r.count(1), held)
	}
	r.exec("UPDATE managed_tx SET terminal_at = terminal_at - INTERVAL '25 hours'")
	r.look(w)
	if r.count(1) != 2 {
		t.Error("the account gets nothing for ever")
	}
}

// TestTopUp_AwaitingApproval_NotCounted: what nobody has approved costs nothing yet.
func TestTopUp_AwaitingApproval_NotCounted(t *testing.T) {
	t.Parallel()
	r := newTreasury(t, 2)
	pay := transfer()
	pay.Value = ether(1_000_000)
	if _, _, err := r.admin.CreateTx(t.Context(), store.Intent{Submitter: r.submitters[1],
		RequestID: "huge", Payload: pay, Caller: "shop", ApprovalTime: time.Hour}); err != nil {
		t.Fatal(err)
	}
	r.look(r.watch("x", nil))
	r.decided(1, 0)
}

// TestTopUp_OneResponse_DecidesNothing: a need counts once a later block shows it too, or several
// responses of the same block.
func TestTopUp_OneResponse_DecidesNothing(t *testing.T) {
	t.Parallel()
	r := newTreasury(t, 2)
	wrong := 0
	block := uint64(7)
	w := r.watch("x", func(o *funds.Options) {
		o.Balances = func(ctx context.Context, of []txn.Address,
			blocks []uint64) (txn.FundsRead, error) {
			got, err := r.chain.BalancesAt(ctx, of, blocks)
			if got.Block = block; wrong > 0 {
				wrong--
				got.Accounts[1].Balance.Clear()
			}
			return got, err
		}
	})
	look := func(want int) {
		t.Helper()
		if err := w.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := r.count(1); n != want {
			t.Fatalf("%d top-ups, want %d", n, want)
		}
	}
	wrong = 1
	look(0)
	look(0) // the need has passed
	block++
	wrong = 5
	for range 4 {
		look(0)
	}
	look(1)
	block = 1 << 63
	if err := w.Look(t.Context()); err == nil {
		t.Error("a block that no chain has counts")
	}
}

// TestTopUp_TreasuryGone_Told: a decided top-up that cannot be created is shown, and the watch
// proceeds with the others.
func TestTopUp_TreasuryGone_Told(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]string{
		funds.HeldTreasuryExternal: "mode = 'EXTERNAL', max_in_flight = 8",
		funds.HeldTreasuryMoved: "moved_to = 'other', move_id = gen_random_uuid(), " +
			"status = 'PAUSED'",
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			r := newTreasury(t, 2)
			r.chain.Drain(devchain.Address(1))
			r.decideOnly()
			r.exec("UPDATE submitter SET " + change + " WHERE name = 's0'")
			held := map[string]int{}
			r.look(r.watch("x", func(o *funds.Options) {
				o.Counted = func(_ int, all map[string]int) { held = all }
			}))
			r.heldBy(1, 1, want)
			if held[want] != 1 {
				t.Errorf("counted %v", held)
			}
			r.exec("DELETE FROM top_up")
			if _, done, err := r.admin.DecideTopUp(t.Context(), store.TopUpNeed{
				Submitter: r.submitters[1], Treasury: r.submitters[0], Amount: ether(1),
				Funds: r.topUps(1), DayLimit: ether(1)}); err != nil || done {
				t.Errorf("decided %v, %v", done, err)
			}
		})
	}
}

// TestTopUp_QueueBlocked_Told: a top-up that waits behind others is shown.
func TestTopUp_QueueBlocked_Told(t *testing.T) {
	t.Parallel()
	r := newTreasury(t, 2)
	r.chain.Drain(devchain.Address(1))
	w := r.watch("x", nil)
	r.look(w)
	if held := r.topUps(1).Held; held != "" {
		t.Errorf("at once held by %q", held)
	}
	r.exec("UPDATE top_up SET created_at = created_at - INTERVAL '11 minutes'")
	r.look(w)
	if held := r.topUps(1).Held; held != funds.HeldTreasuryBlocked {
		t.Errorf("held by %q", held)
	}
}

// TestTopUp_UnknownNames_CountedAndLoggedOnce: a rule that names what does not exist.
func TestTopUp_UnknownNames_CountedAndLoggedOnce(t *testing.T) {
	t.Parallel()
	r := newTreasury(t, 2)
	log := &lines{seen: map[string]int{}}
	held := map[string]int{}
	r.rule.Submitters, r.rule.Pools = []string{"s1", "gone"}, []string{"none"}
	w := r.watch("x", func(o *funds.Options) {
		o.Logger = slog.New(slog.NewTextHandler(log, nil))
		o.Counted = func(_ int, all map[string]int) { held = all }
	})
	r.look(w)
	r.look(w)
	if held[funds.HeldAccountUnknown] != 2 || log.seen["submitter=gone"] != 1 ||
		log.seen["pool=none"] != 1 {
		t.Errorf("counted %v, logged %v", held, log.seen)
	}
}

// TestTopUp_Voided_DecidedAgain: a decided top-up that no rule allows any more holds the account,
// until an operator voids it. The next need has one transaction.
func TestTopUp_Voided_DecidedAgain(t *testing.T) {
	t.Parallel()
	r := newTreasury(t, 3)
	r.chain.Drain(devchain.Address(1))
	r.decideOnly()
	r.rule.From = "s2"
	r.chain.Fund(devchain.Address(2), ether(100))
	w := r.watch("x", nil)
	r.look(w)
	r.heldBy(1, 1, funds.HeldNoRule)
	owner := r.openStore("owner", r.db.URL)
	if _, err := owner.VoidTopUp(t.Context(), r.submitters[1], store.Ask{}); err != nil {
		t.Fatal(err)
	}
	r.look(w)
	u := r.topUps(1)
	created := r.number("SELECT count(*) FROM managed_tx WHERE submitter_id = $1 AND caller = $2",
		r.submitters[2], store.TopUpCaller)
	if r.count(1) != 2 || u.TopUp.No != 2 || created != 1 || u.Held != "" {
		t.Errorf("%d transactions; %+v", created, u)
	}
}

// TestBalances_OneResponse_ReportsNothing: one wrong balance begins and ends no fall.
func TestBalances_OneResponse_ReportsNothing(t *testing.T) {
	t.Parallel()
	r := newTreasury(t, 2)
	limit, counted := ether(1), 0
	var wrong *txn.Wei
	w := r.watch("x", func(o *funds.Options) {
		o.Low, o.Rules = &limit, nil
		o.Counted = func(low int, _ map[string]int) { counted = low }
		o.Balances = func(ctx context.Context, of []txn.Address,
			blocks []uint64) (txn.FundsRead, error) {
			got, err := r.chain.BalancesAt(ctx, of, blocks)
			if wrong != nil {
				got.Accounts[1].Balance = *wrong
			}
			wrong = nil
			return got, err
		}
	})
	look := func(low bool, falls int64) {
		t.Helper()
		r.chain.MineEmpty(1)
		r.lookOnce(w)
		if f := r.topUps(1); f.Low != low || f.Falls != falls || (counted == 1) != low {
			t.Errorf("low %v after %d falls, want %v after %d; %d counted", f.Low, f.Falls, low,
				falls, counted)
		}
	}
	for range 2 { // not even twice, with a right one in between
		wrong = new(txn.Wei)
		look(false, 0)
		look(false, 0)
	}
	r.chain.Drain(devchain.Address(1))
	look(false, 0)
	look(true, 1)
	rich := ether(5)
	wrong = &rich
	look(true, 1)
	look(true, 1)
	r.chain.Fund(devchain.Address(1), rich)
	look(true, 1)
	look(false, 1)
}

// TestBalances_OtherNodeRecorded_SightingVoid: two nodes have seen the balance fall. One records
// that, and tops the account up. The other one looks again only after all is final: its sighting
// does not confirm one wrong response.
func TestBalances_OtherNodeRecorded_SightingVoid(t *testing.T) {
	t.Parallel()
	r := newTreasury(t, 2, "a")
	limit := ether(1)
	wrong := false
	slow := r.watch("slow", func(o *funds.Options) {
		o.Low = &limit
		o.Balances = func(ctx context.Context, of []txn.Address,
			blocks []uint64) (txn.FundsRead, error) {
			got, err := r.chain.BalancesAt(ctx, of, blocks)
			if wrong {
				got.Accounts[1].Balance.Clear()
			}
			return got, err
		}
	})
	other := r.watch("other", func(o *funds.Options) { o.Low = &limit })
	r.chain.Drain(devchain.Address(1))
	r.lookOnce(slow, other)
	r.chain.MineEmpty(1)
	r.lookOnce(other)
	r.settle(1)
	r.look(other) // no longer low
	if u := r.topUps(1); u.TopUp.No != 1 || u.Falls != 1 || u.Low {
		t.Fatalf("%+v", u)
	}
	wrong = true
	r.lookOnce(slow)
	if u := r.topUps(1); r.count(1) != 1 || u.Falls != 1 || u.Low {
		t.Errorf("one response: %d top-ups, low %t after %d falls", r.count(1), u.Low, u.Falls)
	}
	r.chain.MineEmpty(1)
	r.lookOnce(slow)
	if u := r.topUps(1); r.count(1) != 2 || u.Falls != 2 {
		t.Errorf("two responses: %d top-ups, %d falls", r.count(1), u.Falls)
	}
}
