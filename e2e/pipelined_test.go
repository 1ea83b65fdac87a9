package e2e

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/fencepost/fencepost/chain/devchain"
)

// TestPipelined_CountersExact is TestCounters_Exact with many nonces in flight, while the node is
// killed. On the embedded chain, pools are emptied and blocks are undone as well.
func TestPipelined_CountersExact(t *testing.T) {
	const (
		submitters = 20
		calls      = 200
		kills      = 5
	)
	for name, c := range map[string]struct {
		chain   func(t *testing.T, keys int) *testChain
		disturb func(ctx context.Context, t *testing.T, c *testChain)
	}{
		"embedded": {
			func(t *testing.T, keys int) *testChain {
				return embedded(t, 250*time.Millisecond, keys)
			},
			disturbChain,
		},
		"geth": {geth, func(context.Context, *testing.T, *testChain) {}},
	} {
		t.Run(name, func(t *testing.T) {
			ch := c.chain(t, submitters+1)
			n := newNode(t, ch, nodeOptions{
				confirmations: 8, poll: 50 * time.Millisecond,
				pipelined: func(int) int { return 16 },
			})
			contract := n.deploy(t, ch)
			watcher := n.watchAll(t)
			ctx, cancel := context.WithCancel(t.Context())
			var disturbed sync.WaitGroup
			disturbed.Go(func() { c.disturb(ctx, t, ch) })
			ids := n.load(t, contract, submitters, calls, kills)
			cancel()
			disturbed.Wait()
			n.awaitAll(t, submitters*calls+1, 6*time.Minute)
			verifyChain(t, ch, contract, submitters, calls)
			n.verifyLedger(t, ch, submitters, calls)
			watcher.verify(t, n, ids)
			n.proc.stop(t)
		})
	}
}

// disturbChain empties the pool and undoes 1 to 6 blocks at random moments until ctx ends.
func disturbChain(ctx context.Context, t *testing.T, c *testChain) {
	seed := rand.Uint64()
	t.Logf("disturbances: seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(500+random.IntN(1500)) * time.Millisecond):
		}
		var err error
		if random.IntN(2) == 0 {
			err = c.Client.Client().CallContext(ctx, nil, "dev_dropPending", []common.Hash{})
		} else {
			err = c.Client.Client().CallContext(ctx, nil, "dev_reorg", 1+random.IntN(6),
				devchain.Drop)
		}
		if err != nil && ctx.Err() == nil {
			t.Logf("a disturbance failed: %v", err)
		}
	}
}
