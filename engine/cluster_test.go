package engine

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/internal/dbtest/pgproxy"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// cluster is several nodes on one ledger and one in-memory chain.
type cluster struct {
	*harness
	chain *chaintest.Chain
	keys  *sign.Book
	lease time.Duration
}

func newCluster(t *testing.T, submitters int, lease time.Duration) *cluster {
	t.Helper()
	c := &cluster{
		harness: &harness{t: t, db: dbtest.New(t), policy: testPolicy},
		chain:   chaintest.New(chaintest.Options{}),
		lease:   lease,
	}
	c.admin = c.open("admin", c.db.NodeURL)
	c.submitters = make([]txn.SubmitterID, submitters)
	keys := make([]*ecdsa.PrivateKey, submitters)
	c.together(submitters, func(i int) error {
		keys[i] = chaintest.Key(i)
		c.chain.Fund(chaintest.Address(i), *uint256.MustFromDecimal("1000000000000000000000"))
		info, _, err := c.admin.Register(t.Context(), store.Registration{
			Name: fmt.Sprintf("s%d",
				i), Chain: c.chain.ID(), Address: chaintest.Address(i), Signer: "keys",
			Mode: txn.Strict, StartFrom: "0",
		})
		c.submitters[i] = info.ID
		return err
	})
	book, err := sign.NewBook(sign.Entry{Name: "keys", Holder: sign.NewMemory(keys...)})
	if err != nil {
		t.Fatal(err)
	}
	c.keys = book
	return c
}

// together calls do for each number, 16 at a time.
func (c *cluster) together(n int, do func(i int) error) {
	c.t.Helper()
	next := make(chan int)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					c.t.Error(err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	if c.t.Failed() {
		c.t.FailNow()
	}
}

func (c *cluster) open(name, url string) *store.Store {
	c.t.Helper()
	return c.openAs(name+"/"+uuid.NewString(), url)
}

func (c *cluster) openAs(node, url string) *store.Store {
	c.t.Helper()
	s, err := store.Open(c.t.Context(),
		store.Config{URL: url, Schema: c.db.Schema, Node: node, LeaseDuration: c.lease})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(s.Close)
	return s
}

// start starts a node. Only the test mines.
func (c *cluster) start(name string, adjust func(*Options)) *testNode {
	c.t.Helper()
	return c.startOn(c.open(name, c.db.NodeURL), adjust)
}

func (c *cluster) startOn(s *store.Store, adjust func(*Options)) *testNode {
	c.t.Helper()
	o := Options{
		Store: s, Signer: c.keys, Clock: clock.Real{},
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Mode: WorkerQueue,
		AuditInterval: NoAudit,
		Chains: []ChainOptions{
			{Chain: c.chain, Policy: c.policy, PollInterval: 10 * time.Millisecond},
		},
		LeaseDuration: c.lease, RenewInterval: c.lease / 5, SweepInterval: c.lease / 10,
		PollInterval: time.Minute,
	}
	if adjust != nil {
		adjust(&o)
	}
	return c.run(o)
}

// startWithProxy starts a node behind a proxy that can cut it off from the database.
func (c *cluster) startWithProxy(name string, adjust func(*Options)) (*testNode, *pgproxy.Proxy) {
	c.t.Helper()
	proxy := c.newProxy()
	return c.startOn(c.open(name, proxy.URL()), adjust), proxy
}

func (c *cluster) newProxy() *pgproxy.Proxy {
	c.t.Helper()
	proxy, err := pgproxy.Start(c.db.NodeURL)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = proxy.Close() })
	return proxy
}

// mine mines periodically until the test ends.
func (c *cluster) mine(period time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = c.chain.Run(ctx, clock.Real{}, period) })
	c.t.Cleanup(running.Wait)
	c.t.Cleanup(cancel)
}

// holder is the owner of a live lease and its token.
type holder struct {
	node  string
	token int64
}

func (c *cluster) holders() map[txn.SubmitterID]holder {
	c.t.Helper()
	rows, err := c.db.Pool.Query(context.Background(),
		"SELECT submitter_id, owner_node, fencing_token FROM submitter_lease WHERE expires_at > "+
			"clock_timestamp()")
	if err != nil {
		c.t.Fatal(err)
	}
	defer rows.Close()
	all := map[txn.SubmitterID]holder{}
	for rows.Next() {
		var id int32
		var h holder
		if err := rows.Scan(&id, &h.node, &h.token); err != nil {
			c.t.Fatal(err)
		}
		all[txn.SubmitterID(id)] = h
	}
	return all
}

// awaitPlacement waits until each submitter is owned by its preferred node of those given.
func (c *cluster) awaitPlacement(what string, nodes ...*testNode) map[txn.SubmitterID]holder {
	c.t.Helper()
	want := c.placement(nodes...)
	var held map[txn.SubmitterID]holder
	c.eventually(what, func() error {
		held = c.holders()
		right := 0
		for _, id := range c.submitters {
			if held[id].node == want.preferred(id, c.chain.ID(), "") {
				right++
			}
		}
		if right < len(c.submitters) {
			return fmt.Errorf("%d of %d have an owner, %d the preferred one", len(held),
				len(c.submitters), right)
		}
		return nil
	})
	return held
}

func (c *cluster) placement(nodes ...*testNode) (p placement) {
	for _, n := range nodes {
		p.candidates = append(p.candidates,
			newCandidate(n.store.Node(), []txn.ChainID{c.chain.ID()}, true))
	}
	return p
}

// submitterOf returns the index of a submitter that prefers this node.
func (c *cluster) submitterOf(of *testNode, among ...*testNode) (i int) {
	c.t.Helper()
	p := c.placement(among...)
	for i, id := range c.submitters {
		if p.preferred(id, c.chain.ID(), "") == of.store.Node() {
			return i
		}
	}
	c.t.Fatal("no submitter prefers this node; use more submitters")
	return 0
}

// createOn queues a transfer through a node.
func (c *cluster) createOn(n *testNode, i int, request string) txn.TxID {
	c.t.Helper()
	tx, _, err := n.store.CreateTx(c.t.Context(),
		store.Intent{Submitter: c.submitters[i], RequestID: request, Payload: transfer()})
	if err != nil {
		c.t.Fatal(err)
	}
	return tx.ID
}
