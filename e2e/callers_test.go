package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
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
	t.Cleanup(func() { cancel(); c.wg.Wait() })
	for i := range submitters {
		own := rand.New(rand.NewPCG(random.Uint64(), 0))
		c.wg.Go(func() {
			for n := 0; ; n++ {
				request := fmt.Sprintf("call-%d", n)
				payload := &fencepostv1.Payload{To: contract.Hex()}
				tx := cl.create(t, cl.members[0].names[i], request, payload)
				if own.IntN(20) == 0 {
					if again := cl.create(
						t, cl.members[0].names[i], request, payload,
					); again.GetTxId() != tx.GetTxId() {
						t.Errorf("%s of submitter %d became two transactions: %s, %s", request, i,
							tx.GetTxId(), again.GetTxId())
					}
				}
				c.accepted(i, tx.GetTxId())
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

func (c *callers) accepted(submitter int, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ids = append(c.ids, id)
	c.each[submitter]++
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
	limit time.Duration) {
	t.Helper()
	ids, each := c.stop()
	cl.members[0].awaitAll(t, len(ids)+1, limit) // and the contract's own
	for i, calls := range each {
		verifyAccount(t, cl.chain, contract, i, calls)
	}
	verifyRows(t, cl.pool)
	verifyMined(t, cl.pool, cl.chain, senders(cl.chain)[:len(each)], len(ids))
	cl.verifySendings(t)
	cl.verifyFence(t)
	for _, w := range watchers {
		w.verify(t, cl.members[0].node, ids)
	}
}
