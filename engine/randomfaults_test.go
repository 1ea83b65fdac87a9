package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// randomRun drives random clients, operators and a chain whose nodes disagree about balances.
type randomRun struct {
	*cluster
	node   *testNode
	counts []reading // of each node
	ids    []txn.TxID

	mu   sync.Mutex
	rand *rand.Rand
	over bool
}

func (s *randomRun) draw(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rand.IntN(n)
}

// randomFaults are the possible replies to broadcasts and fee reads.
var randomFaults = map[chaintest.Method][]chaintest.Fault{
	chaintest.MethodSend: {
		chaintest.Say(
			"insufficient funds"), chaintest.Say("insufficient funds"),
		chaintest.Say("insufficient funds"), falseReply(txn.InsufficientFunds), {}, {},
		chaintest.Evict(), chaintest.LoseReply(),
		chaintest.Unavailable(), chaintest.Say("transaction underpriced"), rejected(txn.Invalid, 0),
		falseReply(txn.Invalid), chaintest.Say("replacement transaction underpriced"),
		chaintest.FalseNonceTooLow(), rejected(txn.RateLimited, time.Millisecond),
		chaintest.Say("already known"),
	},
	chaintest.MethodQuote: {
		{},
		{},
		{},
		{},
		{},
		{},
		{},
		{},
		{},
		falseReply(txn.InsufficientFunds),
		falseReply(txn.ExecutionReverted),
		falseReply(txn.FeeCapBelowBaseFee),
		chaintest.Unavailable(),
	},
	chaintest.MethodFees: {{}, {}, {}, falseReply(txn.FeeCapBelowBaseFee), chaintest.Unavailable()},
}

func (s *randomRun) intercept(_ context.Context, call chaintest.Call) chaintest.Fault {
	from := randomFaults[call.Method]
	if len(from) == 0 {
		return chaintest.Fault{}
	}
	fault := from[s.draw(len(from))]
	if s.mu.Lock(); s.over {
		fault = chaintest.Fault{}
	}
	s.mu.Unlock()
	return fault
}

// takeover stops the current node and starts the next.
func (s *randomRun) takeover() {
	if s.node != nil {
		s.node.stop()
	}
	actions := []txn.StuckAction{txn.StuckWait, txn.StuckRetry, txn.StuckBump, txn.StuckCancel}
	s.node = s.start("a", func(o *Options) {
		o.PollInterval, o.StuckTimeout = 50*time.Millisecond, time.Second
		s.counts = append(s.counts, measure(s.t, o))
		o.Stuck = &recordingPolicy{
			answer: func(context.Context, int) (txn.StuckAction, error) {
				return actions[s.draw(len(actions))], nil
			},
		}
	})
}

// create queues a transaction, unless the submitter is paused or protected.
func (s *randomRun) create() {
	of := s.submitters[s.draw(len(s.submitters))]
	tx, _, err := s.admin.CreateTx(s.t.Context(),
		store.Intent{Submitter: of, RequestID: fmt.Sprint(len(s.ids)), Payload: transfer()})
	if err == nil {
		s.ids = append(s.ids, tx.ID)
	}
}

// ask adds a command, which may be rejected.
func (s *randomRun) ask(of txn.SubmitterID, k store.Ask) {
	if k.Kind == txn.CommandExitProtect {
		k.Expect = int64(
			s.number(
				"SELECT coalesce(max(protections), 0) FROM submitter_nonce_cursor WHERE "+
					"submitter_id = $1",
				int32(of)),
		)
	}
	k.Reason, k.Operator = "test", "operator"
	_, _ = s.admin.AddCommand(s.t.Context(), of, k)
}

// randomStep does one random thing.
func (s *randomRun) randomStep() {
	id := s.ids[s.draw(len(s.ids))]
	of := id.Submitter()
	switch what := s.draw(40); {
	case what < 2:
		if done, err := s.admin.CancelQueued(s.t.Context(), id); err == nil && !done {
			s.ask(of, store.Ask{Kind: txn.CommandCancel, Tx: &id})
		}
	case what < 4:
		s.ask(of, store.Ask{Kind: txn.CommandSpeedUp, Tx: &id})
	case what < 7:
		s.ask(
			of,
			store.Ask{
				Kind:   txn.CommandResolve,
				Tx:     &id,
				Action: []txn.Action{txn.ActionRetry, txn.ActionBump, txn.ActionCancel}[s.draw(3)],
			},
		)
	case what < 8:
		s.ask(of, store.Ask{Kind: txn.CommandPause})
	case what < 9:
		s.ask(of, store.Ask{Kind: txn.CommandProtect, Action: txn.ProtectByOperator})
	case what < 12:
		s.resume(of)
	case what < 20:
		s.chain.Mine(1)
	case what < 22:
		_ = s.chain.Reorg(2, chaintest.Return) // fails before there are two blocks
	case what < 23:
		s.takeover()
	default:
		s.create()
	}
}

func (s *randomRun) resume(of txn.SubmitterID) {
	s.ask(of, store.Ask{Kind: txn.CommandExitProtect, Action: txn.ActionResume})
	s.ask(of, store.Ask{Kind: txn.CommandResume})
}

// TestOwner_RandomFaults_NoCommitRejected runs owners on a real ledger through random replies about
// balances, reorgs, takeovers and commands. The database rejects no commit, and in the end every
// transaction is final.
func TestOwner_RandomFaults_NoCommitRejected(t *testing.T) {
	t.Parallel()
	const steps = 200
	s := &randomRun{cluster: newCluster(t, 8, 5*time.Second), rand: rand.New(rand.NewPCG(12, 12))}
	s.policy = quick
	s.policy.ResubmitMax = 4
	s.policy.ResubmitMaxAge = 2 * time.Second
	s.policy.AuditDepth = 6
	s.policy.Bump = txn.DefaultBumpPolicy{Enabled: true, MinInterval: 200 * time.Millisecond,
		MaxAttempts: 5}
	s.chain.Intercept(s.intercept)
	s.takeover()
	for range 3 * len(s.submitters) {
		s.create()
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range steps {
		<-tick.C
		s.randomStep()
	}
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	rounds := 0
	s.eventually("all are final", func() error {
		s.chain.Mine(1)
		if rounds++; rounds%100 == 1 {
			for _, of := range s.submitters {
				s.resume(of)
			}
		}
		if n := s.openTransactions(); n > 0 {
			return fmt.Errorf("%d are not", n)
		}
		return nil
	})
	for _, counts := range s.counts {
		if n := counts.sum("fencepost_commit", "outcome", "refused"); n > 0 {
			t.Errorf("the database rejected %v commits", n)
		}
	}
	if n := s.number("SELECT count(*) FROM tx_event WHERE sub_state = 'UNFUNDED'"); n < 10 {
		t.Errorf("only %d UNFUNDED events", n)
	}
}
