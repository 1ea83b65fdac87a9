package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// TestQueue_WakeUpsAlone_NothingWaits queues transactions while their owner allocates, is paused,
// resumes, is protected, is idle and leaves, or has no free slot. Polling is off, so only wake-ups
// report them to an owner. Sweeps are not: an owner that leaves may still record its settled
// nonces, and an acquisition that finds the lease locked by that is repeated by the next sweep.
func TestQueue_WakeUpsAlone_NothingWaits(t *testing.T) {
	t.Parallel()
	for _, idle := range []time.Duration{time.Millisecond, 50 * time.Millisecond, time.Minute} {
		t.Run(idle.String(), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 4, time.Minute)
			c.policy = quick
			n := c.start("a",
				func(o *Options) {
					o.PollInterval = time.Hour
					o.SweepInterval = time.Second
					o.IdleAfter = idle
				})
			c.mine(5 * time.Millisecond)
			draw := rand.New(rand.NewPCG(12, uint64(idle)))
			ask := func(of txn.SubmitterID, k store.Ask) {
				if k.Kind == txn.CommandExitProtect {
					k.Expect = int64(
						c.number(
							"SELECT coalesce(max(protections), 0) FROM submitter_nonce_cursor "+
								"WHERE submitter_id = $1",
							int32(of)),
					)
				}
				k.Reason, k.Operator = "test", "operator"
				_, _ = n.store.AddCommand(t.Context(), of, k)
			}
			made := 0
			for range 300 {
				of := c.submitters[draw.IntN(len(c.submitters))]
				switch what := draw.IntN(20); {
				case what == 0:
					ask(of, store.Ask{Kind: txn.CommandPause})
				case what == 1:
					ask(of, store.Ask{Kind: txn.CommandProtect, Action: txn.ProtectByOperator})
				case what < 5:
					ask(of, store.Ask{Kind: txn.CommandExitProtect, Action: txn.ActionResume})
					ask(of, store.Ask{Kind: txn.CommandResume})
				case what < 8:
					c.awaitBlocks(draw.IntN(12))
				default:
					for range 1 + draw.IntN(3) {
						made++
						_, _, _ = n.store.CreateTx(
							t.Context(),
							store.Intent{
								Submitter: of,
								RequestID: fmt.Sprint(made),
								Payload:   transfer(),
							},
						)
					}
				}
			}
			c.eventually("all are final", func() error {
				// a command wakes the owner, so it is sent only where one is needed and none waits
				for _, of := range c.submitters {
					const stopped = "SELECT count(*) FROM submitter s LEFT JOIN " +
						"submitter_nonce_cursor n USING (submitter_id) WHERE s.submitter_id = $1 " +
						"AND (s.status = 'PAUSED' OR n.protect_reason IS NOT NULL) " +
						"AND NOT EXISTS (SELECT FROM submitter_command c " +
						"WHERE c.submitter_id = s.submitter_id AND c.applied_at IS NULL)"
					if c.number(stopped, int32(of)) > 0 {
						ask(of, store.Ask{Kind: txn.CommandExitProtect, Action: txn.ActionResume})
						ask(of, store.Ask{Kind: txn.CommandResume})
					}
				}
				if n := c.openTransactions(); n > 0 {
					return fmt.Errorf("%d are not", n)
				}
				return nil
			})
		})
	}
}

// awaitBlocks waits for n more blocks.
func (c *cluster) awaitBlocks(n int) {
	c.t.Helper()
	head, err := c.chain.Head(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	c.eventually("blocks", func() error {
		if now, err := c.chain.Head(c.t.Context()); err != nil ||
			now.Number < head.Number+uint64(n) {
			return fmt.Errorf("%d, %v", now.Number, err)
		}
		return nil
	})
}
