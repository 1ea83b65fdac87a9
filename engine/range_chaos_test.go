package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/txn"
)

// disturbance is everything that fails while pipelined submitters call a contract: replies are
// lost, owners crash, pools are emptied, and blocks are undone. One transaction is invalid by all
// nodes.
type disturbance struct {
	c       *chaintest.Chain
	invalid txn.Nonce // of the first account

	mu   sync.Mutex
	rand *rand.Rand
	over bool
}

func (d *disturbance) happens(oneIn int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.over && d.rand.IntN(oneIn) == 0
}

func (d *disturbance) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
}

func (d *disturbance) intercept(_ context.Context, call chaintest.Call) chaintest.Fault {
	if call.Method != chaintest.MethodSend {
		return chaintest.Fault{}
	}
	tx := new(types.Transaction)
	if err := tx.UnmarshalBinary(call.Signed.Raw); err != nil {
		return chaintest.Fault{}
	}
	from, _ := types.Sender(types.LatestSignerForChainID(tx.ChainId()), tx)
	switch {
	case from == devchain.Address(0) && tx.Nonce() == uint64(d.invalid) && *tx.To() != from:
		return chaintest.Say("intrinsic gas too low: gas 21000, minimum needed 53000")
	case d.happens(20):
		return chaintest.LoseReply()
	}
	return chaintest.Fault{}
}

var errDisturbed = errors.New("crashed")

func (d *disturbance) gate(_ context.Context, p Point, _ txn.SubmitterID) error {
	if p != BeforeStep && d.happens(200) {
		return errDisturbed
	}
	return nil
}

// mine makes blocks until ctx ends.
func (d *disturbance) mine(ctx context.Context) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		switch {
		case d.happens(25):
			d.c.ForgetPool()
		case d.happens(25):
			_ = d.c.Reorg(1+d.depth(6), chaintest.Drop) // fails below the first block
		case d.happens(25):
			_ = d.c.Reorg(1+d.depth(6), chaintest.Return)
		}
		d.c.Mine(1)
	}
}

func (d *disturbance) depth(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rand.IntN(n)
}

// TestPipelined_Disturbed_CountersExact: each call is executed once, in the order of its queue.
func TestPipelined_Disturbed_CountersExact(t *testing.T) {
	t.Parallel()
	const (
		submitters = 20
		calls      = 200
		invalid    = 90
	)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	contract := txn.Address{0xc0}
	c := chaintest.New(chaintest.Options{PoolLimit: 1 << 14})
	c.Register(contract, chaintest.Counter)
	d := &disturbance{c: c, invalid: invalid, rand: rand.New(rand.NewPCG(seed, 0))}
	r := newLedger(t, submitters, c.ID())
	for i := range submitters {
		r.pipeline(i, 16)
		c.Fund(devchain.Address(i), *uint256.MustFromDecimal("1000000000000000000000"))
	}
	c.MineEmpty(10)
	r.policy = txn.Policy{
		Confirmations: 8, ReleaseDepth: 1, ResubmitInterval: 500 * time.Millisecond,
		ResubmitMax: 10_000, AuditDepth: 20, LagGrace: time.Minute, BumpPermille: 1125,
	}
	for i := range submitters {
		for n := range calls {
			r.create(i, fmt.Sprint(n), txn.Payload{To: &contract, GasLimit: 100_000})
		}
	}
	c.Intercept(d.intercept)
	for _, name := range []string{"a", "b"} {
		r.startOn(c, name, func(o *Options) { o.Gate = d.gate })
	}
	ctx, cancel := context.WithCancel(t.Context())
	var mining sync.WaitGroup
	mining.Go(func() { d.mine(ctx) })
	defer mining.Wait()
	defer cancel()
	last := time.Now()
	most := 0
	for {
		n := r.number("SELECT count(*) FROM managed_tx WHERE terminal_at IS NOT NULL")
		if n == submitters*calls {
			break
		}
		if n > most {
			most, last = n, time.Now()
		}
		if n > submitters*calls*3/4 {
			d.end()
		}
		if time.Since(last) > time.Minute {
			t.Fatalf("%d of %d are final", n, submitters*calls)
		}
		<-time.After(50 * time.Millisecond)
	}
	for i := range submitters {
		want := uint64(calls)
		if i == 0 {
			want-- // the invalid one
		}
		if got := c.Stored(contract, devchain.Address(i).Hex()); got != want {
			t.Errorf("submitter %d: the contract counts %d calls, want %d", i, got, want)
		}
		if found, _, err := r.admin.AuditWhole(t.Context(), r.submitters[i]); err != nil ||
			len(found) > 0 {
			t.Errorf("submitter %d: audit: %v %v", i, found, err)
		}
	}
	for what, query := range map[string]string{
		"out of order": `SELECT count(*) FROM (SELECT nonce, row_number() OVER (
			PARTITION BY submitter_id ORDER BY queue_seq) - 1 AS place FROM managed_tx) q
			WHERE nonce IS DISTINCT FROM place`,
		"not confirmed": fmt.Sprintf(`SELECT count(*) FROM managed_tx
			WHERE state <> 'CONFIRMED' AND NOT (state = 'FAILED_FINAL' AND executed = 'NO'
			AND reason = '%s' AND nonce = %d)`, txn.ReasonRejected, invalid),
		"protected": "SELECT count(*) FROM submitter_nonce_cursor WHERE protections > 0",
	} {
		if n := r.number(query); n != 0 {
			t.Errorf("%s: %d", what, n)
		}
	}
}
