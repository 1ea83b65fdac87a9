package txn

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestDecide_AnyChain drives queues over a chain with foreign transactions and reorgs of any depth,
// past finality and past the audit depth. Outcomes and commands are random, endpoints lag, receipts
// are late, and owners crash. Decide never loops without rest, and no nonce is used twice or
// skipped without a record. Once faults stop and an operator decides, every transaction is final
// with the outcome on the chain.
func TestDecide_AnyChain(t *testing.T) {
	t.Parallel()
	for _, deepest := range []int{3, 7, 40} {
		for i := range 3 {
			t.Run(fmt.Sprintf("reorgs of %d blocks/%d", deepest, i), func(t *testing.T) {
				t.Parallel()
				rapid.Check(t, func(t *rapid.T) { checkAnyChain(t, deepest) })
			})
		}
	}
}

func checkAnyChain(t *rapid.T, deepest int) {
	c := randomChain(t)
	var ids []TxID
	for _, tx := range c.view.Queue {
		ids = append(ids, tx.ID)
	}
	for i := range rapid.IntRange(1, 150).Draw(t, "steps") {
		c.randomEvent(t, deepest)
		if rapid.IntRange(0, 4).Draw(t, "asked") == 0 {
			c.view.Commands = append(c.view.Commands,
				c.randomCommand(t, int64(i+1), rapid.SampledFrom(ids).Draw(t, "tx")))
		}
		c.audit()
		c.everyNonceOnce(t)
	}
	c.drain(t)
	for range 10 {
		c.mine(chainBlock{})
		c.run(t, Accepted, accepted)
	}
	c.audit()
	c.everyNonceOnce(t)
	for _, tx := range slices.Concat(c.view.Open, c.view.Queue) {
		t.Fatalf(
			"not final: %+v of nonce %v, %v; %d attempts; protected %+v, cursor %d, account %d, "+
				"last results %v",
			tx.Status, tx.Nonce, c.kinds[tx.ID], len(tx.Attempts), c.view.Cursor.Protected,
			c.view.Cursor.Next, c.nonceAt(c.head), c.results[max(0, len(c.results)-6):])
	}
	for _, tx := range c.final {
		c.checkOutcome(t, tx)
	}
}

// randomChain is a queue under a random policy.
func randomChain(t *rapid.T) *chained {
	p := guarded
	p.AuditDepth = 8
	p.ResubmitMaxAge = time.Duration(rapid.IntRange(0, 1).Draw(t, "age")) * time.Hour
	p.PrepareMaxAge = time.Duration(rapid.IntRange(0, 1).Draw(t, "prepare age")) * 5 * time.Minute
	p.ReportConfirmations = rapid.Bool().Draw(t, "above")
	p.Stuck = rapid.Bool().Draw(t,
		"stuck policy")
	p.Diagnose = rapid.Bool().Draw(t, "diagnose")
	if rapid.Bool().Draw(t, "bump") {
		p.Bump, p.BumpPermille = DefaultBumpPolicy{
			Enabled:     true,
			MinInterval: time.Minute,
			MaxAttempts: 2,
		}, 1125
	}
	p.BumpBudget = rapid.IntRange(0, 3).Draw(t, "budget")
	c := newChained(rapid.IntRange(1, 4).Draw(t, "queued"), p)
	c.limit(rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, "limit"))
	c.answer = rapid.SampledFrom([]StuckAction{StuckWait, StuckRetry, StuckBump, StuckCancel}).Draw(
		t, "policy")
	if rapid.Bool().Draw(t, "pause on failure") {
		c.view.Submitter.OnFailure = PauseOnFailure
	}
	for i := range c.view.Queue {
		if rapid.IntRange(0, 3).Draw(t, "deadline") == 0 {
			c.view.Queue[i].Deadline = c.view.Now.Add(
				time.Duration(rapid.IntRange(1, 600).Draw(t, "late")) * time.Second)
			c.view.Queue[i].Terms.CancelLate = rapid.Bool().Draw(t, "cancel late")
		}
	}
	return c
}

// randomEvent applies one random event.
func (c *chained) randomEvent(t *rapid.T, deepest int) {
	switch rapid.IntRange(0, 15).Draw(t, "weather") {
	case 0:
		c.view.Now = c.view.Now.Add(
			time.Duration(rapid.IntRange(1, 90).Draw(t, "seconds")) * time.Second)
	case 1, 2:
		for range rapid.IntRange(1, 9).Draw(t, "blocks") {
			c.mine(chainBlock{})
		}
	case 3:
		if c.view.Cursor != nil { // without a cursor it is not a use elsewhere
			c.mine(chainBlock{uses: true})
		}
	case 4, 5:
		c.minePool(rapid.Bool().Draw(t, "success"), rapid.IntRange(0, 5).Draw(t, "which"))
	case 6:
		c.reorg(rapid.IntRange(1, deepest).Draw(t, "reorg"), deepest)
	case 7:
		c.run(t, Accepted, accepted)
	case 8:
		clear(c.pool)
	case 9:
		c.pruned = !c.pruned
	case 10:
		c.lag = rapid.IntRange(0, 12).Draw(t, "lag")
	case 11:
		c.takeover(
			rapid.SampledFrom(
				[]Class{Accepted, AlreadyKnown, Unavailable, Ambiguous, Invalid}).Draw(
				t,
				"lost response",
			),
		)
	case 12:
		clear(c.unknown)
		for _, tx := range slices.Concat(c.view.Open, c.view.Queue, c.view.NotExecuted) {
			for _, a := range tx.Attempts {
				c.unknown[a.Hash] = rapid.Bool().Draw(t, "unknown")
			}
		}
	default:
		prep := accepted
		if rapid.IntRange(0, 3).Draw(t, "quote fails") == 0 {
			prep = Preparation{
				Outcome: Outcome{
					Class: rapid.SampledFrom(
						[]Class{Unavailable, InsufficientFunds, FeeCapBelowBaseFee, Accepted}).Draw(
						t,
						"quote",
					),
				},
				SignErr: ErrUnavailable,
			}
		}
		c.step(
			t,
			rapid.SampledFrom(
				[]Class{
					Accepted,
					AlreadyKnown,
					Unavailable,
					Ambiguous,
					ReplacementUnderpriced,
					Underpriced,
					Invalid,
					NonceGap,
					InsufficientFunds,
					PoolFull,
					FeeCapBelowBaseFee,
				},
			).Draw(t, "answer"),
			prep,
		)
	}
}

// randomCommand is a random command.
func (c *chained) randomCommand(t *rapid.T, id int64, tx TxID) Command {
	k := Command{ID: id, Tx: tx, Reason: "because"}
	k.Kind = rapid.SampledFrom(
		[]CommandKind{
			CommandCancel,
			CommandProtect,
			CommandExitProtect,
			CommandResolve,
			CommandResolve,
			CommandSpeedUp,
			CommandPause,
			CommandResume,
		},
	).Draw(t, "kind")
	switch k.Kind {
	case CommandExitProtect:
		k.Action = rapid.SampledFrom([]Action{ActionResume, ActionAlign}).Draw(t, "exit")
		if c.view.Cursor != nil {
			k.Expect = c.view.Cursor.Protections
		}
	case CommandResolve:
		k.Action = rapid.SampledFrom(
			[]Action{
				ActionFail,
				ActionRequeue,
				ActionRequeue,
				ActionRetry,
				ActionBump,
				ActionCancel,
				ActionFailUnproven,
				ActionRequeueUnproven,
			},
		).Draw(t, "resolve")
	}
	return k
}

// drain runs without faults, with an operator who decides now and then, until nothing is left.
func (c *chained) drain(t fataler) {
	c.pruned, c.lag = false, 0
	clear(c.unknown)
	id := int64(1000)
	for round := range 120 {
		c.wait(t, 2*time.Minute)
		if len(c.view.Open)+len(c.view.Queue) == 0 && round > 20 {
			return
		}
		if round%6 == 5 && len(c.view.Commands) == 0 {
			c.operate(t, &id)
		}
	}
}

// operate is an operator: fails transactions with lost nonces, exits the protection, resumes, and
// fills by hand the unassigned nonces that the chain has lost.
func (c *chained) operate(t fataler, id *int64) {
	for range 10 {
		c.mine(chainBlock{})
	}
	c.run(t, Accepted, accepted)
	ask := func(k Command) {
		*id++
		k.ID = *id
		c.view.Commands = append(c.view.Commands, k)
	}
	if cursor := c.view.Cursor; cursor != nil {
		nobodys := func(n Nonce) bool {
			return !slices.ContainsFunc(c.view.Open, func(tx Tx) bool { return *tx.Nonce == n })
		}
		for n := c.nonceAt(c.head); n < cursor.Next && nobodys(n); n++ {
			c.mine(chainBlock{uses: true})
		}
	}
	for _, tx := range c.view.Open {
		ask(Command{Kind: CommandResolve, Action: ActionFail, Tx: tx.ID})
	}
	for _, tx := range c.view.Queue {
		if c.executions(slices.Concat(tx.Attempts, c.lost[tx.ID])) > 0 {
			ask(Command{Kind: CommandCancel, Tx: tx.ID})
		}
	}
	if cursor := c.view.Cursor; cursor != nil && cursor.Protected != nil {
		for _, action := range c.exits {
			ask(Command{Kind: CommandExitProtect, Action: action, Expect: cursor.Protections})
		}
	}
	ask(Command{Kind: CommandResume})
}

// checkOutcome compares an outcome with the chain.
func (c *chained) checkOutcome(t fataler, tx Tx) {
	ran := c.executions(slices.Concat(tx.Attempts, c.lost[tx.ID]))
	switch {
	case tx.Restored && tx.Reason == ReasonRestored: // the ledger cannot know
	case tx.Executed == Success && ran == 0,
		tx.Executed != Success && ran > 0,
		ran > 1 && tx.Reason != ProtectExecutedAfterRequeue:
		t.Fatalf("%s %s %s %q: ran %d times; %v", tx.State, tx.Executed, tx.Reason, tx.LastError,
			ran, c.kinds[tx.ID])
	case tx.Reason == ReasonDeadline && tx.Deadline.IsZero():
		t.Fatalf("it had no deadline: %+v", tx.Status)
	}
}

// executions returns how many of these attempts were executed.
func (c *chained) executions(attempts []Attempt) int {
	blocks := map[Hash]bool{}
	for _, a := range attempts {
		if r := c.included[a.Hash]; r != nil && a.Kind != Cancel && r.Success {
			blocks[r.BlockHash] = true
		}
	}
	return len(blocks)
}

// takeover is a new owner with the ledger alone. The old one crashed; during a broadcast, before it
// recorded the outcome.
func (c *chained) takeover(answer Class) {
	c.audit()
	switch s := Decide(&c.view).(type) {
	case Broadcast:
		c.respond(*s.Attempt, answer)
	case BroadcastRange: // the first ones left
		for _, b := range s.Items[:len(s.Items)/2] {
			c.respond(*b.Attempt, answer)
		}
	}
	c.dropMemory()
}

// dropMemory clears the state that a new owner lacks, and sets its assumptions: see package engine.
func (c *chained) dropMemory() {
	c.view.Account = nil
	c.view.Suspicion = nil
	c.view.NonceUse = nil
	for i := range c.view.Open {
		tx := &c.view.Open[i]
		tx.Turn, tx.Doubted = Turn{}, tx.WasBroadcast()
		if newest := tx.newest(); tx.LastOutcome == "" && newest.Kind != Cancel {
			tx.Pooled = max(tx.Pooled, newest.No)
		}
	}
	for i := range c.view.Queue {
		c.view.Queue[i].RefusedAt, c.view.Queue[i].RefusedSince = 0, time.Time{}
	}
}
