package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// callers are one stream of CreateTx for each of some submitters, to random nodes.
type callers struct {
	wg   sync.WaitGroup
	end  context.CancelFunc
	mu   sync.Mutex
	ids  []string
	each []int // accepted, by submitter
}

// call starts callers that each wait about pace between two calls. Now and then one repeats a call,
// as if the answer had been lost; that is still one transaction.
func (cl *cluster) call(t *testing.T, contract common.Address, submitters int, pace time.Duration,
	random *rand.Rand) *callers {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &callers{end: cancel, each: make([]int, submitters)}
	cl.ledger.executions = newExecutions(cl.chain, contract)
	t.Cleanup(func() { cancel(); c.wg.Wait() })
	for i := range submitters {
		own := rand.New(rand.NewPCG(random.Uint64(), 0))
		c.wg.Go(func() {
			for n := 0; ; n++ {
				losses := cl.ledger.losses.Load()
				id := cl.place(t, i, n)
				if own.IntN(20) == 0 {
					if again := cl.place(t, i, n); again != id &&
						cl.ledger.losses.Load() == losses {
						t.Errorf("call %d of submitter %d became two transactions: %s, %s", n, i,
							id, again)
					}
				}
				c.accepted(i, id)
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Duration(own.Int64N(int64(2 * pace)))):
				}
			}
		})
	}
	return c
}

// place asks node after node until one accepts call n of a submitter. After a fail-over that lost
// commits the answer may be lost with the transaction, and the account is protected for a while.
// The caller then looks for the call on chain before it repeats it; the id is empty if it is there.
func (cl *cluster) place(t *testing.T, submitter, n int) (id string) {
	t.Helper()
	e, payload := cl.ledger.callOf(submitter, n)
	losses := cl.ledger.losses.Load()
	eventually(t, 3*time.Minute, "CreateTx is accepted", func() error {
		if cl.ledger.losses.Load() != losses {
			if ran, err := cl.ledger.executions.of(e); ran > 0 || err != nil {
				return err
			}
		}
		tx, err := cl.tryCreate(cl.members[0].names[submitter], requestOf(n), payload)
		switch code := status.Code(err); {
		case code == codes.OK:
			id = tx.GetTxId()
		case code == codes.Unavailable || code == codes.DeadlineExceeded:
		case reasonOf(err) == "SUBMITTER_PROTECTED" && cl.ledger.losses.Load() > 0:
		default:
			t.Errorf("call %d of submitter %d: %v", n, submitter, err)
			return nil
		}
		return err
	})
	return id
}

func requestOf(n int) string { return fmt.Sprintf("call-%d", n) }

func (c *callers) accepted(submitter int, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id != "" {
		c.ids = append(c.ids, id)
	}
	c.each[submitter]++
}

func (c *callers) counts() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.each)
}

// more waits until some more calls have been accepted.
func (c *callers) more(t *testing.T, calls int) {
	t.Helper()
	count := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.ids)
	}
	want := count() + calls
	eventually(t, 30*time.Second, "more calls are accepted", func() error {
		if count() < want {
			return errNotYet
		}
		return nil
	})
}

// stop ends each stream after an accepted call and returns the accepted transactions.
func (c *callers) stop() (ids []string, each []int) {
	c.end()
	c.wg.Wait()
	return c.ids, c.each
}

// drain waits until all is final, and then holds ledger, chain, watchers and senders to everything
// that was accepted.
func (cl *cluster) drain(t *testing.T, contract common.Address, c *callers, watchers []*watcher,
	others int, limit time.Duration) {
	t.Helper()
	ids, each := c.stop()
	total := 0
	for _, calls := range each {
		total += calls
	}
	if cl.ledger.losses.Load() > 0 {
		cl.settleLosses(t, each, limit)
	} else {
		cl.members[0].awaitAll(t, len(ids)+1+others, limit) // and the contract's own
	}
	for i, calls := range each {
		verifyAccount(t, cl.chain, contract, i, calls)
	}
	verifyRows(t, cl.pool)
	verifyMined(t, cl.pool, cl.chain, senders(cl.chain)[:len(each)], total)
	cl.verifySendings(t)
	cl.verifyFence(t)
	for _, w := range watchers {
		w.verify(t, cl.members[0].node, cl.ledger.present(t, cl.pool, ids))
		if most := cl.ledger.losses.Load() + cl.ledger.moves.Load(); w.restarts > int(most) {
			t.Errorf("%d resume tokens of a watcher expired, with %d breaks of the ledger",
				w.restarts, most)
		}
	}
}
