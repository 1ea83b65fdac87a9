package e2e

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// chaosClients is an account in mode EXTERNAL during a chaos run: its clients, and its operator. A
// nil one has none.
type chaosClients struct {
	*externalCluster
	s       *faultInjector
	account int
	journal string
	random  *rand.Rand
	end     func()

	mu      sync.Mutex
	clients *externalClients // nil while they are stopped
	starts  int
}

func startChaosClients(t *testing.T, s *faultInjector, account int,
	random *rand.Rand) *chaosClients {
	t.Helper()
	c := &chaosClients{
		externalCluster: &externalCluster{cluster: s.cl, t: t}, s: s, account: account,
		journal: filepath.Join(t.TempDir(), "journal"), random: random,
	}
	c.resume()
	over := make(chan struct{})
	var operator sync.WaitGroup
	operator.Go(func() { c.operate(over) })
	c.end = sync.OnceFunc(func() { c.pause(); close(over); operator.Wait() })
	t.Cleanup(c.end)
	return c
}

// resume starts the clients.
func (c *chaosClients) resume() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.starts++
	c.clients = c.startClients(c.account, c.journal, string(rune('a'+c.starts%26)), c.random)
}

// pause stops the clients: after a fail-over that loses commits, none may sign for a nonce that the
// ledger has lost.
func (c *chaosClients) pause() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clients == nil {
		return
	}
	if err := c.clients.stop(); err != nil {
		c.t.Error(err)
	}
	c.clients = nil
}

// operate decides on the account until the run is over. A refused decision is repeated.
func (c *chaosClients) operate(over <-chan struct{}) {
	for tick := time.NewTicker(time.Second); ; {
		select {
		case <-over:
			tick.Stop()
			return
		case <-tick.C:
		}
		_ = c.step(false) // repeated
	}
}

func (c *chaosClients) step(last bool) error {
	err := c.decide(c.account, c.journal, last)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if next, still := c.s.standsStill(ctx, senders(c.chain)[c.account]); still {
		c.s.exitProtect(ctx, c.members[0].names[c.account], next)
	}
	return err
}

// finish stops the clients, waits until each nonce is used or free, and verifies them. It returns
// the number of their transactions in the ledger.
func (c *chaosClients) finish() (txs int) {
	if c == nil {
		return 0
	}
	c.t.Helper()
	c.end()
	eventually(c.t, 4*time.Minute, "every nonce is used or free",
		func() error { return c.step(true) })
	c.verifyNumbers(c.account, c.readJournal(c.journal))
	if err := c.pool.QueryRow(c.t.Context(), `SELECT count(*) FROM managed_tx
		JOIN submitter s USING (submitter_id) WHERE s.name = $1`,
		c.members[0].names[c.account]).Scan(&txs); err != nil {
		c.t.Fatal(err)
	}
	return txs
}
