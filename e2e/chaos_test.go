package e2e

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/dbtest/pgproxy"
	"github.com/fencepost/fencepost/internal/pgembed"
)

// TestChaos is three nodes under load while everything around them fails at random. Every second
// submitter is pipelined, and in long runs clients sign for one that is external. `make chaos` runs
// it for CHAOS_TIME; here it is a short one.
func TestChaos(t *testing.T) {
	for name, c := range map[string]struct {
		chain func(t *testing.T, keys int) *testChain
		mode  string // of ownership; default of CHAOS_MODE
		// between two calls for one submitter, no faster than the chain's blocks
		pace   time.Duration
		length time.Duration // default of CHAOS_TIME
	}{
		"embedded": {
			func(t *testing.T, keys int) *testChain {
				return lasting(
					t, 250*time.Millisecond, keys,
				)
			},
			"basic", time.Second, time.Minute,
		},
		"geth": {geth, "worker-queue", 4 * time.Second, 35 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			chaos(t, c.chain, cmp.Or(os.Getenv("CHAOS_MODE"), c.mode), c.pace,
				chaosTime(t, c.length))
		})
	}
}

func chaos(t *testing.T, chain func(t *testing.T, keys int) *testChain, mode string,
	pace, length time.Duration) {
	const submitters = 30
	seed := chaosSeed(t)
	t.Logf("CHAOS_SEED=%d CHAOS_TIME=%s CHAOS_MODE=%s", seed, length, mode)
	random := rand.New(rand.NewPCG(seed, 0))
	postgres, err := pgembed.Start(t.Context(), pgembed.Options{Settings: pgembed.Disposable()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = postgres.Stop(context.Background()) })
	line, err := pgproxy.Start(postgres.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = line.Close() })
	external := 0 // index of an account whose clients sign; none in short runs
	keys := submitters + 1
	if length > time.Minute {
		external, keys = keys, keys+1
	}
	c := chain(t, keys)
	cl := newCluster(
		t,
		c,
		3,
		nodeOptions{
			confirmations: 3,
			poll:          100 * time.Millisecond,
			lease:         "mode: " + mode + ", " + defaultLease,
			pipelined:     func(i int) int { return i % 2 * 16 },
			external:      external,
			nonces:        fmt.Sprintf(", pending_hard_max_age: %s", hardMaxAge),
		},
		line.URL(),
	)
	contract := cl.members[0].deploy(t, c)
	var watchers []*watcher
	for range 3 {
		watchers = append(watchers, watchAll(t, func() *node { return cl.any().node }))
	}
	calls := cl.call(t, contract, submitters, pace, random)
	s := &faultInjector{
		t:        t,
		cl:       cl,
		calls:    calls,
		postgres: postgres,
		line:     line,
		random:   random,
		lease:    2 * time.Second,
		hit:      map[string]bool{},
		over:     make(chan struct{}),
	}
	end := sync.OnceFunc(func() { close(s.over); s.wgOperator.Wait() })
	t.Cleanup(end)
	if external > 0 {
		s.external = startChaosClients(t, s, external, rand.New(rand.NewPCG(seed, 1)))
	}
	s.run(length)
	signed := s.external.finish()
	cl.drain(t, contract, calls, watchers, signed, 5*time.Minute)
	end()
	cl.verifyAudit(t)
	found := s.measure(readLeaseHistory(t, cl.pool))
	t.Logf("%d transactions of %d submitters through %d faults:\n%s", len(calls.ids), submitters,
		len(s.faults), report(found))
	for kind, limit := range map[string]time.Duration{
		"killed": s.lease + time.Second, "stopped": 500 * time.Millisecond,
	} {
		if m := found[kind]; m == nil || len(m.clean) == 0 {
			t.Errorf("no takeover from a node that was %s", kind)
		} else if took := median(m.clean); took > limit {
			t.Errorf(
				"the median takeover from a node that was %s took %s, more than %s", kind, took,
				limit,
			)
		}
	}
	cl.stopAll(t)
}

func chaosTime(t *testing.T, otherwise time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv("CHAOS_TIME")
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func chaosSeed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("CHAOS_SEED")
	if text == "" {
		return rand.Uint64()
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return seed
}
