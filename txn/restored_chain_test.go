package txn

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// savedLedger is the content of a backup.
type savedLedger struct {
	open, queue, ended, final []Tx
	cursor                    *Cursor
	submitter                 Submitter
	gaps                      []Nonce
}

func (c *chained) backup() savedLedger {
	b := savedLedger{
		open:      slices.Clone(c.view.Open),
		queue:     slices.Clone(c.view.Queue),
		ended:     slices.Clone(c.view.NotExecuted),
		final:     slices.Clone(c.final),
		submitter: c.view.Submitter,
		gaps:      slices.Clone(c.gaps),
	}
	if c.view.Cursor != nil {
		cursor := *c.view.Cursor
		b.cursor = &cursor
	}
	return b
}

// restore resets the ledger to a backup, as fencepost recover does. Chain and pools stay.
func (c *chained) restore(b savedLedger, id int64) {
	c.view.Open = b.open
	c.view.Queue = b.queue
	c.view.NotExecuted = b.ended
	c.final = b.final
	c.gaps = b.gaps
	c.view.Submitter = b.submitter
	c.view.Commands = nil
	for _, txs := range [][]Tx{c.view.Open, c.view.Queue} {
		for i := range txs {
			txs[i].Restored = true
		}
	}
	c.dropMemory()
	cursor := *b.cursor
	cursor.Protections = id
	cursor.Protected = &Protected{ID: id, Reason: ProtectRestored, Evidence: "restored"}
	c.view.Cursor = &cursor
}

// An operator left the protection of a restore too early: by a lagging endpoint, or one whose pool
// lacked transactions. Queued transactions may be the consumers of the nonces, and no decision
// without keep-queue sends them.
func TestExitProtect_Restored_AlwaysNeedsKeepQueue(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cancelled bool // the first of three, in the part that was lost
		lost      int  // blocks of it
		action    Action
	}{
		"the chain is ahead":                {false, 12, ActionAlign},
		"the chain is where the cursor is":  {true, 1, ActionResume},
		"aligned, and nothing to pass over": {true, 1, ActionAlign},
	} {
		w := newChained(3, guarded)
		w.salted = true
		for w.view.Cursor == nil {
			w.step(t, Accepted, accepted)
		}
		b, at := w.backup(), len(w.blocks)
		if c.cancelled {
			w.view.Commands = []Command{{ID: 1, Kind: CommandCancel, Tx: w.view.Queue[0].ID}}
		}
		w.wait(t, 0)
		for range c.lost - 1 {
			w.wait(t, 0)
		}
		w.era = 1
		w.restore(b, 1000)
		decide := func(k Command) string {
			k.ID = int64(100 + len(w.results))
			w.view.Commands = []Command{k}
			w.run(t, Accepted, accepted)
			code, _, _ := strings.Cut(w.results[len(w.results)-1].Result, ":")
			return code
		}
		exit := func(action Action, protection int64) string {
			return decide(Command{
				Kind:   CommandExitProtect,
				Action: action,
				Expect: protection,
			})
		}
		w.lag = len(w.blocks) - at
		for _, action := range []Action{ActionResume, ActionAlign} {
			if got := exit(action, 1000); got != ResultRefused {
				t.Fatalf("%s: %s %s", name, action, got)
			}
		}
		if got := exit(ActionResumeKeep, 1000); got != Applied {
			t.Fatalf("%s: %s", name, got)
		}
		w.lag = 0
		for range 2 * int(guarded.AuditDepth) {
			w.mine(chainBlock{})
			w.run(t, Accepted, accepted)
			w.view.Now = w.view.Now.Add(2 * time.Minute)
		}
		if tx := w.view.Open[0]; tx.Reason != ReasonNonceElsewhere {
			t.Fatalf("%s: %+v", name, tx.Status)
		}
		failed := Command{Kind: CommandResolve, Action: ActionFail, Tx: w.view.Open[0].ID}
		if got := decide(failed); got != Applied {
			t.Fatalf("%s: %s", name, got)
		}
		if got := exit(c.action, 1001); got != ResultRefused ||
			len(w.view.Queue) != 2 {
			t.Errorf("%s: %s", name, got)
		}
		if got := exit(ActionAlignKeep, 1001); got != Applied ||
			len(w.view.Open) != 1 {
			t.Errorf("%s, compared: %s", name, got)
		}
	}
}

// Two queued transactions have the same payload. In the lost part the first was cancelled, and the
// second ran under its nonce. The first, signed again, has the same bytes, so the inclusion of the
// second confirms it. No use elsewhere is found that would protect again before the second runs.
// Therefore the operator must compare before leaving the protection of the restore, also when a
// lagging endpoint shows no use.
func TestRestored_SameBytes(t *testing.T) {
	t.Parallel()
	w := newChained(2, guarded) // attempts of one nonce have the same bytes for each transaction
	for w.view.Cursor == nil {
		w.step(t, Accepted, accepted)
	}
	b, at := w.backup(), len(w.blocks)
	first, second := w.view.Queue[0].ID, w.view.Queue[1].ID
	w.view.Commands = []Command{{ID: 1, Kind: CommandCancel, Tx: first}}
	w.wait(t, 0)
	if w.included[Hash{0, 0, 1}] == nil {
		t.Fatal("it has not run")
	}
	w.restore(b, 1000)
	w.lag = len(w.blocks) - at
	decide := func(commands ...Command) string {
		w.view.Commands = commands
		w.run(t, Accepted, accepted)
		return w.results[len(w.results)-1].Result
	}
	for id, action := range []Action{ActionResume, ActionAlign} {
		got := decide(
			Command{ID: int64(id + 2), Kind: CommandExitProtect, Action: action, Expect: 1000})
		if !strings.HasPrefix(got, ResultRefused) || !strings.Contains(got, first.String()) ||
			len(w.view.Queue) != 2 ||
			protected(w.world) == nil {
			t.Fatalf("%s, uncompared: %s", action, got)
		}
	}
	got := decide(Command{ID: 4, Kind: CommandCancel, Tx: second},
		Command{ID: 5, Kind: CommandExitProtect, Action: ActionResumeKeep, Expect: 1000})
	if got != Applied {
		t.Fatal(got)
	}
	w.lag = 0
	for range 20 {
		w.wait(t, 2*time.Minute)
	}
	ends := map[TxID]Executed{}
	for _, tx := range w.final {
		ends[tx.ID] = tx.Executed
	}
	if ends[first] != Success || ends[second] != Unknown || w.nonceAt(w.head) != 1 {
		t.Errorf("%v, and the account's next nonce is %d", ends, w.nonceAt(w.head))
	}
}

// A transaction to be cancelled is on hold under the protection of a restore. Its nonce stays open,
// which prevents align forward. An operator who has compared the queue resumes, and all are final.
func TestRestored_Held_DoesNotBlock(t *testing.T) {
	t.Parallel()
	w := newChained(2, guarded)
	w.salted = true
	for len(w.view.Open) == 0 {
		w.step(t, Accepted, accepted)
	}
	w.restore(w.backup(), 1000)
	held := w.view.Open[0].ID
	w.view.Commands = []Command{{ID: 1, Kind: CommandCancel, Tx: held}}
	for range 5 {
		w.wait(t, time.Hour)
	}
	for id, c := range []struct {
		action Action
		done   bool
	}{{ActionResume, false}, {ActionAlign, false}, {ActionAlignKeep, false},
		{ActionResumeKeep, true}} {
		if len(w.view.Open) != 1 || len(w.view.Queue) != 1 || w.nonceAt(w.head) != 0 {
			t.Fatalf("before %s: %+v, %d queued, account %d", c.action, w.view.Open,
				len(w.view.Queue), w.nonceAt(w.head))
		}
		w.view.Commands = []Command{
			{ID: int64(id + 2), Kind: CommandExitProtect, Action: c.action, Expect: 1000},
		}
		w.run(t, Accepted, accepted)
		if got := w.results[len(w.results)-1].Result; (got == Applied) != c.done {
			t.Errorf("%s: %s", c.action, got)
		}
	}
	for range 20 {
		w.wait(t, 2*time.Minute)
	}
	if len(w.view.Open)+len(w.view.Queue) > 0 || w.nonceAt(w.head) != 2 {
		t.Errorf("open %+v, %d queued, account %d", w.view.Open, len(w.view.Queue),
			w.nonceAt(w.head))
	}
}

// TestDecide_RestoredLedger is TestDecide_AnyChain with a ledger restored to an earlier state over
// unchanged chain and pools. Endpoints lag. A transaction final as not executed has not run by any
// attempt, lost ones included. Nothing runs twice by decisions without keep-queue, and with it
// every transaction is final.
func TestDecide_RestoredLedger(t *testing.T) {
	t.Parallel()
	for _, deepest := range []int{1, 3, 7} {
		t.Run(fmt.Sprintf("reorgs of %d blocks", deepest), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) { restoredChain(t, deepest) })
		})
	}
}

func restoredChain(t *rapid.T, deepest int) {
	c := randomChain(t)
	c.salted = true
	var ids []TxID
	for _, tx := range c.view.Queue {
		ids = append(ids, tx.ID)
	}
	some := func(name string, n int) {
		for i := range rapid.IntRange(0, n).Draw(t, name) {
			c.randomEvent(t, deepest)
			if rapid.IntRange(0, 4).Draw(t, "asked") == 0 {
				k := c.randomCommand(t, int64(i+1), rapid.SampledFrom(ids).Draw(t, "tx"))
				if name == "after" { // no operator has compared
					switch k.Action {
					case ActionRequeueUnproven:
						k.Action = ActionRequeue
					case ActionFailUnproven:
						k.Action = ActionFail
					}
				}
				c.view.Commands = append(c.view.Commands, k)
			}
			c.audit()
			c.everyNonceOnce(t)
		}
	}
	some("before", 40)
	if c.view.Cursor == nil {
		return
	}
	b := c.backup()
	at := len(c.blocks)
	if rapid.Bool().Draw(t, "the head is cancelled") && len(c.view.Queue) > 0 {
		c.view.Commands = append(c.view.Commands,
			Command{ID: 2000, Kind: CommandCancel, Tx: c.view.Queue[0].ID})
	}
	some("lost", 20)
	for range rapid.IntRange(0, 6).Draw(t, "good weather") {
		c.wait(t, 0)
	}
	some("lost too", 20)
	lost := map[TxID][]Attempt{}
	for _, tx := range slices.Concat(c.view.Open, c.view.Queue, c.final) {
		lost[tx.ID] = slices.Clone(tx.Attempts)
	}
	c.era = 1
	c.restore(b, 1000)
	if rapid.Bool().Draw(t, "left at once, behind an endpoint that lags") {
		c.lag = max(0, len(c.blocks)-at)
		c.view.Commands = []Command{
			{ID: 1000, Kind: CommandExitProtect, Action: ActionResume, Expect: 1000},
		}
		c.run(t, Accepted, accepted)
		c.lag = 0
	}
	some("after", 60)
	c.lag = 0
	careful := rapid.Bool().Draw(t, "compares")
	if careful {
		c.exits, c.lost = append(c.exits, ActionResumeKeep, ActionAlignKeep), lost
	}
	c.drain(t)
	c.lost = lost
	for range 10 {
		c.mine(chainBlock{})
		c.run(t, Accepted, accepted)
	}
	c.audit()
	c.everyNonceOnce(t)
	for _, tx := range slices.Concat(c.view.Open, c.view.Queue) {
		if !careful && len(c.view.Queue) > 0 {
			break // all wait for an operator who compares
		}
		t.Fatalf(
			"it never ends: %+v of nonce %v, %v; protected %+v, cursor %d, account %d, last "+
				"results %v",
			tx.Status, tx.Nonce, c.kinds[tx.ID], c.view.Cursor.Protected, c.view.Cursor.Next,
			c.nonceAt(c.head), c.results[max(0, len(c.results)-6):])
	}
	for _, tx := range c.final {
		c.checkOutcome(t, tx)
	}
}
