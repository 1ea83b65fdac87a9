package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/engine/funds"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// ether is an amount of whole coins.
func ether(n uint64) (w txn.Wei) {
	w.Mul(uint256.NewInt(n), uint256.NewInt(1_000_000_000_000_000_000))
	return w
}

// treasury is a chain on which submitter 0 tops up the others: below 1 coin, to 3.
type treasury struct {
	*harness
	chain *chaintest.Chain
	rule  funds.Rule
}

func newTreasury(t *testing.T, submitters int, nodes ...string) *treasury {
	c := chaintest.New(chaintest.Options{})
	r := &treasury{newLedger(t, submitters, c.ID()), c,
		funds.Rule{From: "s0", Below: ether(1), To: ether(3), MaxPerDay: ether(7)}}
	c.Fund(devchain.Address(0), ether(1000))
	for i := 1; i < submitters; i++ {
		c.Fund(devchain.Address(i), ether(2))
	}
	for _, name := range nodes {
		r.startNode(name, func(o *Options) { o.Chains[0].Chain = c })
	}
	return r
}

// watch is the watch of a node with a store of its own.
func (r *treasury) watch(name string, adjust func(*funds.Options)) *funds.Watch {
	o := funds.Options{
		Name: "main", Chain: r.chain.ID(), Rules: []funds.Rule{r.rule},
		Interval: time.Minute, Store: r.openStore(name, r.db.NodeURL),
		Balances: r.chain.BalancesAt, Clock: clock.Real{},
		Logger: slog.New(slog.NewTextHandler(r.t.Output(), nil)),
	}
	if adjust != nil {
		adjust(&o)
	}
	return funds.New(o)
}

func (r *treasury) exec(sql string) {
	r.t.Helper()
	if _, err := r.db.Pool.Exec(r.t.Context(), sql); err != nil {
		r.t.Fatal(err)
	}
}

// look has nodes look at once, at two blocks: a need counts once both show it.
func (r *treasury) look(watches ...*funds.Watch) {
	r.t.Helper()
	r.lookOnce(watches...)
	r.chain.MineEmpty(1)
	r.lookOnce(watches...)
}

func (r *treasury) lookOnce(watches ...*funds.Watch) {
	r.t.Helper()
	var all sync.WaitGroup
	failed := make(chan error, len(watches))
	for _, w := range watches {
		all.Go(func() { failed <- w.Look(r.t.Context()) })
	}
	all.Wait()
	for range watches {
		if err := <-failed; err != nil {
			r.t.Fatal(err)
		}
	}
}

// topUps returns what is known of the top-ups of the i-th submitter, after its transactions.
func (r *treasury) topUps(i int) store.Funds {
	r.t.Helper()
	id := r.submitters[i]
	all, err := r.admin.FundsOf(r.t.Context(), []txn.SubmitterID{id})
	if err != nil {
		r.t.Fatal(err)
	}
	return all[id]
}

// decided fails unless so many top-ups of the i-th submitter were decided, and each has one
// transaction with its label.
func (r *treasury) decided(i, want int) {
	r.t.Helper()
	if n := r.number("SELECT count(*) FROM top_up WHERE submitter_id = $1",
		r.submitters[i]); n != want {
		r.t.Fatalf("%d top-ups, want %d", n, want)
	}
	if n := r.number("SELECT count(*) FROM managed_tx WHERE submitter_id = $1 AND caller = $2 "+
		"AND labels = jsonb_build_object($3::TEXT, $4::TEXT)", r.submitters[0], store.TopUpCaller,
		store.TopUpLabel, fmt.Sprintf("s%d", i)); n != want {
		r.t.Fatalf("%d transactions, want %d", n, want)
	}
}

// settle mines until the newest top-up of the i-th submitter is final.
func (r *treasury) settle(i int) {
	r.t.Helper()
	r.eventually("the top-up is final", func() error {
		r.chain.Mine(1)
		if u := r.topUps(i).TopUp; u.Open() {
			return fmt.Errorf("it is %s %s", u.State, u.Sub)
		}
		return nil
	})
}

// TestTopUp_ThreeNodes_OncePerNeed: nodes that look at once decide once, nothing more is sent until
// the top-up is final, and the limit of a day ends it.
func TestTopUp_ThreeNodes_OncePerNeed(t *testing.T) {
	t.Parallel()
	r := newTreasury(t, 2, "a")
	nodes := []*funds.Watch{r.watch("x", nil), r.watch("y", nil), r.watch("z", nil)}
	r.look(nodes...)
	r.decided(1, 0)
	for need := 1; need <= 2; need++ {
		r.chain.Drain(devchain.Address(1))
		r.look(nodes...)
		r.look(nodes...)
		r.decided(1, need)
		r.settle(1)
		r.look(nodes...)
		r.decided(1, need)
		if got, want := r.balance(1), ether(3); got != want {
			t.Fatalf("balance %s, want %s", got.Dec(), want.Dec())
		}
	}
	r.chain.Drain(devchain.Address(1))
	r.look(nodes...)
	r.decided(1, 2)
	if held := r.topUps(1).Held; held != funds.HeldDayLimit {
		t.Errorf("held by %q", held)
	}
	r.exec("UPDATE top_up SET created_at = created_at - INTERVAL '1 day'")
	r.look(nodes...)
	r.decided(1, 3)
	if held := r.topUps(1).Held; held != "" {
		t.Errorf("still held by %q", held)
	}
}

// lines counts the lines of a log by their text.
type lines struct {
	mu   sync.Mutex
	seen map[string]int
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, text := range []string{`msg="balance low" submitter=s1`,
		`msg="balance no longer low" submitter=s1`, "submitter=gone", "pool=none"} {
		if strings.Contains(string(line), text) {
			l.seen[text]++
		}
	}
	return len(line), nil
}

// TestBalances_BelowLimit_ReportedOnce: by one of several nodes, for each time that an account
// falls. The cost of accepted transactions counts.
func TestBalances_BelowLimit_ReportedOnce(t *testing.T) {
	t.Parallel()
	r := newTreasury(t, 2)
	log := &lines{seen: map[string]int{}}
	limit, counted := ether(1), -1
	adjust := func(o *funds.Options) {
		o.Low, o.Rules = &limit, nil
		o.Logger = slog.New(slog.NewTextHandler(log, nil))
	}
	nodes := []*funds.Watch{r.watch("x", adjust), r.watch("y", adjust), r.watch("z",
		func(o *funds.Options) {
			adjust(o)
			o.Counted = func(low int, _ map[string]int) { counted = low }
		})}
	pay := transfer()
	pay.Value = ether(2)
	id := r.create(1, "one", pay)
	for fall := 1; fall <= 2; fall++ {
		for range 2 {
			r.look(nodes...)
			if counted != 1 || r.topUps(1).Falls != int64(fall) ||
				log.seen[`msg="balance low" submitter=s1`] != fall {
				t.Fatalf("fall %d: counted %d, %+v, logged %v", fall, counted, r.topUps(1),
					log.seen)
			}
		}
		if fall == 1 {
			if cancelled, err := r.admin.CancelQueuedFor(t.Context(), id,
				store.Ask{}); err != nil || !cancelled {
				t.Fatal(cancelled, err)
			}
		}
		r.chain.Fund(devchain.Address(1), ether(2))
		r.chain.Mine(1)
		r.look(nodes...)
		r.look(nodes...)
		if counted != 0 || log.seen[`msg="balance no longer low" submitter=s1`] != fall {
			t.Fatalf("counted %d, logged %v", counted, log.seen)
		}
		r.chain.Drain(devchain.Address(1))
		r.chain.Mine(1)
	}
}

// balance is that of the i-th submitter on the chain.
func (r *treasury) balance(i int) txn.Wei {
	r.t.Helper()
	got, err := r.chain.BalancesAt(r.t.Context(), []txn.Address{devchain.Address(i)}, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return got.Accounts[0].Balance
}

// TestTopUp_CommittedCosts_Counted: transactions that were accepted need funds too.
func TestTopUp_CommittedCosts_Counted(t *testing.T) {
	t.Parallel()
	r := newTreasury(t, 2)
	pay := transfer()
	pay.Value = ether(2)
	pay.Value.Sub(&pay.Value, uint256.NewInt(7))
	r.create(1, "one", pay)
	r.look(r.watch("x", nil))
	r.decided(1, 1)
	want := ether(3)
	want.Sub(&want, uint256.NewInt(7))
	if got := r.topUps(1).TopUp.Amount; got != want {
		t.Errorf("amount %s, want %s", got.Dec(), want.Dec())
	}
}

// TestTopUp_OlderBalance_DecidesNothing: an endpoint that lags behind the last top-up still shows
// the need that it has met.
func TestTopUp_OlderBalance_DecidesNothing(t *testing.T) {
	t.Parallel()
	r := newTreasury(t, 2, "a")
	r.chain.Drain(devchain.Address(1))
	old := r.chain.MineEmpty(1).Number
	r.look(r.watch("x", nil))
	r.settle(1)
	r.look(r.watch("y", func(o *funds.Options) {
		o.Balances = func(ctx context.Context, of []txn.Address,
			blocks []uint64) (txn.FundsRead, error) {
			got, err := r.chain.BalancesAt(ctx, of, blocks)
			got.Block, got.Accounts = old, make([]txn.AccountFunds, len(of))
			old++ // the second look is at a later block
			return got, err
		}
	}))
	r.decided(1, 1)
}

// dying is a store whose node dies before it creates the transaction of a top-up.
type dying struct{ funds.Store }

var errDied = errors.New("the node died")

func (dying) CreateTopUp(context.Context, txn.Submitter, store.TopUp) (store.TxInfo, bool, error) {
	return store.TxInfo{}, false, errDied
}

// TestTopUp_NodeDiesAfterDecision_OtherNodeCreates: the recorded amount is sent, once.
func TestTopUp_NodeDiesAfterDecision_OtherNodeCreates(t *testing.T) {
	t.Parallel()
	r := newTreasury(t, 2)
	r.chain.Drain(devchain.Address(1))
	first := r.watch("x", func(o *funds.Options) { o.Store = dying{o.Store} })
	if err := first.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.chain.MineEmpty(1)
	if err := first.Look(t.Context()); !errors.Is(err, errDied) {
		t.Fatal(err)
	}
	if n := r.number("SELECT count(*) FROM top_up"); n != 1 {
		t.Fatalf("%d top-ups are decided", n)
	}
	r.chain.Fund(devchain.Address(1), ether(1)) // the amount stays
	r.look(r.watch("y", nil), r.watch("z", nil))
	r.decided(1, 1)
	if got, want := r.topUps(1).TopUp.Amount, ether(3); got != want {
		t.Errorf("amount %s, want %s", got.Dec(), want.Dec())
	}
}

// TestTopUp_TreasuryCannotPay_Told: one transaction waits for funds, and nothing else is created.
func TestTopUp_TreasuryCannotPay_Told(t *testing.T) {
	t.Parallel()
	r := newTreasury(t, 3, "a")
	r.chain.Drain(devchain.Address(0))
	r.chain.Drain(devchain.Address(1))
	held := map[string]int{}
	w := r.watch("x", func(o *funds.Options) {
		o.Counted = func(_ int, all map[string]int) { held = all }
	})
	r.look(w)
	r.eventually("the treasury is unfunded", func() error {
		r.chain.Mine(1)
		r.look(w)
		if got := r.topUps(1).Held; got != funds.HeldTreasuryUnfunded || held[got] != 1 {
			return fmt.Errorf("held by %q, counted %v", got, held)
		}
		return nil
	})
	r.decided(1, 1)
	r.decided(0, 0) // the rule is for all accounts, but not for the treasury
	r.chain.Fund(devchain.Address(0), ether(1000))
	r.settle(1)
	r.look(w)
	r.decided(1, 1)
	if got := r.topUps(1).Held; got != "" || len(held) != 0 {
		t.Errorf("held by %q, counted %v", got, held)
	}
}

// TestTopUp_TreasuryStopped_NothingDecided: a need that passes meanwhile is not topped up later.
func TestTopUp_TreasuryStopped_NothingDecided(t *testing.T) {
	t.Parallel()
	for want, stop := range map[string]string{
		funds.HeldTreasuryPaused: "UPDATE submitter SET status = 'PAUSED' WHERE name = 's0'",
		funds.HeldTreasuryExternal: "UPDATE submitter SET mode = 'EXTERNAL', max_in_flight = 8 " +
			"WHERE name = 's0'",
		funds.HeldTreasuryUnknown: "UPDATE submitter SET name = 'gone' WHERE name = 's0'",
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			r := newTreasury(t, 2)
			r.exec(stop)
			r.chain.Drain(devchain.Address(1))
			r.look(r.watch("x", func(o *funds.Options) { o.Rules[0].Submitters = []string{"s1"} }))
			r.decided(1, 0)
			if held := r.topUps(1).Held; held != want {
				t.Errorf("held by %q", held)
			}
		})
	}
}
