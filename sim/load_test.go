package sim

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// call is one transaction that a client asks for, and the replies the client received.
type call struct {
	plan      CallPlan
	submitter txn.SubmitterID
	begun     time.Duration
	answered  time.Duration // 0: never
	answers   []txn.TxID    // of every successful reply, twins included
	asking    int           // goroutines still trying
	why       error         // the last failure
}

func chainBig(id txn.ChainID) *big.Int { return new(big.Int).SetUint64(uint64(id)) }

func gwei(n int64) *big.Int { return new(big.Int).Mul(big.NewInt(n), big.NewInt(1_000_000_000)) }

// counter is the contract that counts its calls.
var counter = txn.Address{0xc0}

func modeOf(limit int) txn.Mode {
	if limit > 1 {
		return txn.Pipelined
	}
	return txn.Strict
}

// prepare registers the submitters and schedules the load.
func (w *World) prepare() error {
	w.chain.Register(counter, chaintest.Counter)
	n := w.current(0)
	for i := range w.plan.accounts() {
		address := chaintest.Address(i)
		w.chain.Fund(address, *uint256.MustFromDecimal("1000000000000000000000"))
		var info store.SubmitterInfo
		var err error
		done := false
		mode, limit := txn.External, externalLimit
		switch {
		case i < w.plan.Submitters:
			mode, limit = modeOf(w.plan.Limits[i]), w.plan.Limits[i]
		case len(w.plan.Drains) > 0:
			mode, limit = txn.Strict, 1
		}
		go func() {
			s := n.stores[i%len(n.stores)]
			info, _, err = s.Register(context.Background(), store.Registration{
				Name: fmt.Sprintf("s%d", i), Chain: w.chain.ID(), Address: address,
				Signer: "keys", Mode: mode, StartFrom: txn.StartChain,
				Policies: store.Policies{MaxInFlight: limit},
			})
			done = true
		}()
		w.run(w.now()+time.Minute, func() bool { return done })
		if err != nil || !done {
			return fmt.Errorf("register: %w", err)
		}
		w.submitters = append(w.submitters, info.ID)
		w.homes[info.ID] = i % len(n.stores)
	}
	w.chain.Mine(8) // some blocks must be below the finality depth
	w.mine()
	if err := w.beginFunds(); err != nil {
		return err
	}
	for _, p := range w.plan.Calls {
		c := &call{plan: p, submitter: w.submitters[p.Submitter]}
		w.calls = append(w.calls, c)
		w.at(w.now()+p.At, fmt.Sprintf("call %d", p.No), func() { w.submit(c, p.Node) })
		if p.Twin >= 0 {
			w.at(w.now()+p.At, fmt.Sprintf("twin of call %d", p.No), func() { w.submit(c, p.Twin) })
		}
		if p.CancelAfter > 0 {
			w.at(w.now()+p.At+p.CancelAfter, fmt.Sprintf("cancel of call %d", p.No),
				func() { w.cancel(c) })
		}
	}
	w.beginHolds()
	w.beginMoves()
	w.beginPolicies()
	for _, p := range w.plan.NewLimits {
		w.at(w.now()+p.At, "limit", func() { w.limit(w.submitters[p.Submitter], p.Limit) })
	}
	for _, p := range w.plan.Pauses {
		w.at(w.now()+p.At, "pause",
			func() { w.command(w.submitters[p.Submitter], txn.CommandPause) })
		w.at(w.now()+p.At+p.For, "resume",
			func() { w.command(w.submitters[p.Submitter], txn.CommandResume) })
	}
	for _, p := range w.plan.Protects {
		w.at(w.now()+p.At, "protect", func() {
			w.guarded[w.submitters[p.Submitter]] = true
			w.command(w.submitters[p.Submitter], txn.CommandProtect)
		})
	}
	for i := range w.plan.Watchers {
		w.watch(i)
	}
	w.operate()
	return nil
}

// mine schedules the blocks, some of them empty, some late.
func (w *World) mine() {
	next := w.plan.BlockTime
	if w.dice.IntN(10) == 0 && !w.healed {
		next *= 4
	}
	w.at(w.now()+next, "block", func() {
		switch {
		case w.noBlocks > w.now() && !w.healed:
		case w.dice.IntN(6) == 0 && !w.healed:
			w.chain.MineEmpty(1)
		default:
			w.chain.Mine(1)
		}
		w.mine()
	})
}

// payload returns a payload unique to the call, so that the chain shows which call was executed.
func (c *call) payload() txn.Payload {
	to := counter
	return txn.Payload{To: &to, Data: fmt.Appendf(nil, "call %d", c.plan.No)}
}

func (c *call) request() string { return fmt.Sprintf("request-%d", c.plan.No) }

// submit requests a transaction until a node accepts it: the same request id each time, another
// node each time.
func (w *World) submit(c *call, first int) {
	if c.begun == 0 {
		c.begun = w.now()
	}
	c.asking++
	who := fmt.Sprintf("%d.%d", c.plan.No, c.asking)
	go func() {
		w.retry(who, first, func(ctx context.Context, n *node) bool {
			var info store.TxInfo
			err := n.on(ctx, c.submitter, func(s *store.Store) (err error) {
				info, err = w.create(ctx, s, c)
				return err
			})
			w.mu.Lock()
			defer w.mu.Unlock()
			c.why = err
			if err == nil {
				c.answers = append(c.answers, info.ID)
				if c.answered == 0 {
					c.answered = w.now()
				}
			}
			return err == nil
		})
		w.mu.Lock()
		c.asking--
		w.mu.Unlock()
	}()
}

// create asks for the transaction of a call, by the name of its account.
func (w *World) create(ctx context.Context, s *store.Store, c *call) (info store.TxInfo,
	err error) {
	intent := c.intent()
	if len(w.plan.AccountMoves) > 0 {
		name := fmt.Sprintf("s%d", c.plan.Submitter)
		if intent.Submitter, err = s.Lookup(ctx, name); err != nil {
			return info, err
		}
	}
	info, _, err = s.CreateTx(ctx, intent)
	return info, err
}

// retryPause is how long a client waits before it tries another node.
const retryPause = 700 * time.Millisecond

// retry calls try on one node after another until it succeeds or the run ends. Each try passes
// through the scheduler under the name who, so the seed decides the order of two that woke at the
// same moment.
func (w *World) retry(who string, first int, try func(context.Context, *node) bool) {
	for i := first; !w.ended(); i++ {
		if w.try(who, i%w.plan.Nodes, try) {
			return
		}
		time.Sleep(retryPause)
	}
}

func (w *World) try(who string, index int, try func(context.Context, *node) bool) bool {
	n := w.working(index)
	if n == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return n.mayCall(ctx, who) && try(context.WithValue(ctx, clientKey{}, who), n)
}

// clientKey is the key of a context with the name of the client.
type clientKey struct{}

// mayCall waits until the scheduler lets a client proceed.
func (n *node) mayCall(ctx context.Context, who string) bool {
	it := &item{node: n, kind: "call", label: who}
	it.run = func() { it.granted <- verdict{} }
	return n.w.ask(ctx, it).err == nil
}

func (w *World) ended() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closing
}

// working returns the current boot of a node, or nil if it does not accept requests.
func (w *World) working(index int) *node {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.current(index)
	if n == nil || !n.alive() {
		return nil
	}
	return n
}

// cancel requests the cancellation of a call's transaction, as the server does.
func (w *World) cancel(c *call) {
	if len(c.answers) == 0 {
		return
	}
	id := c.answers[0]
	go w.retry(
		fmt.Sprintf("cancel %d", c.plan.No),
		c.plan.Node,
		func(ctx context.Context, n *node) bool {
			err := n.on(ctx, c.submitter, func(s *store.Store) error {
				done, err := s.CancelQueued(ctx, id)
				if err != nil || done {
					return err
				}
				ask := askOf(txn.CommandCancel, "")
				ask.Tx = &id
				_, err = s.AddCommand(ctx, id.Submitter(), ask)
				return err
			})
			return err == nil || errors.Is(err, store.ErrTxNotFound)
		},
	)
}

// command sends a command to the owner of a submitter.
func (w *World) command(of txn.SubmitterID, kind txn.CommandKind) {
	go w.retry(string(kind), 0, func(ctx context.Context, n *node) bool {
		return nil == n.on(ctx, of, func(s *store.Store) error {
			_, err := s.AddCommand(ctx, of, askOf(kind, ""))
			return err
		})
	})
}

// limit changes the nonces in flight of a submitter, as UpdateSubmitter does.
func (w *World) limit(of txn.SubmitterID, limit int) {
	mode := modeOf(limit)
	change := store.PolicyChange{Mode: &mode, MaxInFlight: &limit}
	go w.retry("limit", 0, func(ctx context.Context, n *node) bool {
		return nil == n.on(ctx, of, func(s *store.Store) error {
			if err := s.SetPolicies(ctx, of, change); err != nil {
				return err
			}
			_, err := s.AddCommand(ctx, of, askOf(txn.CommandUpdate, ""))
			return err
		})
	})
}

// watcher reads the feed like a client that moves to another node after a failure.
type watcher struct {
	no    int
	heard []map[txn.TxID][]txn.Event // by ledger
	at    []store.Position
}

// all returns the events of a transaction in their order, as a client that reads all ledgers does.
func (r *watcher) all(id txn.TxID) (heard []txn.Event) {
	for _, of := range r.heard {
		heard = append(heard, of[id]...)
	}
	slices.SortStableFunc(heard, func(a, b txn.Event) int { return int(a.Seq - b.Seq) })
	return heard
}

const watchPage = 3 // events per page: small, to exercise paging

func (w *World) watch(no int) {
	r := &watcher{no: no, at: make([]store.Position, len(w.dbs.ledgers))}
	for range w.dbs.ledgers {
		r.heard = append(r.heard, map[txn.TxID][]txn.Event{})
	}
	w.watchers = append(w.watchers, r)
	who := fmt.Sprintf("watcher %d", no)
	go func() {
		for i := no; !w.ended(); i++ {
			read := func(ctx context.Context, n *node) bool {
				for ledger := range n.stores {
					if r.read(ctx, w, n, ledger) != nil {
						return false
					}
				}
				return true
			}
			for !w.ended() && w.try(who, i%w.plan.Nodes, read) {
				time.Sleep(2 * time.Second)
			}
			time.Sleep(retryPause)
		}
	}()
}

// read reads the events of a ledger since the position, through one node.
func (r *watcher) read(ctx context.Context, w *World, n *node, ledger int) error {
	s, at := n.stores[ledger], &r.at[ledger]
	if at.Until == "" {
		epoch, head, err := s.FeedHead(ctx)
		if err != nil {
			return err
		}
		if at.Seen == "" {
			*at = store.Position{Epoch: epoch, Seen: "4:4:"} // from the beginning, without copies
		}
		at.Until, at.After = head, store.EventKey{}
	}
	for {
		events, err := s.EventsSince(ctx, nil, at.Seen, at.Until, at.After, 0, watchPage)
		if err != nil {
			return err
		}
		w.mu.Lock()
		for _, e := range events {
			r.heard[ledger][e.Tx] = append(r.heard[ledger][e.Tx], e.Event)
		}
		w.mu.Unlock()
		if len(events) > 0 {
			at.After = events[len(events)-1].Key()
		}
		if len(events) < watchPage {
			break
		}
	}
	*at = store.Position{Epoch: at.Epoch, Seen: at.Until}
	again, err := store.ParsePosition(at.String()) // a client keeps the token
	if err == nil {
		*at = again
	}
	return err
}

func askOf(kind txn.CommandKind, action txn.Action) store.Ask {
	return store.Ask{Kind: kind, Action: action, Operator: "sim"}
}
