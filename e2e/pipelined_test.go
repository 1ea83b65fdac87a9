package e2e

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/fencepost/fencepost/chain/devchain"
	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// TestPipelined_CountersExact is TestCounters_Exact with many nonces in flight, while the node is
// killed, replies of the chain are lost, pools lose transactions, and blocks are undone. One
// transaction in the middle is refused by the chain.
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
		"geth": {forgetfulGeth, disturbGeth},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // with each other
			ch := c.chain(t, submitters+1)
			n := newNode(t, ch, nodeOptions{
				confirmations: 8, poll: 50 * time.Millisecond, rpc: lossyRPC(t, ch.url),
				pipelined: func(int) int { return 16 },
			})
			contract := n.deploy(t, ch)
			watcher := n.watchAll(t)
			ctx, cancel := context.WithCancel(t.Context())
			var disturbed sync.WaitGroup
			disturbed.Go(func() { c.disturb(ctx, t, ch) })
			around := n.queueAroundInvalid(t, ch)
			ids := append(n.load(t, contract, submitters, calls, kills), around[:]...)
			cancel()
			disturbed.Wait()
			n.awaitAll(t, submitters*calls+1+len(around), 6*time.Minute)
			verifyChain(t, ch, contract, submitters, calls)
			n.verifyLedger(t, ch, submitters, calls)
			n.verifyAroundInvalid(t, around)
			watcher.verify(t, n, ids)
			n.proc.stop(t)
		})
	}
}

// invalidRequest is the request id of a transaction that the chain refuses.
const invalidRequest = "invalid"

// queueAroundInvalid queues three transactions of the last submitter. The chain refuses the second.
func (n *node) queueAroundInvalid(t *testing.T, c *testChain) (ids [3]string) {
	t.Helper()
	last := len(n.names) - 1
	for i, request := range []string{"before", invalidRequest, "after"} {
		p := &fencepostv1.Payload{To: senders(c)[last].Hex(), GasLimit: 50_000}
		if request == invalidRequest {
			p.Data = invalidData
		}
		ids[i] = n.create(t, n.names[last], request, p).GetTxId()
	}
	return ids
}

// verifyAroundInvalid: the nonce of the refused one is filled, and the order is kept.
func (n *node) verifyAroundInvalid(t *testing.T, ids [3]string) {
	t.Helper()
	for i, id := range ids {
		want := fencepostv1.TxState_TX_STATE_CONFIRMED
		if i == 1 {
			want = fencepostv1.TxState_TX_STATE_FAILED_FINAL
		}
		if tx := n.await(t, id, time.Minute); tx.GetState() != want ||
			tx.GetOperator().GetNonce() != uint64(i+1) { // the contract's own is 0
			t.Errorf("transaction %d around the refused one: %v", i, tx)
		}
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

// disturbGeth undoes 1 to 6 blocks of geth at random moments until ctx ends, and each third time
// restarts it instead, with an empty pool. Transactions of undone blocks do not return to the pool.
// The chain first grows beyond the blocks of the last time, so that no block loses more than six.
func disturbGeth(ctx context.Context, t *testing.T, c *testChain) {
	seed := rand.Uint64()
	t.Logf("disturbances: seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	highest := uint64(0)
	undone, emptied := 0, 0
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(3+random.IntN(5)) * time.Second):
		}
		head, err := c.BlockNumber(ctx)
		if err != nil || head <= highest {
			continue // it has not regrown
		}
		highest = head
		if emptied < undone/2 {
			if err := c.restart(); err != nil {
				t.Errorf("geth is not restarted: %v", err)
			}
			emptied++
			continue
		}
		if err := c.Client.Client().CallContext(ctx, nil, "debug_setHead",
			hexutil.Uint64(head-uint64(1+random.IntN(6)))); err == nil {
			undone++
		} else if ctx.Err() == nil {
			t.Errorf("blocks are not undone: %v", err)
		}
	}
	if undone == 0 || emptied == 0 {
		t.Errorf("blocks were undone %d times, and the pool was emptied %d times", undone, emptied)
	}
}
