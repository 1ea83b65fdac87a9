package main

import (
	"slices"
	"strings"
	"testing"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/txn"
)

// restored protects the account as "fencepost recover" does, and returns the commands that
// "submitter show" proposes for it.
func (l *ledger) restored() (exits string) {
	l.t.Helper()
	l.commit(
		txn.Change{
			Protect: &txn.Protection{Expect: 0, Reason: txn.ProtectRestored, Evidence: "restored"},
		},
	)
	_, exits, _ = strings.Cut(l.good("submitter", "show", "alice"),
		"No nonce is allocated until you decide:\n")
	return exits
}

// typeAll runs the commands that were shown, except cancels, and returns the decisions among them.
func (l *ledger) typeAll(exits, queued string) (decided []string) {
	l.t.Helper()
	for line := range strings.Lines(exits) {
		typed, _, _ := strings.Cut(strings.TrimSpace(line), "   # ")
		args := strings.Fields(strings.ReplaceAll(typed, `"..."`, "looked"))
		if len(args) < 3 || args[0] != "fencepost" || args[1] == "tx" && args[2] == "cancel" {
			continue
		}
		switch out, errs, code := l.start(args[1:]...).end(); {
		case args[1] == "tx":
			if code != exitDone || !strings.Contains(out, queued) {
				l.t.Errorf("%s gave %d: %s%s", typed, code, out, errs)
			}
		case len(decided) == 0 && code != exitDone:
			l.t.Errorf("%s gave %d: %s%s", typed, code, out, errs)
		default: // the first ended it; each of the others is another decision
			if len(decided) > 0 && !strings.Contains(errs, "(PROTECTION_CHANGED)") {
				l.t.Errorf("%s gave %d: %s%s", typed, code, out, errs)
			}
			decided = append(decided, strings.Join(args[8:], " "))
		}
	}
	return decided
}

// TestExits_EveryCommandLineWorks: the commands in "submitter show" work unchanged and cover every
// decision, without those that the owner would refuse after a restore.
func TestExits_EveryCommandLineWorks(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	queued := l.create("r1")
	l.deciding(0)
	exits := l.restored()
	for _, plain := range []string{"--resume", "--align-forward"} {
		l.bad(exitFailed,
			"(DECISION_REFUSED)",
			"submitter", "exit-protect", "alice", "--protection", "1", "--reason", "x", plain)
	}
	decided := l.typeAll(strings.ReplaceAll(exits, "TX_ID", queued), queued)
	if !strings.Contains(exits, "fencepost tx cancel TX_ID\n") {
		t.Errorf("no command cancels a transaction:\n%s", exits)
	}
	if out := l.good("submitter", "log", "alice"); !strings.Contains(out,
		"EXIT_PROTECT RESUME_KEEP_QUEUE (protection 1)") {
		t.Errorf("the log is\n%s", out)
	}
	l.good("tx", "cancel", queued)
	decided = append(decided, l.typeAll(l.restored(), "")...)
	if want := []string{
		"--resume --keep-queue", "--align-forward --keep-queue", "--resume", "--align-forward",
	}; !slices.Equal(
		decided, want) ||
		len(want) != len(pb.ProtectionDecision_name)-1 {
		t.Errorf("exits %q, want %q; printed\n%s", decided, want, exits)
	}
}
