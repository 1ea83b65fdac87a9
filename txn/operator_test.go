package txn

import (
	"slices"
	"strings"
	"testing"
)

// runCommand adds a command, gives the owner a view of the account, and returns the result.
func (w *world) runCommand(t *testing.T, c Command, a Account) string {
	t.Helper()
	c.ID = 77
	w.view.Commands = []Command{c}
	if look, ok := Decide(&w.view).(ReadAccount); ok {
		if look.CommandID != 77 {
			t.Fatalf("%+v", look)
		}
		a.CommandID = look.CommandID
		w.setAccount(a)
	}
	if _, ok := Decide(&w.view).(FindConsumer); ok {
		w.do(t, Decide(&w.view), Outcome{}, accepted)
	}
	w.do(t, Decide(&w.view), Outcome{}, accepted)
	if len(w.view.Commands) != 0 {
		t.Fatalf("%+v has no result", w.view.Commands)
	}
	return w.results[len(w.results)-1].Result
}

// RESOLVE bumps or cancels a STUCK transaction as the commands do, and refuses one that is not.
func TestResolve_BumpAndCancel(t *testing.T) {
	t.Parallel()
	for action, kind := range map[Action]AttemptKind{ActionBump: Bump, ActionCancel: Cancel} {
		w, b := sentWorld(t, 1)
		ask := Command{
			Kind:   CommandResolve,
			Action: action,
			Tx:     b.Tx.ID,
			Expect: w.view.Open[0].Version,
		}
		if got := w.runCommand(t, ask, Account{}); !strings.HasPrefix(got, ResultRefused) ||
			len(w.view.Open[0].Attempts) != 1 {
			t.Errorf("%s while not STUCK: %s", action, got)
		}
		w.exhaustAttempts(t)
		if got := w.runCommand(t, ask, Account{}); !strings.HasPrefix(got, ResultRefused) {
			t.Errorf("%s at an old version: %s", action, got)
		}
		ask.Expect = w.view.Open[0].Version
		if got := w.runCommand(t, ask, Account{}); got != Applied {
			t.Errorf("%s: %s", action, got)
		}
		w.do(t, until[Broadcast](t, w), Outcome{Class: Accepted}, accepted)
		tx := w.view.Open[0]
		if len(tx.Attempts) != 2 || tx.newest().Kind != kind ||
			tx.CancelRequested != (kind == Cancel) {
			t.Errorf("%s: %+v", action, tx)
		}
	}
}

func TestExitProtect(t *testing.T) {
	t.Parallel()
	agree := Account{Latest: 5, Pending: 5, Settled: 5}
	ahead := Account{Latest: 8, Pending: 8, Settled: 8}
	for name, c := range map[string]struct {
		action Action
		id     int64
		a      Account
		want   string
		next   Nonce
	}{
		"resume":                 {ActionResume, 1, agree, Applied, 5},
		"resume, used meanwhile": {ActionResume, 1, ahead, ResultRefused, 5},
		"resume, used in the pool": {ActionResume, 1,
			Account{Latest: 5, Pending: 6, Settled: 5}, ResultRefused, 5},
		"resume, chain behind": {ActionResume, 1,
			Account{Latest: 4, Pending: 4, Settled: 4}, ResultRefused, 5},
		"align":                  {ActionAlign, 1, ahead, Applied, 8},
		"align, nothing to skip": {ActionAlign, 1, agree, Applied, 5},
		"align, not settled": {ActionAlign, 1,
			Account{Latest: 8, Pending: 8, Settled: 7}, ResultRefused, 5},
		"align, more in the pool": {ActionAlign, 1,
			Account{Latest: 8, Pending: 9, Settled: 8}, ResultRefused, 5},
		"align, chain behind": {ActionAlign, 1,
			Account{Latest: 4, Pending: 4, Settled: 4}, ResultRefused, 5},
		"about another protection":       {ActionAlign, 2, ahead, ResultProtectionChanged, 5},
		"a decision of a newer program":  {"SHRUG", 1, ahead, ResultUnknownCommand, 5},
		"an id that was never given out": {ActionResume, 0, agree, ResultProtectionChanged, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := idle(t)
			w.view.Cursor.Protections, w.view.Cursor.Protected = 1, &Protected{
				ID:       1,
				Reason:   ReasonNonceElsewhere,
				Evidence: "seen",
			}
			got := w.runCommand(
				t,
				Command{
					Kind:   CommandExitProtect,
					Action: c.action,
					Expect: c.id,
					Reason: "reviewed",
				},
				c.a,
			)
			if code, _, _ := strings.Cut(got, ":"); code != c.want ||
				w.view.Cursor.Next != c.next ||
				(protected(w) == nil) != (c.want == Applied) {
				t.Fatalf("%s; cursor %+v", got, w.view.Cursor)
			}
			if len(w.gaps) != int(c.next-5) {
				t.Fatalf("gaps %v", w.gaps)
			}
		})
	}
}

// Skipped nonces are permanent, so their consumers must be as deep as for a FAIL: the audit depth,
// or finality where that is deeper.
func TestExitProtect_Align_UsesAuditDepth(t *testing.T) {
	t.Parallel()
	for _, audited := range []uint64{0, guarded.AuditDepth} {
		for action, depth := range map[Action]uint64{ActionResume: guarded.Confirmations,
			ActionResumeKeep: guarded.Confirmations,
			ActionAlign:      max(audited, guarded.Confirmations),
			ActionAlignKeep:  max(audited, guarded.Confirmations)} {
			w := idle(t)
			w.view.Policy.AuditDepth = audited
			w.view.Cursor.Protections, w.view.Cursor.Protected = 1, &Protected{
				ID:     1,
				Reason: ReasonNonceElsewhere,
			}
			w.view.Commands = []Command{
				{ID: 5, Kind: CommandExitProtect, Action: action, Expect: 1},
			}
			if look, ok := Decide(&w.view).(ReadAccount); !ok || look.Depth != depth ||
				look.CommandID != 5 {
				t.Errorf("%s, audited %d deep: %+v", action, audited, Decide(&w.view))
			}
		}
	}
}

func TestExitProtect_NotProtected(t *testing.T) {
	t.Parallel()
	if got := idle(t).runCommand(t,
		Command{Kind: CommandExitProtect, Action: ActionResume, Expect: 1},
		Account{}); got != ResultNotProtected {
		t.Fatal(got)
	}
}

// lostNonce is a world under protection whose transaction has lost nonce 0.
func lostNonce(t *testing.T) *world {
	t.Helper()
	w, _ := sentWorld(t, 2)
	w.elsewhere, w.consumer = 1, &Consumer{Block: 50, BlockHash: Hash{5}, TxHash: Hash{0xee}}
	f := Finding{Reason: ReasonNonceElsewhere, Nonce: 0, Tx: &w.view.Open[0], Evidence: "seen"}
	w.apply(t, Investigated(&w.view, Investigate{f}, nil))
	return w
}

func TestExitProtect_InFlight(t *testing.T) {
	t.Parallel()
	for _, action := range []Action{ActionResume, ActionAlign} {
		w := lostNonce(t)
		got := w.runCommand(t, Command{Kind: CommandExitProtect, Action: action, Expect: 1},
			Account{Latest: 1, Pending: 1, Settled: 1})
		if !strings.HasPrefix(got, ResultRefused) ||
			!strings.Contains(got, w.view.Open[0].ID.String()) {
			t.Errorf("%s: %s", action, got)
		}
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	used := Account{Latest: 1, Pending: 1, Settled: 1}
	for name, c := range map[string]struct {
		action Action
		a      Account
		before func(*world)
		want   string
	}{
		"fail":    {ActionFail, used, nil, Applied},
		"requeue": {ActionRequeue, used, nil, Applied},
		"fail, not settled": {ActionFail, Account{Latest: 1, Pending: 1}, nil,
			ResultRefused},
		"requeue, not settled": {ActionRequeue, Account{Latest: 1, Pending: 1}, nil,
			ResultRefused},
		"fail, included": {ActionFail, used,
			func(w *world) { w.include(w.view.Open[0].newest().Hash, true) }, ResultRefused},
		"fail, not STUCK": {ActionFail, used,
			func(w *world) { w.view.Open[0].State = Tracking }, Applied},
		"fail, not STUCK, not settled": {ActionFail, Account{Latest: 1, Pending: 1},
			func(w *world) { w.view.Open[0].State = Tracking }, ResultRefused},
		"requeue, on its way": {ActionRequeue, used,
			func(w *world) { w.view.Open[0].State = Tracking }, ResultRefused},
		"requeue, to be cancelled": {ActionRequeue, used,
			func(w *world) { w.view.Open[0].CancelRequested = true }, ResultRefused},
		"requeue, cancelled by its deadline": {ActionRequeue, used,
			func(w *world) { w.view.Open[0].Attempts[0].Kind = Cancel }, ResultRefused},
		"fail, consumer unknown": {ActionFail, used,
			func(w *world) { w.consumer = nil }, ResultRefused},
		"requeue, consumer unknown": {ActionRequeue, used,
			func(w *world) { w.consumer = nil }, ResultRefused},
		"fail, known otherwise": {ActionFailUnproven, used,
			func(w *world) { w.consumer = nil }, Applied},
		"requeue, known otherwise": {ActionRequeueUnproven, used,
			func(w *world) { w.consumer = nil }, Applied},
		"fail, used by an authorization": {ActionFail, used,
			func(w *world) { w.consumer = &Consumer{Block: 9} }, Applied},
		"fail, it ran": {ActionFail, used,
			func(w *world) { w.consumer = &Consumer{TxHash: w.view.Open[0].newest().Hash} },
			ResultRefused},
		"requeue unproven, executed": {ActionRequeueUnproven, used,
			func(w *world) { w.consumer = &Consumer{TxHash: w.view.Open[0].newest().Hash} },
			ResultRefused},
		"another decision": {"SHRUG", used, nil, ResultUnknownCommand},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := lostNonce(t)
			if c.before != nil {
				c.before(w)
			}
			id := w.view.Open[0].ID
			got := w.runCommand(t, Command{Kind: CommandResolve, Action: c.action, Tx: id}, c.a)
			if code, _, _ := strings.Cut(got, ":"); code != c.want ||
				(len(w.view.Open) == 0) != (c.want == Applied) {
				t.Fatalf("%s; %+v", got, w.view.Open)
			}
		})
	}
	for _, off := range []int64{-1, 1, 0} {
		w := lostNonce(t)
		tx := w.view.Open[0]
		got := w.runCommand(t,
			Command{Kind: CommandResolve, Action: ActionFail, Tx: tx.ID, Expect: tx.Version + off},
			used)
		if code, _, _ := strings.Cut(got, ":"); (code == Applied) != (off == 0) ||
			(len(w.view.Open) == 0) != (off == 0) {
			t.Errorf("a decision about version %d of one of version %d: %s", tx.Version+off,
				tx.Version, got)
		}
	}
	w := lostNonce(t)
	if got := w.runCommand(t,
		Command{Kind: CommandResolve, Action: ActionFail, Tx: w.view.Queue[0].ID},
		used); !strings.HasPrefix(
		got, ResultRefused) {
		t.Errorf("a queued transaction was resolved: %s", got)
	}
}

// The owner reads at the depth of the decision, and waits until the receipts are known again.
func TestResolve_DeepRead_Waits(t *testing.T) {
	t.Parallel()
	for _, action := range []Action{ActionFail, ActionRequeue, ActionFailUnproven,
		ActionRequeueUnproven} {
		w := lostNonce(t)
		w.view.Commands = []Command{
			{ID: 5, Kind: CommandResolve, Action: action, Tx: w.view.Open[0].ID},
		}
		look, ok := Decide(&w.view).(ReadAccount)
		if !ok || look.Depth != guarded.AuditDepth || look.CommandID != 5 ||
			look.Tx.ID != w.view.Open[0].ID {
			t.Fatalf("%s: %+v", action, look)
		}
		w.setAccount(Account{Latest: 1, Pending: 1, Settled: 1, CommandID: 5})
		hash := w.view.Open[0].newest().Hash
		w.unknown[hash] = true
		if _, ok := Decide(&w.view).(Rest); !ok {
			t.Fatalf("%s: %T while a receipt is not known", action, Decide(&w.view))
		}
		delete(w.unknown, hash)
		w.do(t, Decide(&w.view).(FindConsumer), Outcome{}, accepted)
		if r, ok := Decide(&w.view).(Record); !ok || r.Change.Commands[0].Result != Applied {
			t.Fatalf("%s: %+v", action, Decide(&w.view))
		}
	}
}

func TestRequeue_RunsUnderNewNonce(t *testing.T) {
	t.Parallel()
	w := lostNonce(t)
	id, old := w.view.Open[0].ID, w.view.Open[0].newest().Hash
	w.runCommand(t, Command{Kind: CommandResolve, Action: ActionRequeue, Tx: id},
		Account{Latest: 1, Pending: 1, Settled: 1})
	if w.view.Queue[0].ID != id || w.view.Queue[0].Requeued != 1 ||
		!slices.Equal(w.gaps, []Nonce{0}) {
		t.Fatalf("%+v, gaps %v", w.view.Queue[0].Status, w.gaps)
	}
	w.runCommand(t, Command{Kind: CommandExitProtect, Action: ActionResume, Expect: 1},
		Account{Latest: 1, Pending: 1, Settled: 1})
	attempts := w.view.Queue[0].Attempts
	w.setAccount(Account{Latest: 1, Pending: 1, Settled: 1})
	for _, c := range []func(){
		func() { w.view.Queue[0].Attempts = nil }, // not yet read by a new owner
		func() { w.unknown[old] = true },
	} {
		c()
		if _, ok := Decide(&w.view).(Rest); !ok {
			t.Fatalf("%T before it is known that the old attempt is in no block", Decide(&w.view))
		}
		w.view.Queue[0].Attempts = attempts
		delete(w.unknown, old)
	}
	p, ok := Decide(&w.view).(Prepare)
	if !ok || p.Nonce != 1 || p.Tx.ID != id {
		t.Fatalf("%+v", Decide(&w.view))
	}
	w.do(t, p, Outcome{}, accepted)
	if tx := w.view.Open[0]; len(tx.Attempts) != 2 || tx.Attempts[1].No != 2 || *tx.Nonce != 1 {
		t.Fatalf("%+v", tx)
	}
	w.include(old, true) // a reorg below the audit depth: the old bytes run
	w.head++
	w.do(t, Decide(&w.view), Outcome{}, accepted)
	if got := protected(w); got == nil || got.Reason != ProtectExecutedAfterRequeue ||
		w.view.Open[0].Receipt != nil {
		t.Fatalf("%+v %+v", got, w.view.Open[0].Status)
	}
}

func TestProtect_Command(t *testing.T) {
	t.Parallel()
	w := newWorld(1, guarded)
	if got := w.runCommand(t, Command{Kind: CommandProtect, Reason: "moving keys"},
		Account{}); !strings.HasPrefix(got, ResultNotStarted) {
		t.Error(got)
	}
	w = idle(t)
	if got := w.runCommand(t, Command{Kind: CommandProtect, Reason: "moving keys"},
		Account{}); got != Applied ||
		protected(w).Reason != ProtectByOperator ||
		protected(w).Evidence != "moving keys" {
		t.Errorf("%s %+v", got, protected(w))
	}
	if got := w.runCommand(t, Command{Kind: CommandProtect, Action: ProtectByAudit, Reason: "L4"},
		Account{}); got != ResultAlreadyProtected ||
		protected(w).ID != 1 {
		t.Errorf("%s %+v", got, protected(w))
	}
}

func TestExitProtect_AccountUnreadable_Refused(t *testing.T) {
	t.Parallel()
	w := lostNonce(t)
	w.view.Commands = []Command{{ID: 5, Kind: CommandExitProtect, Action: ActionResume, Expect: 1}}
	look := Decide(&w.view).(ReadAccount)
	w.apply(t, AccountReadFailed(&w.view, look, "down"))
	if len(w.view.Commands) != 0 || protected(w) == nil ||
		!strings.HasPrefix(w.results[0].Result, ResultRefused) {
		t.Fatalf("%+v %+v", w.results, protected(w))
	}
}

// A transaction queued at the time of the backup may have run since. Resuming would run it again,
// at the chain's nonce as well as at the cursor's, behind a lagging endpoint.
func TestExitProtect_RestoredQueue_NeedsKeepQueue(t *testing.T) {
	t.Parallel()
	agree, ahead := Account{
		Latest:  5,
		Pending: 5,
		Settled: 5,
	}, Account{
		Latest:  8,
		Pending: 8,
		Settled: 8,
	}
	const both = "RESUME_KEEP_QUEUE if the account's next nonce is 5, as here, or " +
		"ALIGN_FORWARD_KEEP_QUEUE"
	for name, c := range map[string]struct {
		action Action
		reason string
		queued bool
		a      Account
		want   string
		says   string
	}{
		"queued": {ActionAlign, ProtectRestored, true, ahead, ResultRefused,
			both},
		"queued, compared": {ActionAlignKeep, ProtectRestored, true, ahead, Applied,
			""},
		"none queued": {ActionAlign, ProtectRestored, false, ahead, Applied, ""},
		"no restore": {ActionAlign, ReasonNonceElsewhere, true, ahead, Applied,
			""},
		"no restore, compared": {ActionAlignKeep, ReasonNonceElsewhere, true, ahead,
			Applied, ""},
		"resume, queued": {ActionResume, ProtectRestored, true, agree, ResultRefused,
			both},
		"resume, queued, chain ahead": {ActionResume, ProtectRestored, true, ahead, ResultRefused,
			both},
		"resume, compared": {ActionResumeKeep, ProtectRestored, true, agree, Applied,
			""},
		"resume, compared, ahead": {ActionResumeKeep, ProtectRestored, true, ahead,
			ResultRefused, "align forward (ALIGN_FORWARD_KEEP_QUEUE) once"},
		"resume, compared, behind": {ActionResumeKeep, ProtectRestored, true,
			Account{Latest: 4, Pending: 4, Settled: 4}, ResultRefused, "all below 5"},
		"resume, none queued": {ActionResume, ProtectRestored, false, agree, Applied, ""},
		"resume, none queued, ahead": {ActionResume, ProtectRestored, false, ahead,
			ResultRefused, "align forward (ALIGN_FORWARD) once"},
		"resume, no restore": {ActionResume, ReasonNonceElsewhere, true, agree, Applied,
			""},
		"resume, no restore, compared": {ActionResumeKeep, ReasonNonceElsewhere, true, agree,
			Applied, ""},
	} {
		w := idle(t)
		w.view.Cursor.Protections, w.view.Cursor.Protected = 1, &Protected{
			ID:       1,
			Reason:   c.reason,
			Evidence: "seen",
		}
		if !c.queued {
			w.view.Queue = nil
		}
		got := w.runCommand(t,
			Command{Kind: CommandExitProtect, Action: c.action, Expect: 1, Reason: "reviewed"},
			c.a)
		if code, _, _ := strings.Cut(got, ":"); code != c.want || !strings.Contains(got, c.says) ||
			c.want == Applied && w.view.Cursor.Next != c.a.Latest {
			t.Errorf("%s: %s; cursor %+v", name, got, w.view.Cursor)
		}
	}
}

// A transaction in flight does not block an account with a restored queue. Align forward is
// refused, but resume with keep-queue works.
func TestExitProtect_RestoredQueue_InFlight(t *testing.T) {
	t.Parallel()
	unused, used := Account{}, Account{Latest: 1, Pending: 1, Settled: 1}
	for _, reason := range []string{ProtectRestored, ProtectByOperator} {
		for name, c := range map[string]struct {
			action Action
			a      Account
			says   string // empty: applied
		}{
			"resume": {ActionResume, unused, "RESUME_KEEP_QUEUE if the " +
				"account's next nonce is 0"},
			"align": {ActionAlign, unused, "RESUME_KEEP_QUEUE if the " +
				"account's next nonce is 0"},
			"align, compared": {ActionAlignKeep, unused, "holds nonce 0 and is in no " +
				"block; resolve it first"},
			"resume, compared": {ActionResumeKeep, unused, ""},
			"resume, its nonce used": {ActionResume, used, "is used on chain (next nonce 1); " +
				"resolve the transaction"},
			"align, its nonce used": {ActionAlign, used, "is used on chain (next nonce 1); " +
				"resolve the transaction"},
			"resume, compared, used": {ActionResumeKeep, used, "is used on chain (next nonce " +
				"1); resolve the transaction"},
			"align, compared and used": {ActionAlignKeep, used, "is used on chain (next nonce " +
				"1); resolve the transaction"},
		} {
			w, _ := sentWorld(t, 2)
			restoredWorld(w).view.Cursor.Protected = &Protected{
				ID:       1,
				Reason:   reason,
				Evidence: "seen",
			}
			got := w.runCommand(t,
				Command{Kind: CommandExitProtect, Action: c.action, Expect: 1}, c.a)
			if (got == Applied) != (c.says == "") || (protected(w) == nil) != (c.says == "") ||
				!strings.Contains(got, c.says) {
				t.Errorf("%s, %s: %s", reason, name, got)
			}
		}
	}
}

// A foreign use of its nonce does not permit a REQUEUE of a transaction that is not STUCK: it may
// be in flight, and is tracked first.
func TestResolve_NotStuck_NotRequeued(t *testing.T) {
	t.Parallel()
	for _, action := range []Action{ActionRequeue, ActionRequeueUnproven} {
		w := newWorld(1, guarded)
		b := until[Broadcast](t, w) // recorded, not broadcast yet
		w.elsewhere, w.consumer = *b.Tx.Nonce+1, &Consumer{Block: 50, TxHash: Hash{0xee}}
		if got := w.runCommand(t, Command{Kind: CommandResolve, Action: action, Tx: b.Tx.ID},
			ahead); !strings.HasPrefix(got, ResultRefused) ||
			w.view.Open[0].Nonce == nil {
			t.Errorf("%s: %s", action, got)
		}
	}
}

// A FAIL before the loss is found rests on the nonce alone. It then protects the submitter until an
// operator decides on that as well (L10). An included transaction is tracked first.
func TestResolve_FailBeforeLossFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before *Protected
		want   string
	}{
		"not protected":     {nil, ReasonNonceElsewhere},
		"one that ends":     {&Protected{ID: 1, Reason: ReasonReorgedFinal}, ReasonNonceElsewhere},
		"one that does not": {&Protected{ID: 1, Reason: ProtectByOperator}, ProtectByOperator},
		"as it would itself": {&Protected{ID: 1, Reason: ReasonNonceElsewhere},
			ReasonNonceElsewhere},
	} {
		w := newWorld(1, guarded)
		b := until[Broadcast](t, w)
		w.view.Cursor.Protected = c.before
		w.elsewhere, w.consumer = 1, &Consumer{Block: 50, TxHash: Hash{0xee}}
		got := w.runCommand(t,
			Command{Kind: CommandResolve, Action: ActionFail, Tx: b.Tx.ID}, ahead)
		if got != Applied || len(w.final) != 1 || w.final[0].Executed != No ||
			protected(w) == nil ||
			protected(w).Reason != c.want {
			t.Errorf("%s: %s, %+v, %+v", name, got, w.final, protected(w))
		}
		w.settle(t)
		if p := protected(w); p == nil || p.Reason != c.want {
			t.Errorf("%s: %+v without a decision to leave it", name, p)
		}
	}
	w, b := sentWorld(t, 1)
	w.include(b.Attempt.Hash, true)
	w.settle(t)
	delete(w.included, b.Attempt.Hash)
	w.elsewhere = 1
	w.view.Commands = []Command{{ID: 1, Kind: CommandResolve, Action: ActionFail, Tx: b.Tx.ID}}
	w.do(t, until[ReadAccount](t, w), Outcome{}, accepted)
	w.do(t, Decide(&w.view), Outcome{}, accepted)
	if tx := w.view.Open[0]; tx.Receipt != nil || w.kindCount(EventReorged) != 1 {
		t.Errorf("%+v", tx.Status)
	}
}

// A decision that waits for the chain delays no protect, pause or cancel. Commands that need the
// chain wait behind it, and every command waits behind an exit from protection.
func TestCommands_WaitingDecision_OthersProceed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		behind []CommandKind
		want   []CommandKind // applied meanwhile
	}{
		"all that never wait": {[]CommandKind{CommandPause, CommandCancel, CommandProtect,
			CommandUpdate, CommandResume, "SHRUG"},
			[]CommandKind{CommandPause, CommandCancel, CommandProtect, CommandUpdate,
				CommandResume}},
		"waiting commands": {[]CommandKind{CommandResolve, CommandSpeedUp,
			CommandCancel}, []CommandKind{CommandCancel}},
		"behind a decision": {[]CommandKind{CommandCancel, CommandExitProtect,
			CommandProtect}, []CommandKind{CommandCancel}},
	} {
		w := lostNonce(t)
		id := w.view.Open[0].ID
		w.unknown[w.view.Open[0].newest().Hash] = true // an outage
		w.view.Commands = []Command{{ID: 1, Kind: CommandResolve, Action: ActionFail, Tx: id}}
		for i, kind := range c.behind {
			w.view.Commands = append(w.view.Commands,
				Command{ID: int64(i + 2), Kind: kind, Tx: id, Expect: 1})
		}
		w.settle(t)
		var got []CommandKind
		for _, r := range w.results {
			got = append(got, c.behind[r.ID-2])
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// A decision without the old state it needs is refused with a remedy other than a retry.
func TestResolve_OldStateMissing(t *testing.T) {
	t.Parallel()
	for action, words := range map[Action]string{
		ActionFail: "use FAIL_UNPROVEN", ActionRequeue: "use REQUEUE_UNPROVEN",
		ActionFailUnproven: "3 blocks below the head; use one that keeps",
		ActionAlign:        "3 blocks below the head; use one that keeps",
	} {
		w := lostNonce(t)
		c := Command{ID: 5, Kind: CommandResolve, Action: action, Tx: w.view.Open[0].ID}
		if action == ActionAlign {
			c = Command{ID: 5, Kind: CommandExitProtect, Action: action, Expect: 1}
		}
		w.view.Commands = []Command{c}
		look := Decide(&w.view).(ReadAccount)
		proven := action == ActionFail || action == ActionRequeue
		if proven != (look.MinDepth == 0) || look.Depth != guarded.AuditDepth {
			t.Errorf("%s: %+v", action, look)
		}
		w.apply(t, OldStateMissing(&w.view, look))
		if got := w.results[0].Result; !strings.HasPrefix(got, ResultRefused) ||
			!strings.Contains(got, words) ||
			strings.Contains(got, "retry later") {
			t.Errorf("%s: %s", action, got)
		}
	}
}

// An outage does not prove that no endpoint has the state: a decision by proof is refused as
// retryable.
func TestResolve_ConsumerUnavailable(t *testing.T) {
	t.Parallel()
	for action, want := range map[Action]string{ActionFail: "retry later",
		ActionRequeue: "retry later", ActionFailUnproven: "", ActionRequeueUnproven: ""} {
		w := lostNonce(t)
		tx := w.view.Open[0]
		for unanswered, wantPart := range map[bool]string{true: want,
			false: strings.Replace(want, "retry later", "keeps older state", 1)} {
			if got := consumerDoubt(NonceUse{Unavailable: unanswered}, &tx,
				Command{Action: action}); !strings.Contains(
				got, wantPart) ||
				(wantPart == "") != (got == "") {
				t.Errorf("%s, unanswered %t: %q", action, unanswered, got)
			}
		}
	}
}

// A stream of EXIT_PROTECT must not delay the receipt without which each of them is refused.
func TestExitProtect_ReceiptKnown_RecordedFirst(t *testing.T) {
	t.Parallel()
	w, b := sentWorld(t, 1)
	w.view.Cursor.Protections, w.view.Cursor.Protected = 1, &Protected{
		ID:     1,
		Reason: ProtectByOperator,
	}
	w.include(b.Attempt.Hash, true)
	w.view.Commands = []Command{
		{ID: 5, Kind: CommandExitProtect, Action: ActionResume, Expect: 1},
	}
	record, ok := Decide(&w.view).(Record)
	if !ok || len(record.Change.Writes) != 1 ||
		record.Change.Writes[0].Kind != EventIncluded {
		t.Fatalf("%+v", Decide(&w.view))
	}
}

// The account is read for the decision, and a receipt of a later block arrives before it is made.
func TestExitProtect_ReceiptAfterRead_Applied(t *testing.T) {
	t.Parallel()
	w, b := sentWorld(t, 1)
	w.view.Cursor.Protections, w.view.Cursor.Protected = 1, &Protected{
		ID:     1,
		Reason: ProtectByOperator,
	}
	w.view.Commands = []Command{
		{ID: 5, Kind: CommandExitProtect, Action: ActionResume, Expect: 1},
	}
	if step, ok := Decide(&w.view).(ReadAccount); !ok {
		t.Fatalf("%+v", step)
	}
	n := *w.view.Open[0].Nonce
	w.setAccount(Account{Latest: n, Pending: n + 1, Settled: n, CommandID: 5})
	w.include(b.Attempt.Hash, true)
	w.do(t, Decide(&w.view), Outcome{}, Preparation{}) // records the receipt
	decided, ok := Decide(&w.view).(Record)
	if !ok || len(decided.Change.Commands) != 1 || decided.Change.Commands[0].Result != Applied {
		t.Fatalf("%+v", Decide(&w.view))
	}
}
