package store

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/fencepost/fencepost/txn"
)

// log is the record of a submitter, oldest first: kind, action, protection, reason and operator.
func (k *kit) log(s *Store, id txn.SubmitterID) (list []string) {
	k.t.Helper()
	commands, err := s.Commands(k.ctx, id, 0, 100)
	k.must(err)
	for _, c := range commands {
		if c.Result != txn.Applied || c.AppliedAt.IsZero() || c.CreatedAt.IsZero() {
			k.t.Errorf("%+v is not decided", c)
		}
		list = append(
			[]string{
				fmt.Sprintf("%s %s %d: %s (%s)", c.Kind, c.Action, c.Expect, c.Reason, c.Operator),
			},
			list...)
	}
	return list
}

func (k *kit) ask(s *Store, id txn.SubmitterID, ask Ask) []txn.CommandResult {
	k.t.Helper()
	command, err := s.AddCommand(k.ctx, id, ask)
	k.must(err)
	return []txn.CommandResult{{ID: command, Result: txn.Applied}}
}

// TestCommit_OwnerPauses_CommandRecorded records the owner's own decision next to requested ones,
// once, and only with the commit that applies it.
func TestCommit_OwnerPauses_CommandRecorded(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l, _ := k.protected(s, "alice")
	k.want(
		k.commit(s, l,
			txn.Change{Protect: &txn.Protection{Expect: 1, Reason: "OTHER", Evidence: "x"}}),
		Conflict,
	)
	k.done(s, l, txn.Change{
		Unprotect: &txn.Unprotection{ID: 1, Expect: 1, To: 1, Reason: "looked into",
			ByCommand: true},
		Commands: k.ask(
			s,
			id,
			Ask{
				Kind:     txn.CommandExitProtect,
				Action:   txn.ActionResume,
				Expect:   1,
				Reason:   "looked into",
				Operator: "ann",
			},
		),
	})
	k.done(
		s,
		l,
		txn.Change{
			Protect: &txn.Protection{
				Expect:   1,
				Reason:   txn.ReasonReorgedFinal,
				Evidence: "block 7",
			},
		},
	)
	k.done(
		s,
		l,
		txn.Change{
			Unprotect: &txn.Unprotection{ID: 2, Expect: 1, To: 1, Reason: "all is final again"},
		},
	)
	k.done(s, l, txn.Change{
		Protect: &txn.Protection{
			Expect:    1,
			Reason:    txn.ProtectByOperator,
			Evidence:  "stop",
			ByCommand: true,
		},
		Commands: k.ask(s, id, Ask{Kind: txn.CommandProtect, Reason: "stop", Operator: "bea"}),
	})
	k.done(s, l, txn.Change{Status: txn.Paused, StatusReason: "r1 reverted"})
	k.want(k.commit(s, l, txn.Change{Status: txn.Active, StatusReason: "no pause"}), Refused)
	want := []string{
		"PROTECT NONCE_USED_ELSEWHERE 1: seen twice (fencepost)", "EXIT_PROTECT RESUME 1: looked " +
			"into (ann)", "PROTECT REORGED_AFTER_FINAL 2: block 7 (fencepost)",
		"EXIT_PROTECT BY_ITSELF 2: all is final again (fencepost)", "PROTECT  3: stop (bea)",
		"PAUSE ON_FAILURE 0: r1 reverted (fencepost)",
	}
	if got := k.log(s, id); !reflect.DeepEqual(got, want) {
		t.Errorf("recorded\n%q, want\n%q", got, want)
	}
}

// TestSubmitter_Paused_ReportsWhy: the pause of the policy is reported before an operator's, and no
// pause from before the last resume.
func TestSubmitter_Paused_ReportsWhy(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	id, l := k.owned(s, "alice")
	pause := func(operator string) txn.Change {
		return txn.Change{
			Status: txn.Paused,
			Commands: k.ask(s, id,
				Ask{Kind: txn.CommandPause, Reason: operator + "'s", Operator: operator}),
		}
	}
	resume := func() txn.Change {
		return txn.Change{Status: txn.Active, Commands: k.ask(s, id, Ask{Kind: txn.CommandResume})}
	}
	own := txn.Change{Status: txn.Paused, StatusReason: "r1 reverted"}
	late := resume() // asked for before the policy's pause, and carried out after it
	for i, step := range []struct {
		change txn.Change
		want   string
	}{
		{txn.Change{}, ""}, {own, "r1 reverted by fencepost true"},
		{pause("ann"), "r1 reverted by fencepost true"}, {late, ""},
		{pause("bea"), "bea's by bea false"}, {pause("cat"), "cat's by cat false"},
		{own, "r1 reverted by fencepost true"}, {resume(), ""},
	} {
		k.done(s, l, step.change)
		info, err := s.Submitter(k.ctx, id)
		k.must(err)
		got := ""
		if p := info.Pause; p != nil {
			got = fmt.Sprintf("%s by %s %v", p.Reason, p.Operator, p.OnFailure)
		}
		if got != step.want || info.Pause != nil && info.Pause.At.IsZero() {
			t.Errorf("step %d: paused because of %q, want %q", i, got, step.want)
		}
	}
}
