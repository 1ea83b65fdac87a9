package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/engine/funds"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// poolMembers is the size of the pool; the submitter after them is the treasury.
const poolMembers = 20

// poolHarness is three nodes with a pool and a treasury on a chain that only the test mines.
type poolHarness struct {
	*treasury
	pool  store.PoolRef
	nodes []*testNode
	names map[txn.SubmitterID]int
	used  []int // requests of each member
	other store.MemberStatus
}

func newPoolHarness(t *testing.T) *poolHarness {
	c := chaintest.New(chaintest.Options{})
	r := &poolHarness{names: map[txn.SubmitterID]int{}, used: make([]int, poolMembers),
		treasury: &treasury{newLedger(t, poolMembers+1, c.ID()), c,
			funds.Rule{From: fmt.Sprintf("s%d", poolMembers), Below: ether(1), To: ether(3),
				MaxPerDay: ether(30), Pools: []string{"pay"}}}}
	p, _, err := r.admin.CreatePool(t.Context(), "pay", c.ID())
	if err != nil {
		t.Fatal(err)
	}
	r.pool = p.PoolRef
	for i, id := range r.submitters {
		c.Fund(devchain.Address(i), ether(100))
		r.names[id] = i
		if err := r.admin.SetPoolMember(t.Context(), p.PoolRef, id, store.MemberActive,
			store.Ask{}); err != nil {
			t.Fatal(err)
		}
	}
	r.nodes = []*testNode{{store: r.admin}}
	r.readAgain() // the treasury is no active member
	r.nodes = nil
	for _, name := range []string{"a", "b", "c"} {
		n := r.startNode(name, func(o *Options) { o.Chains[0].Chain = c })
		w := r.watch("balances-"+name, func(o *funds.Options) {
			o.Store, o.Interval = n.store, 20*time.Millisecond
		})
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = w.Run(ctx)
		}()
		t.Cleanup(func() { cancel(); <-ended })
		r.nodes = append(r.nodes, n)
	}
	return r
}

// readAgain makes every node read the members before its next choice: one that changes a member, as
// the treasury here, which is not active, does so.
func (r *poolHarness) readAgain() {
	r.t.Helper()
	for _, n := range r.nodes {
		if r.other == store.MemberDraining {
			r.other = store.MemberRemoved
		} else {
			r.other = store.MemberDraining
		}
		if err := n.store.SetPoolMember(r.t.Context(), r.pool, r.submitters[poolMembers], r.other,
			store.Ask{}); err != nil {
			r.t.Fatal(err)
		}
	}
}

// send creates requests first to last, each on two nodes at once, as a client does that repeats a
// call without a reply.
func (r *poolHarness) send(first, last int) {
	r.t.Helper()
	const batch = 20
	var mu sync.Mutex
	created, chosen := map[string]int{}, map[string]txn.TxID{}
	call := func(n *testNode, from int) error {
		var all []store.Intent
		for i := from; i < min(from+batch, last); i++ {
			name := fmt.Sprintf("r%04d", i)
			to := txn.Address{0xaa}
			all = append(all, store.Intent{Pool: r.pool, RequestID: name,
				Payload: txn.Payload{To: &to, Data: []byte(name)}})
		}
		results := n.store.CreateTxs(r.t.Context(), all)
		mu.Lock()
		defer mu.Unlock()
		for i, result := range results {
			name := all[i].RequestID
			if result.Err != nil {
				return fmt.Errorf("%s: %w", name, result.Err)
			}
			if was, has := chosen[name]; has && was != result.Info.ID {
				return fmt.Errorf("%s is %s and %s", name, was, result.Info.ID)
			}
			chosen[name] = result.Info.ID
			if result.Created {
				created[name]++
				r.used[r.names[result.Info.Submitter]]++
			}
		}
		return nil
	}
	var calls sync.WaitGroup
	failed := make(chan error, 2*(last-first))
	for from := first; from < last; from += batch {
		for twice := range 2 {
			n := r.nodes[(from/batch+twice)%len(r.nodes)]
			calls.Go(func() { failed <- call(n, from) })
		}
	}
	calls.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			r.t.Fatal(err)
		}
	}
	for i := first; i < last; i++ {
		if name := fmt.Sprintf("r%04d", i); created[name] != 1 {
			r.t.Fatalf("%s was created %d times", name, created[name])
		}
	}
}

// allFinal mines until every transaction is final.
func (r *poolHarness) allFinal(count int) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	mined := make(chan struct{})
	go func() {
		defer close(mined)
		_ = r.chain.Run(ctx, clock.Real{}, blockPeriod)
	}()
	defer func() { cancel(); <-mined }()
	limit := time.Now().Add(5 * time.Minute) // a busy machine takes its time
	for time.Now().Before(limit) {
		if r.number("SELECT count(*) FROM managed_tx WHERE state = 'CONFIRMED'") == count {
			return
		}
		_ = clock.Sleep(r.t.Context(), clock.Real{}, 100*time.Millisecond)
	}
	r.t.Fatalf("%d of %d are final", r.number(
		"SELECT count(*) FROM managed_tx WHERE state = 'CONFIRMED'"), count)
}

// TestPool_ThousandOverTwenty_EvenAndFunded: while one account of a pool is protected and another
// one has no funds, the others take the requests. Afterwards both catch up, none is lost or
// doubled, and the emptied account was topped up once.
func TestPool_ThousandOverTwenty_EvenAndFunded(t *testing.T) {
	t.Parallel()
	const protected, emptied = 0, 1
	r := newPoolHarness(t)
	r.send(0, 300)
	r.allFinal(300)

	r.chain.Drain(devchain.Address(emptied))
	if got := r.decide(store.Ask{Kind: txn.CommandProtect}); got != txn.Applied {
		t.Fatal(got)
	}
	r.eventually("the emptied account is topped up", func() error {
		if u := r.topUps(emptied).TopUp; u.Sub != txn.Pending {
			return fmt.Errorf("it is %s %s", u.State, u.Sub)
		}
		return nil
	})
	before := slices.Clone(r.used)
	r.send(300, 700) // no block is made: queues grow
	if r.used[protected] != before[protected] {
		t.Errorf("the protected account got %d requests", r.used[protected]-before[protected])
	}
	if got := r.decide(store.Ask{Kind: txn.CommandExitProtect, Action: txn.ActionResume,
		Expect: r.protection(protected).ID}); got != txn.Applied {
		t.Fatal(got)
	}
	r.chain.Mine(1)
	r.eventually("the emptied account has funds again", func() error {
		if r.number("SELECT count(*) FROM managed_tx WHERE submitter_id = $1 AND "+
			"sub_state = 'PENDING'", r.submitters[emptied]) > 0 {
			r.chain.Mine(1) // the next one is UNFUNDED until it is tried
		}
		p, err := r.admin.Pool(t.Context(), "pay")
		if err != nil {
			return err
		}
		for _, m := range p.Members {
			if m.Status == store.MemberActive && (m.Unfunded || !m.Accepts()) {
				return fmt.Errorf("%s is not ready: %+v", m.Name, m)
			}
		}
		return nil
	})
	// The view of a node may be old: at once, three nodes would each fill the two short queues.
	for first := 700; first < 1000; first += 20 {
		r.readAgain()
		r.send(first, first+20)
	}
	topUps := r.number("SELECT count(*) FROM top_up")
	r.allFinal(1000 + topUps)

	least, most := slices.Min(r.used), slices.Max(r.used)
	if most*10 > least*12 {
		t.Errorf("the members got %v of 1000 requests: more than 20 %% apart", r.used)
	}
	if one := r.topUps(emptied).TopUp; topUps != 1 || one.No != 1 || one.Amount != ether(3) {
		t.Errorf("%d top-ups, the emptied account has %+v", topUps, one)
	}
	executed := map[string]int{}
	for _, tx := range r.chain.Included() {
		executed[string(tx.Payload.Data)]++
	}
	delete(executed, "") // the top-up
	for name, n := range executed {
		if n != 1 {
			t.Errorf("%s was executed %d times", name, n)
		}
	}
	if len(executed) != 1000 {
		t.Errorf("%d of 1000 requests were executed", len(executed))
	}
}
