package txn

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestDecide_AnyChain drives queues over a chain that is mined by anybody and undone at any moment,
// through any answers, with callers and operators who ask for anything; endpoints lag, receipts are
// late, and owners crash. Nothing loops without rest; no number is used twice or skipped
// unrecorded; and once the weather clears and an operator decides, everything ends, and says of
// itself what the chain says: that it ran, and how often. Reorgs go as deep as what is in blocks,
// past finality, and past what is audited.
func TestDecide_AnyChain(t *testing.T) {
	t.Parallel()
	for _, deepest := range []int{3, 7, 40} {
		for i := range 3 {
			t.Run(fmt.Sprintf("reorgs of %d blocks/%d", deepest, i), func(t *testing.T) {
				t.Parallel()
				rapid.Check(t, func(t *rapid.T) { anyChain(t, deepest) })
			})
		}
	}
}

func anyChain(t *rapid.T, deepest int) {
	c := anyChained(t)
	var ids []TxID
	for _, tx := range c.view.Queue {
		ids = append(ids, tx.ID)
	}
	for i := range rapid.IntRange(1, 150).Draw(t, "steps") {
		c.weather(t, deepest)
		if rapid.IntRange(0, 4).Draw(t, "asked") == 0 {
			c.view.Commands = append(c.view.Commands,
				c.anyCommand(t, int64(i+1), rapid.SampledFrom(ids).Draw(t, "tx")))
		}
		c.audit()
		c.everyNumberOnce(t)
	}
	c.clears(t)
	for range 10 {
		c.mine(chainBlock{})
		c.run(t, Accepted, accepted)
	}
	c.audit()
	c.everyNumberOnce(t)
	for _, tx := range slices.Concat(c.view.Open, c.view.Queue) {
		t.Fatalf(
			"it never ends: %+v of nonce %v, %v; %d forms; protected %+v, cursor %d, account %d, "+
				"last results %v",
			tx.Status, tx.Nonce, c.kinds[tx.ID], len(tx.Attempts), c.view.Cursor.Protected,
			c.view.Cursor.Next, c.nonceAt(c.head), c.results[max(0, len(c.results)-6):])
	}
	for _, tx := range c.final {
		c.truth(t, tx)
	}
}

// anyChained is a queue under any policy.
func anyChained(t *rapid.T) *chained {
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
	c := newChained(rapid.IntRange(1, 4).Draw(t, "queued"), p)
	c.answer = rapid.SampledFrom([]StuckAction{StuckWait, StuckRetry, StuckBump, StuckCancel}).Draw(
		t, "policy says")
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

// weather is one thing that happens.
func (c *chained) weather(t *rapid.T, deepest int) {
	switch rapid.IntRange(0, 15).Draw(t, "weather") {
	case 0:
		c.view.Now = c.view.Now.Add(
			time.Duration(rapid.IntRange(1, 90).Draw(t, "seconds")) * time.Second)
	case 1, 2:
		for range rapid.IntRange(1, 9).Draw(t, "blocks") {
			c.mine(chainBlock{})
		}
	case 3:
		if c.view.Cursor != nil { // before that it is no use elsewhere
			c.mine(chainBlock{uses: true})
		}
	case 4, 5:
		c.minePool(rapid.Bool().Draw(t, "success"), rapid.IntRange(0, 5).Draw(t, "which"))
	case 6:
		c.drop(rapid.IntRange(1, deepest).Draw(t, "reorg"), deepest)
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
				"answer that nobody heard",
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

// anyCommand is what somebody asks for.
func (c *chained) anyCommand(t *rapid.T, id int64, tx TxID) Command {
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

// clears is good weather, with an operator who decides now and then, until nothing is left.
func (c *chained) clears(t *rapid.T) {
	c.pruned, c.lag = false, 0
	clear(c.unknown)
	id := int64(1000)
	for round := range 120 {
		c.wait(t, 2*time.Minute)
		if len(c.view.Open)+len(c.view.Queue) == 0 && round > 20 {
			return
		}
		if round%6 == 5 && len(c.view.Commands) == 0 {
			c.decide(t, &id)
		}
	}
}

// decide is an operator who ends what has lost its nonce, leaves the protection and resumes; and
// fills by hand the nonces that are nobody's, which the chain has lost.
func (c *chained) decide(t *rapid.T, id *int64) {
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
		if c.ran(slices.Concat(tx.Attempts, c.lost[tx.ID])) > 0 {
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

// truth compares an end with the chain.
func (c *chained) truth(t *rapid.T, tx Tx) {
	ran := c.ran(slices.Concat(tx.Attempts, c.lost[tx.ID]))
	switch {
	case tx.Restored && tx.Reason == ReasonRestored: // nobody can tell
	case tx.Executed == Success && ran == 0,
		tx.Executed != Success && ran > 0,
		ran > 1 && tx.Reason != ProtectExecutedAfterRequeue:
		t.Fatalf("%s %s %s %q: ran %d times; %v", tx.State, tx.Executed, tx.Reason, tx.LastError,
			ran, c.kinds[tx.ID])
	case tx.Reason == ReasonDeadline && tx.Deadline.IsZero():
		t.Fatalf("it had no deadline: %+v", tx.Status)
	}
}

// ran is how many of these forms ran.
func (c *chained) ran(forms []Attempt) int {
	blocks := map[Hash]bool{}
	for _, a := range forms {
		if r := c.included[a.Hash]; r != nil && a.Kind != Cancel && r.Success {
			blocks[r.BlockHash] = true
		}
	}
	return len(blocks)
}

// takeover is another owner, who has the ledger alone. The one before it crashed, if it was handing
// something over, before it had written down what was answered.
func (c *chained) takeover(answer Class) {
	c.audit()
	if b, ok := Decide(&c.view).(Broadcast); ok {
		c.given(*b.Attempt, answer)
	}
	c.forgetAll()
}

// forgetAll is what a new owner does not know, and what it assumes of that: see package engine.
func (c *chained) forgetAll() {
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
		c.view.Queue[i].RefusedAt = 0
	}
}
