package sim

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holiman/uint256"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/engine/funds"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// DrainPlan takes all funds from an account.
type DrainPlan struct {
	At        time.Duration
	Submitter int
}

// PooledPlan is one request to the pool of all accounts but the treasury.
type PooledPlan struct {
	No   int
	At   time.Duration
	Node int
	Twin int // node of a concurrent request with the same id; -1: none
}

// DrawFunds returns a plan whose accounts lose their funds and are topped up, with requests to a
// pool of them.
func DrawFunds(seed uint64) Plan {
	p := Draw(seed)
	d := rand.New(rand.NewPCG(seed, 0xf0d5))
	p.Calls = p.Calls[:min(len(p.Calls), 3)]
	for range 1 + d.IntN(4) {
		p.Drains = append(p.Drains,
			DrainPlan{At: between(d, 0, loadTime), Submitter: d.IntN(p.Submitters)})
	}
	for i := range 4 + d.IntN(5) {
		c := PooledPlan{No: i, At: between(d, 0, loadTime), Node: d.IntN(p.Nodes), Twin: -1}
		if d.IntN(2) == 0 {
			c.Twin = d.IntN(p.Nodes)
		}
		p.Pooled = append(p.Pooled, c)
	}
	for range 2 + d.IntN(4) {
		p.Faults = append(p.Faults, Fault{
			Node: -1, At: between(d, time.Second, faultTime), Count: 1 + d.IntN(4),
			On:  "sql:" + one(d, "DecideTopUp", "DecideTopUp", "InsertTxs", "FundsOf"),
			For: between(d, time.Second, 25*time.Second),
			Do: one(d, doLoseReply, doLoseReply, doCutBefore, doArriveLate, doReplyLate, doFreeze,
				doCrash, doCrashBefore),
		})
	}
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return int(a.At - b.At) })
	for i := range p.Faults {
		p.Faults[i].No = i
	}
	return p
}

// coins is an amount of whole coins.
func coins(n uint64) (w uint256.Int) {
	w.Mul(uint256.NewInt(n), uint256.NewInt(1_000_000_000_000_000_000))
	return w
}

// Accounts are topped up below one coin, to three.
var topUpBelow, topUpTo = coins(1), coins(3)

// balancesRead is a response with balances that another node may get later, from an endpoint that
// lags.
type balancesRead struct {
	block    uint64
	accounts map[txn.Address]txn.AccountFunds
}

// BalancesAt reads balances, and now and then returns an older response.
func (p chainPort) BalancesAt(ctx context.Context, of []txn.Address,
	blocks []uint64) (got txn.FundsRead, err error) {
	w := p.n.w
	_, err = p.ask(ctx, chaintest.MethodAccount, 0, func() {
		var now txn.FundsRead
		if now, err = p.c.BalancesAt(context.Background(), of, blocks); err != nil {
			return
		}
		read := balancesRead{now.Block, map[txn.Address]txn.AccountFunds{}}
		for i, address := range of {
			read.accounts[address] = now.Accounts[i]
		}
		w.balances = append(w.balances, read)
		if n := len(w.balances); !w.healed && w.dice.IntN(3) == 0 {
			read = w.balances[max(0, n-1-w.dice.IntN(12))]
		}
		got = txn.FundsRead{Block: read.block, Hashes: now.Hashes}
		for _, address := range of {
			got.Accounts = append(got.Accounts, read.accounts[address])
		}
	})
	if err != nil || len(got.Accounts) != len(of) {
		return txn.FundsRead{}, txn.ErrUnavailable
	}
	return got, nil
}

// watchFunds runs the watch over balances of a node.
func (n *node) watchFunds(ctx context.Context, log *slog.Logger, ended *sync.WaitGroup) {
	if len(n.w.plan.Drains) == 0 {
		return
	}
	watch := funds.New(funds.Options{
		Name: "sim", Chain: n.w.chain.ID(), Interval: 3 * time.Second, Store: n.store,
		Rules: []funds.Rule{{From: fmt.Sprintf("s%d", n.w.plan.Submitters), Below: topUpBelow,
			To: topUpTo, MaxPerDay: coins(1000)}},
		Balances: chainPort{n, n.w.chain, n.w.db}.BalancesAt, Clock: n.clock, Logger: log,
	})
	ended.Go(func() { _ = watch.Run(ctx) })
}

// pooledCall is a request to the pool, and the replies of nodes; under World.mu.
type pooledCall struct {
	plan    PooledPlan
	answers []txn.TxID
	asking  int
}

// drain is when an account lost its funds.
type drain struct {
	submitter int
	block     uint64 // the newest one
}

const simPool = "pay"

// beginFunds creates the pool, and schedules drains and requests.
func (w *World) beginFunds() error {
	if len(w.plan.Drains) == 0 {
		return nil
	}
	var pool store.Pool
	var err error
	done := false
	n := w.current(0)
	go func() {
		ctx := context.Background()
		pool, _, err = n.store.CreatePool(ctx, simPool, w.chain.ID())
		for i := 0; err == nil && i < w.plan.Submitters; i++ {
			err = n.store.SetPoolMember(ctx, pool.PoolRef, w.submitters[i], store.MemberActive,
				store.Ask{})
		}
		done = true
	}()
	w.run(w.now()+time.Minute, func() bool { return done })
	if err != nil || !done {
		return fmt.Errorf("create the pool: %w", err)
	}
	for _, p := range w.plan.Drains {
		w.at(w.now()+p.At, "drain", func() {
			w.chain.Drain(chaintest.Address(p.Submitter))
			now, err := w.chain.BalancesAt(context.Background(),
				[]txn.Address{chaintest.Address(p.Submitter)}, nil)
			if err != nil {
				w.violated("sim", "%v", err)
			}
			w.drains = append(w.drains, drain{p.Submitter, now.Block})
		})
	}
	for _, p := range w.plan.Pooled {
		c := &pooledCall{plan: p}
		w.pooled = append(w.pooled, c)
		w.at(w.now()+p.At, fmt.Sprintf("pooled %d", p.No),
			func() { w.askPool(c, pool.PoolRef, p.Node) })
		if p.Twin >= 0 {
			w.at(w.now()+p.At, fmt.Sprintf("twin of pooled %d", p.No),
				func() { w.askPool(c, pool.PoolRef, p.Twin) })
		}
	}
	return nil
}

func (c *pooledCall) request() string { return fmt.Sprintf("pooled-%d", c.plan.No) }

// askPool requests a transaction of the pool until a node accepts it.
func (w *World) askPool(c *pooledCall, pool store.PoolRef, first int) {
	c.asking++
	who := fmt.Sprintf("pooled %d.%d", c.plan.No, c.asking)
	to := counter
	intent := store.Intent{Pool: pool, RequestID: c.request(),
		Payload: txn.Payload{To: &to, Data: fmt.Appendf(nil, "call pooled %d", c.plan.No)}}
	go func() {
		w.retry(who, first, func(ctx context.Context, n *node) bool {
			info, _, err := n.store.CreateTx(ctx, intent)
			w.mu.Lock()
			defer w.mu.Unlock()
			if err == nil {
				c.answers = append(c.answers, info.ID)
			}
			return err == nil
		})
		w.mu.Lock()
		c.asking--
		w.mu.Unlock()
	}()
}

// fundsRested reports whether every request to the pool is answered, and no account needs funds.
func (w *World) fundsRested() bool {
	if len(w.plan.Drains) == 0 {
		return true
	}
	w.mu.Lock()
	for _, c := range w.pooled {
		if c.asking > 0 || len(c.answers) == 0 {
			w.mu.Unlock()
			return false
		}
	}
	w.mu.Unlock()
	return w.poorest() == "" && !w.owed()
}

// owed reports whether a top-up has no transaction yet.
func (w *World) owed() bool {
	n, err := w.db.number(`SELECT count(*) FROM top_up u WHERE NOT EXISTS (
		SELECT FROM managed_tx t WHERE t.submitter_id = u.treasury_id
		   AND t.request_id = u.request_id)`)
	return err != nil || n > 0
}

// poorest names an account that needs funds; empty: none does.
func (w *World) poorest() string {
	for i := range w.plan.Submitters {
		now, err := w.chain.BalancesAt(context.Background(),
			[]txn.Address{chaintest.Address(i)}, nil)
		if err != nil || now.Accounts[0].Balance.Lt(&topUpBelow) {
			return fmt.Sprintf("s%d", i)
		}
	}
	return ""
}

func (w *World) isTreasury(id int32) bool {
	return len(w.plan.Drains) > 0 && int32(w.submitters[w.plan.Submitters]) == id
}

// judgeFunds checks the laws of balances and pools. T1: an account is topped up once per need, by
// one transaction. L7: a request to a pool is one transaction of one account.
func (w *World) judgeFunds(l *ledger) {
	if len(w.plan.Drains) == 0 {
		return
	}
	requests := map[string][]*row{}
	treasury := 0
	for _, r := range l.rows {
		requests[r.request] = append(requests[r.request], r)
		if w.isTreasury(r.submitter) {
			treasury++
		}
	}
	for _, c := range w.pooled {
		rows := requests[c.request()]
		if len(rows) > 1 {
			w.violated("L7", "request %d to the pool has %d transactions", c.plan.No, len(rows))
		}
		for _, id := range c.answers {
			if len(rows) != 1 || id.String() != rows[0].id {
				w.violated("L7", "request %d to the pool was answered with %s, of %d "+
					"transactions", c.plan.No, id, len(rows))
			}
		}
	}
	decided := 0
	if err := w.db.each(`SELECT request_id FROM top_up`, func(rows pgx.Rows) error {
		var request string
		err := rows.Scan(&request)
		if n := len(requests[request]); n != 1 {
			w.violated("T1", "a top-up has %d transactions", n)
		}
		decided++
		return err
	}); err != nil {
		w.violated("sim", "%v", err)
	}
	if treasury != decided {
		w.violated("T1", "the treasury has %d transactions for %d top-ups", treasury, decided)
	}
	w.judgeNeeds()
}

// judgeNeeds compares the top-ups on the chain with the drains: before each one the account has
// lost its funds since the one before.
func (w *World) judgeNeeds() {
	from := chaintest.Address(w.plan.Submitters)
	for i := range w.plan.Submitters {
		to := chaintest.Address(i)
		last := uint64(0)
		for _, in := range w.chain.Included() {
			if in.Sender != from || in.Payload.To == nil || *in.Payload.To != to {
				continue
			}
			needed := slices.ContainsFunc(w.drains, func(d drain) bool {
				return d.submitter == i && d.block >= last && d.block <= in.Block.Number
			})
			if !needed {
				w.violated("T1", "s%d is topped up in block %d without a need since block %d", i,
					in.Block.Number, last)
			}
			last = in.Block.Number
		}
	}
	if poor := w.poorest(); poor != "" {
		w.violated("T1", "%s needs funds and gets none", poor)
	}
}

// TestFundsSeeds runs simulations whose accounts lose their funds.
func TestFundsSeeds(t *testing.T) {
	t.Parallel()
	playSeeds(t, "funds", DrawFunds)
}
