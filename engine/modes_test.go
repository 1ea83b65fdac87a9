package engine

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fencepost/fencepost/txn"
)

// TestModes_WorkerQueue_FewFailedAcquisitions compares the modes on three nodes whose accounts
// are acquired for each transaction. In basic mode the nodes compete for a free account; in
// worker-queue mode only the preferred one tries. Every transaction is sent in both.
func TestModes_WorkerQueue_FewFailedAcquisitions(t *testing.T) {
	t.Parallel()
	const accounts, rounds = 12, 5
	failed := map[Mode]float64{}
	for _, mode := range []Mode{Basic, WorkerQueue} {
		c := newCluster(t, accounts, 3*time.Second)
		c.mine(20 * time.Millisecond)
		var nodes []*testNode
		var counts []reading
		for _, name := range []string{"a", "b", "c"} {
			nodes = append(nodes, c.start(name, func(o *Options) {
				o.Mode, o.IdleAfter = mode, time.Millisecond
				counts = append(counts, measure(t, o))
			}))
		}
		total := func(name string, label ...string) (sum float64) {
			for _, r := range counts {
				sum += r.sum(name, label...)
			}
			return sum
		}
		for _, n := range nodes {
			c.eventually("each node knows the others", func() error {
				if len(n.engine.members.now(time.Now()).candidates) != len(nodes) {
					return errors.New("not yet")
				}
				return nil
			})
		}
		for round := range rounds {
			ids := make([]txn.TxID, accounts)
			c.together(accounts, func(i int) error {
				ids[i] = c.createOn(nodes[i%len(nodes)], i, fmt.Sprint(round))
				return nil
			})
			for _, id := range ids {
				c.awaitFinal(id)
			}
			c.eventually("all accounts are free", func() error {
				if n := len(c.holders()); n > 0 {
					return fmt.Errorf("%d are owned", n)
				}
				return nil
			})
		}
		failed[mode] = total("fencepost_lease_acquire", "result", "not_owner")
		if sent := total("fencepost_queue_wait"); sent != accounts*rounds {
			t.Errorf("%s: %v of %d transactions were sent", mode, sent, accounts*rounds)
		}
	}
	t.Logf("failed acquisitions: %v", failed)
	// In basic mode the number depends on chance: nodes that look at the same time contend.
	if most := accounts * rounds / 4.0; failed[WorkerQueue] > most {
		t.Errorf("failed acquisitions: %v, want at most %v in worker-queue mode", failed, most)
	}
}
