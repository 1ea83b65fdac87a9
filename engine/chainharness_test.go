package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/chain"
	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// chainHarness is one submitter on a chain that mines only on request: in memory, or go-ethereum.
type chainHarness struct {
	*harness
	*sendFilter
	memory *chaintest.Chain // nil on go-ethereum
	mine   func(n int)
	empty  func()                // makes a block without transactions
	reorg  func(depth int) error // drops the transactions of the removed blocks
	forget func()                // empties the pool
	nodes  int
	skew   time.Duration // of the nodes' clocks
	adjust func(*Options)
}

// skewed is a clock that is wrong by a fixed offset.
type skewed struct {
	clock.Real
	by time.Duration
}

func (c skewed) Now() time.Time { return c.Real.Now().Add(c.by) }

var chainKinds = []string{"memory", "geth"}

// newChainHarness returns a harness; its nodes use the policy and the adjusted options.
func newChainHarness(t *testing.T, kind string, policy txn.Policy,
	adjust func(*Options)) *chainHarness {
	t.Helper()
	v := &chainHarness{
		harness:    newHarness(t, 1, 0),
		sendFilter: &sendFilter{attempts: map[txn.Nonce][]txn.Hash{}},
		adjust:     adjust,
	}
	v.policy = policy
	if kind == "memory" {
		v.onMemory(chaintest.New(chaintest.Options{}))
		return v
	}
	v.mine = func(n int) {
		if _, err := v.dev.Mine(n); err != nil {
			t.Error(err)
		}
	}
	v.empty = func() {
		if _, err := v.dev.MineEmpty(1); err != nil {
			t.Error(err)
		}
	}
	v.reorg = func(depth int) error { return v.dev.Reorg(depth, devchain.Drop) }
	v.forget = func() {
		if err := v.dev.DropPending(); err != nil {
			t.Error(err)
		}
	}
	return v
}

func (v *chainHarness) onMemory(c *chaintest.Chain) {
	c.Fund(devchain.Address(0), *uint256.MustFromDecimal("1000000000000000000000"))
	v.memory = c
	v.mine = func(n int) { c.Mine(n) }
	v.empty = func() { c.MineEmpty(1) }
	v.reorg = func(depth int) error { return c.Reorg(depth, chaintest.Drop) }
	v.forget = c.ForgetPool
}

func (v *chainHarness) node() *testNode {
	v.t.Helper()
	v.nodes++
	name := fmt.Sprint("v", v.nodes)
	return v.startNodeOn(v.openStoreBy(skewed{by: v.skew}, name, v.db.NodeURL), func(o *Options) {
		o.Clock = skewed{by: v.skew}
		o.AuditInterval = NoAudit
		if v.memory != nil {
			o.Chains[0].Chain = v.memory
		}
		o.Chains[0].Chain = filteredChain{o.Chains[0].Chain, v.sendFilter}
		if v.adjust != nil {
			v.adjust(o)
		}
	})
}

// sendFilter records broadcasts, and drops some of them although it reports them as accepted.
type sendFilter struct {
	mu       sync.Mutex
	attempts map[txn.Nonce][]txn.Hash // distinct, in order of the first broadcast
	all      []txn.Hash               // every broadcast
	noQuotes bool
	// drop reports whether attempt no of a nonce is dropped; the first is 1
	drop func(no int) bool
}

type filteredChain struct {
	Chain
	by *sendFilter
}

func (s filteredChain) Send(ctx context.Context, signed txn.Signed) txn.Outcome {
	if s.by.drops(signed) {
		return txn.Outcome{Class: txn.Accepted}
	}
	return s.Chain.Send(ctx, signed)
}

func (s filteredChain) SendInOrder(ctx context.Context, signed []txn.Signed) []txn.Outcome {
	outcomes := make([]txn.Outcome, len(signed))
	for i := range signed {
		outcomes[i] = s.Send(ctx, signed[i])
	}
	return outcomes
}

func (s filteredChain) QuoteInOrder(ctx context.Context, drafts []txn.Draft) []txn.Quoted {
	return chain.QuoteEach(ctx, drafts, s.Quote)
}

func (s filteredChain) Quote(ctx context.Context, draft txn.Draft) (txn.Quote, txn.Outcome) {
	s.by.mu.Lock()
	noQuotes := s.by.noQuotes
	s.by.mu.Unlock()
	if noQuotes {
		return txn.Quote{}, txn.Outcome{Class: txn.Unavailable}
	}
	return s.Chain.Quote(ctx, draft)
}

func (s *sendFilter) setQuotes(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noQuotes = !on
}

func (s *sendFilter) drops(signed txn.Signed) bool {
	tx := new(types.Transaction)
	if tx.UnmarshalBinary(signed.Raw) != nil {
		return false
	}
	nonce := txn.Nonce(tx.Nonce())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, signed.Hash)
	no := 0
	for i, h := range s.attempts[nonce] {
		if h == signed.Hash {
			no = i + 1
		}
	}
	if no == 0 {
		s.attempts[nonce] = append(s.attempts[nonce], signed.Hash)
		no = len(s.attempts[nonce])
	}
	return s.drop != nil && s.drop(no)
}

func (s *sendFilter) dropSends(by func(no int) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop = by
}

// sent returns every broadcast hash since a mark, and the next mark.
func (s *sendFilter) sent(from int) ([]txn.Hash, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]txn.Hash(nil), s.all[from:]...), len(s.all)
}

// awaitAttempts waits until n attempts of a transaction are recorded and the n-th is broadcast.
// Meanwhile it makes blocks without transactions, because a bump follows a block.
func (v *chainHarness) awaitAttempts(id txn.TxID, n int) []txn.Attempt {
	v.t.Helper()
	var attempts []txn.Attempt
	v.eventually(fmt.Sprintf("%d attempts", n), func() (err error) {
		if attempts, err = v.admin.Attempts(context.Background(), id); err != nil {
			return err
		}
		if len(attempts) < n {
			v.empty()
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		if len(attempts) < n || !slices.Contains(v.all, attempts[n-1].Hash) {
			return fmt.Errorf("%d are recorded", len(attempts))
		}
		return nil
	})
	return attempts
}

// awaitBumped waits until a transaction satisfies a condition, and makes blocks without
// transactions meanwhile.
func (v *chainHarness) awaitBumped(id txn.TxID, what string, condition func(txn.Tx) bool) {
	v.t.Helper()
	v.await(id, what, func(tx txn.Tx) bool {
		if condition(tx) {
			return true
		}
		v.empty()
		return false
	})
}

// finish mines until a transaction is final.
func (v *chainHarness) finish(id txn.TxID) store.TxInfo {
	v.t.Helper()
	v.eventually("it is final", func() error {
		tx, err := v.admin.Tx(context.Background(), id)
		if err == nil && !tx.State.Final() {
			v.mine(1)
			err = fmt.Errorf("it is %s %s %s: %s", tx.State, tx.Sub, tx.Reason, tx.LastError)
		}
		return err
	})
	return v.awaitFinal(id)
}

// await waits until a transaction satisfies a condition.
func (r *harness) await(id txn.TxID, what string, condition func(txn.Tx) bool) txn.Tx {
	r.t.Helper()
	var got store.TxInfo
	r.eventually(what, func() (err error) {
		if got, err = r.admin.Tx(context.Background(), id); err == nil && !condition(got.Tx) {
			err = fmt.Errorf("it is %s %s %q %q", got.State, got.Sub, got.Reason, got.LastError)
		}
		return err
	})
	return got.Tx
}

func (r *harness) createWith(request string, p txn.Payload, terms txn.Terms) txn.TxID {
	r.t.Helper()
	tx, _, err := r.admin.CreateTx(r.t.Context(),
		store.Intent{Submitter: r.submitters[0], RequestID: request, Payload: p, Terms: terms})
	if err != nil {
		r.t.Fatal(err)
	}
	return tx.ID
}

// awaitEvent waits until a transaction has at least so many events of a kind.
func (r *harness) awaitEvent(id txn.TxID, kind txn.Kind, times int) {
	r.t.Helper()
	r.eventually(string(kind), func() error {
		n := 0
		for _, k := range r.events(id) {
			if k == kind {
				n++
			}
		}
		if n < times {
			return errors.New("not yet")
		}
		return nil
	})
}

// quick is a policy with short waits.
var quick = txn.Policy{
	Confirmations: 3, ReleaseDepth: 1, ResubmitInterval: 60 * time.Millisecond, ResubmitMax: 1000,
	AuditDepth: 12, LagGrace: 300 * time.Millisecond, BumpPermille: 1125,
}

// withBump returns the policy with immediate bumping.
func withBump(p txn.Policy) txn.Policy {
	p.Bump = txn.DefaultBumpPolicy{Enabled: true, MinInterval: 10 * time.Millisecond,
		MaxAttempts: 3}
	return p
}
