package txn

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var guarded = Policy{
	Confirmations:    3,
	ReleaseDepth:     1,
	ResubmitInterval: time.Minute,
	ResubmitMax:      4,
	AuditDepth:       12,
	LagGrace:         time.Minute,
}

// sentWorld is a world whose first transaction has nonce 0 and is accepted.
func sentWorld(t *testing.T, queued int) (*world, Broadcast) {
	t.Helper()
	w := newWorld(queued, guarded)
	b := until[Broadcast](t, w)
	w.do(t, b, Outcome{Class: Accepted}, accepted)
	w.view.Account = nil
	return w, b
}

func idle(t *testing.T) *world {
	t.Helper()
	w := newWorld(1, guarded)
	w.view.Cursor = &Cursor{Next: 5, LastBlock: 90}
	w.head = 100
	return w
}

func protected(w *world) *Protected { return w.view.Cursor.Protected }

// settle takes steps until a Rest.
func (w *world) settle(t fataler) {
	t.Helper()
	for range 50 {
		step := Decide(&w.view)
		if _, ok := step.(Rest); ok {
			return
		}
		w.do(t, step, Outcome{Class: Accepted}, accepted)
	}
	t.Fatalf("no end of steps")
}

func TestProtect_KeyUsedElsewhere_SecondRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, second Account
		later         uint64
		want          string // reason of the protection; empty: none
		mined         bool
	}{
		"mined, twice": {Account{Latest: 6, Pending: 6}, Account{Latest: 6, Pending: 6},
			1, ReasonNonceElsewhere, true},
		"in the pool, twice": {Account{Latest: 5, Pending: 6}, Account{Latest: 5, Pending: 6},
			1, ReasonNonceElsewhere, false},
		"pool, then mined": {Account{Latest: 5, Pending: 6}, Account{Latest: 6, Pending: 6},
			1, ReasonNonceElsewhere, true},
		"the same block twice": {Account{Latest: 6, Pending: 6}, Account{Latest: 6, Pending: 6},
			0, "", true},
		"taken back": {Account{Latest: 5, Pending: 6}, Account{Latest: 5, Pending: 5},
			1, "", false},
		"behind is no other use": {Account{Latest: 4, Pending: 4}, Account{Latest: 6, Pending: 6},
			1, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := idle(t)
			w.setAccount(c.first)
			if _, ok := Decide(&w.view).(Investigate); ok || w.view.Suspicion == nil {
				t.Fatalf("one look is enough for %T", Decide(&w.view))
			}
			w.head += c.later
			w.setAccount(c.second)
			step := Decide(&w.view)
			if _, ok := step.(Investigate); ok != (c.want != "" && c.mined) {
				t.Fatalf("%T %+v", step, step)
			}
			w.consumer = &Consumer{Block: 99, BlockHash: Hash{9}, TxHash: Hash{0xee}}
			w.do(t, step, Outcome{}, accepted)
			if got := protected(w); (got != nil) != (c.want != "") ||
				got != nil &&
					(got.Reason != c.want || !strings.Contains(got.Evidence, "block 100") ||
						!strings.Contains(got.Evidence, "block 101")) {
				t.Fatalf("%+v", got)
			}
			if c.want != "" &&
				strings.Contains(protected(w).Evidence, Hash{0xee}.Hex()) != c.mined {
				t.Fatal(protected(w).Evidence)
			}
		})
	}
}

func TestProtect_ChainBehind_AfterLagGrace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lastBlock uint64
		wait      time.Duration
		want      bool
	}{
		"long, at blocks that have it": {90, 2 * time.Minute, true},
		"not long":                     {90, 30 * time.Second, false},
		"below the block that had it":  {101, 2 * time.Minute, false},
		"no block is known":            {0, 2 * time.Minute, false},
	} {
		w := idle(t)
		w.view.Cursor.LastBlock = c.lastBlock
		w.setAccount(Account{Latest: 4, Pending: 4, Settled: 4})
		w.head++
		w.view.Now = w.view.Now.Add(c.wait)
		w.setAccount(Account{Latest: 4, Pending: 4, Settled: 4})
		w.do(t, Decide(&w.view), Outcome{}, accepted)
		if got := protected(w); (got != nil) != c.want ||
			got != nil && got.Reason != ReasonChainBehind {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A chain that lost blocks is first seen below the ledger's block, and grows past it.
func TestProtect_ChainLostBlocks(t *testing.T) {
	t.Parallel()
	w := idle(t)
	w.view.Cursor.LastBlock = 105
	behind := func(head uint64, wait time.Duration) {
		t.Helper()
		w.head = head
		w.view.Now = w.view.Now.Add(wait)
		w.setAccount(Account{Latest: 4, Pending: 4, Settled: 4})
		w.do(t, Decide(&w.view), Outcome{}, accepted)
	}
	for _, at := range []uint64{101, 104, 105, 106} {
		if behind(at, 50*time.Second); protected(w) != nil {
			t.Fatalf("protected at block %d: %s", at, protected(w).Evidence)
		}
	}
	if behind(107, 50*time.Second); protected(w) == nil ||
		protected(w).Reason != ReasonChainBehind {
		t.Fatalf("%+v", protected(w))
	}
}

func TestFinding_RefutedByOwnTransaction(t *testing.T) {
	t.Parallel()
	tx := Tx{Attempts: []Attempt{{Hash: Hash{1}}, {Hash: Hash{2}}}}
	for name, c := range map[string]struct {
		tx   *Tx
		by   *Consumer
		want bool
	}{
		"ours":                      {&tx, &Consumer{TxHash: Hash{2}}, true},
		"another's":                 {&tx, &Consumer{TxHash: Hash{3}}, false},
		"an authorization":          {&tx, &Consumer{}, false},
		"not known":                 {&tx, nil, false},
		"about no transaction":      {nil, &Consumer{TxHash: Hash{2}}, false},
		"about none, by an unknown": {nil, nil, false},
	} {
		if got := (Finding{Tx: c.tx}).RefutedBy(c.by); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestLostNonce_Protects(t *testing.T) {
	t.Parallel()
	w, b := sentWorld(t, 2)
	w.elsewhere = 1
	doubt := func(settled Nonce) Step {
		w.head++
		w.view.Now = w.view.Now.Add(2 * time.Minute)
		w.do(t, until[Broadcast](t, w), Outcome{Class: NonceTooLow}, accepted)
		if _, ok := Decide(&w.view).(ReadAccount); !ok {
			t.Fatalf("a used nonce is not investigated: %T", Decide(&w.view))
		}
		w.setAccount(Account{Latest: 1, Pending: 1, Settled: settled})
		return Decide(&w.view)
	}
	for range 3 {
		if _, ok := doubt(0).(Rest); !ok {
			t.Fatalf("%T while the other use is not settled", Decide(&w.view))
		}
	}
	if _, ok := doubt(1).(Investigate); !ok {
		t.Fatalf("%T when it is", Decide(&w.view))
	}
	unsure := *w
	unsure.view.Inclusion = func(Hash) Inclusion { return Inclusion{} }
	behind := *w
	behind.view.Head--
	for _, v := range []View{unsure.view, behind.view} {
		if step, ok := Decide(&v).(Investigate); ok {
			t.Fatalf("%+v before the receipts are known up to there", step)
		}
	}
	w.do(t, Decide(&w.view), Outcome{}, accepted)
	tx := w.view.Open[0]
	if protected(w) == nil || tx.State != Stuck || tx.Reason != ReasonNonceElsewhere ||
		tx.Released ||
		tx.ID != b.Tx.ID ||
		w.kindCount(EventStuck) != 2 {
		t.Fatalf("%+v %+v", protected(w), tx.Status)
	}
	w.settle(t)
	w.view.Now = w.view.Now.Add(time.Hour)
	again, ok := w.afterClaim(t).(Broadcast) // continues under protection with the same bytes
	if !ok || again.Attempt.Hash != b.Attempt.Hash || len(w.nonces) != 1 {
		t.Fatalf("%T", Decide(&w.view))
	}
}

// TestProtect_OwnUse_EvidenceRefuted includes the attempt of a transaction that seemed to have lost
// its nonce. The protection ends once that is final, unless something else was found meanwhile.
func TestProtect_OwnUse_EvidenceRefuted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		meanwhile func(*world)
		lifted    bool
	}{
		"nothing else": {func(*world) {}, true},
		"a cancel":     {func(w *world) { w.view.Queue[0].CancelRequested = true }, true},
		"an operator's protect": {func(w *world) {
			w.view.Commands = []Command{{ID: 7, Kind: CommandProtect, Reason: "key leaked"}}
		}, false},
		"an auditor's violation": {func(w *world) {
			w.view.Commands = []Command{{ID: 7, Kind: CommandProtect, Action: ProtectByAudit,
				Reason: "L2: two transactions with nonce 0"}}
		}, false},
		"lost commits": {func(w *world) { w.view.Lost = "version 3 is missing" }, false},
		"its block not compared": {func(w *world) {
			w.view.Canonical = func(uint64) (Hash, bool) { return Hash{}, false }
		}, false},
		"another protection": {func(w *world) {
			guard := *w.view.Cursor.Protected
			guard.Tx = TxID{9}
			w.view.Cursor.Protected = &guard
		}, false},
		"an operator's decision": {func(w *world) {
			guard := *w.view.Cursor.Protected
			guard.Tx = TxID{}
			w.view.Cursor.Protected = &guard
		}, false},
		"a queue from before a restore": {func(w *world) {
			w.view.Queue[0].Restored = true
		}, false},
		"an execution before a requeue": {func(w *world) {
			w.view.Queue[0].Reason = ProtectExecutedAfterRequeue
		}, false},
		"its own requeue": {func(w *world) { w.view.Open[0].Requeued = 1 }, false},
	} {
		w, b := sentWorld(t, 2)
		w.elsewhere = 1
		for protected(w) == nil {
			w.head++
			w.view.Now = w.view.Now.Add(2 * time.Minute)
			step := Decide(&w.view)
			w.do(t, step, Outcome{Class: NonceTooLow}, accepted)
		}
		if protected(w).Tx != b.Tx.ID {
			t.Fatalf("%s: protected for %s", name, protected(w).Tx)
		}
		w.view.Canonical = func(n uint64) (Hash, bool) { return w.blockHash(n), true }
		c.meanwhile(w)
		w.include(b.Attempt.Hash, true)
		for range 20 {
			step := Decide(&w.view)
			if _, rests := step.(Rest); rests || protected(w) == nil {
				break
			}
			if r, ok := step.(Record); ok && r.Change.Unprotect != nil &&
				(len(w.final) == 0 || r.Change.Unprotect.To != w.view.Cursor.Next) {
				t.Errorf("%s: lifted before it is final, or skips", name)
			}
			w.head++
			w.do(t, step, Outcome{Class: NonceTooLow}, accepted)
			if p := protected(w); p != nil && p.Reason == ProtectRestored {
				w.view.Lost = ""
			}
			w.head += policy.Confirmations
			w.view.Audited = nil
			for i := range w.final {
				if tx := &w.final[i]; tx.Receipt != nil {
					w.view.Audited = append(w.view.Audited, tx.Finished())
				}
			}
		}
		if lifted := protected(w) == nil; lifted != c.lifted {
			t.Errorf("%s: lifted %t; %+v", name, lifted, w.final)
		}
	}
}

// A transaction that left its block has lost it to our own reorg, for any response.
func TestProtect_OwnReorg_NotElsewhere(t *testing.T) {
	t.Parallel()
	w, b := sentWorld(t, 1)
	w.view.Now = w.view.Now.Add(2 * time.Minute)
	w.include(b.Attempt.Hash, true)
	w.unknown[b.Attempt.Hash] = true // the receipt is late
	w.view.Open[0].Doubted = true
	w.setAccount(Account{Latest: 1, Pending: 1, Settled: 0})
	delete(w.unknown, b.Attempt.Hash)
	w.settle(t)
	delete(w.included, b.Attempt.Hash)
	w.head++
	w.view.Head = w.head
	w.settle(t)
	if protected(w) != nil || w.kindCount(EventReorged) != 1 || w.kindCount(EventStuck) != 0 {
		t.Fatalf("%+v %v", protected(w), w.kinds)
	}
}

// A provider that accepts everything never returns nonce-too-low.
func TestProtect_UsedElsewhere_FoundByRebroadcast(t *testing.T) {
	t.Parallel()
	for name, bump := range map[string]BumpPolicy{"the same bytes": nil,
		"another attempt each time": always{}} {
		w, _ := sentWorld(t, 1)
		w.view.Policy.Bump = bump
		w.elsewhere = 1
		for range 6 {
			w.head++
			w.view.Head = w.head
			w.view.Now = w.view.Now.Add(2 * time.Minute)
			w.do(t, until[Broadcast](t, w), Outcome{Class: AlreadyKnown}, accepted)
			w.settle(t)
		}
		if protected(w) == nil || w.view.Open[0].Reason != ReasonNonceElsewhere ||
			len(w.view.Open[0].Attempts) > 1 != (bump != nil) {
			t.Fatalf("%s: %+v %+v", name, protected(w), w.view.Open[0].Status)
		}
	}
}

// TestDecide_AnyOtherKeyUse adds random foreign use of the key and operators who decide all the
// time. No nonce is used twice or skipped without a record, and no transaction whose nonce was used
// elsewhere is reported as executed.
func TestDecide_AnyOtherKeyUse(t *testing.T) {
	t.Parallel()
	classes := []Class{
		Accepted,
		AlreadyKnown,
		NonceTooLow,
		Unavailable,
		Ambiguous,
		ReplacementUnderpriced,
	}
	rapid.Check(t, func(t *rapid.T) {
		queued := rapid.IntRange(1, 4).Draw(t, "queued")
		w := newWorld(queued, guarded)
		stolen := map[Nonce]bool{}
		steps := rapid.IntRange(1, 120).Draw(t, "steps")
		for i := range steps {
			switch rapid.IntRange(0, 9).Draw(t, "event") {
			case 0:
				w.view.Now = w.view.Now.Add(
					time.Duration(rapid.IntRange(1, 90).Draw(t, "seconds")) * time.Second)
			case 1:
				w.head++
				w.view.Head = w.head
			case 2: // a foreign transaction gets the next nonce into a block
				if n := w.onChain(); w.view.Cursor != nil {
					stolen[n] = true
					w.elsewhere = n + 1
				}
			case 3: // one of ours is included if its nonce is free
				for _, tx := range w.view.Open {
					if *tx.Nonce == w.onChain() && !stolen[*tx.Nonce] && tx.SubmitAttempts > 0 {
						w.include(tx.newest().Hash, true)
					}
				}
			case 4:
				w.view.Commands = append(w.view.Commands, w.randomDecision(t, int64(i+1)))
			default:
				w.do(t, Decide(&w.view),
					Outcome{Class: rapid.SampledFrom(classes).Draw(t, "answer")}, accepted)
			}
			w.everyNonceOnce(t)
		}
		for _, tx := range w.final {
			if tx.Executed == Success && stolen[*tx.Nonce] ||
				tx.Executed == No && w.included[tx.newest().Hash] != nil {
				t.Fatalf("nonce %d: %+v, used elsewhere: %v", *tx.Nonce, tx.Status, stolen)
			}
		}
	})
}

func (w *world) randomDecision(t *rapid.T, id int64) Command {
	c := Command{
		ID:     id,
		Kind:   rapid.SampledFrom(CommandKinds[3:]).Draw(t, "kind"),
		Reason: "why not",
		Expect: 1,
	}
	switch c.Kind {
	case CommandExitProtect:
		c.Action = rapid.SampledFrom([]Action{ActionResume, ActionAlign}).Draw(t, "decision")
		if w.view.Cursor != nil {
			c.Expect = w.view.Cursor.Protections
		}
	case CommandResolve:
		c.Action, c.Tx = rapid.SampledFrom([]Action{ActionFail, ActionRequeue}).Draw(t,
			"decision"), w.randomTx(t)
	}
	return c
}

// everyNonceOnce checks that transactions and gaps cover each nonce below the cursor exactly once.
func (w *world) everyNonceOnce(t fataler) {
	t.Helper()
	if w.view.Cursor == nil {
		return
	}
	used := map[Nonce]string{}
	use := func(n Nonce, by string) {
		if used[n] != "" || n >= w.view.Cursor.Next {
			t.Fatalf("nonce %d: %s and %s, cursor %d", n, used[n], by, w.view.Cursor.Next)
		}
		used[n] = by
	}
	for _, tx := range slices.Concat(w.view.Open, w.final) {
		if tx.Nonce != nil {
			use(*tx.Nonce, fmt.Sprintf("%s %s", tx.ID, tx.State))
		}
	}
	for _, n := range w.gaps {
		use(n, "a gap")
	}
	if len(used) != int(w.view.Cursor.Next-w.view.Cursor.Init) {
		t.Fatalf("%d numbers are accounted for, the cursor went from %d to %d", len(used),
			w.view.Cursor.Init, w.view.Cursor.Next)
	}
}
