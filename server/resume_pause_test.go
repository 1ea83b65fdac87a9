package server

import (
	"testing"

	"google.golang.org/grpc/codes"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/txn"
)

// A resume that names a pause ends no other one: neither one that is in force when it is requested,
// nor one that the owner finds when it applies it.
func TestResumeSubmitter_PauseID_OtherPauseStays(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	get := func() *pb.Submitter {
		r, err := n.subs.GetSubmitter(h.ctx, &pb.GetSubmitterRequest{Submitter: "alice"})
		h.must(err)
		return r.GetSubmitter()
	}
	resume := func(pause int64) error {
		_, err := n.subs.ResumeSubmitter(h.ctx,
			&pb.ResumeSubmitterRequest{Submitter: "alice", PauseId: pause})
		return err
	}
	// decide applies the next command with this result, as an owner would.
	decide := func(result string, status txn.SubmitterStatus) {
		var commands []txn.Command
		h.eventually("a command is recorded", func() bool {
			commands = o.commands()
			return len(commands) > 0
		})
		o.commit(txn.Change{Status: status,
			Commands: []txn.CommandResult{{ID: commands[0].ID, Result: result}}})
	}
	h.must(resume(7)) // it is active: there is no other pause that this could end
	o.commit(txn.Change{Status: txn.Paused, StatusReason: "r1 reverted"})
	first := get().GetPause().GetPauseId()
	if first == 0 {
		t.Fatalf("the pause has no number: %v", get().GetPause())
	}
	wantStatus(t, resume(first+1), codes.Aborted, "PAUSE_CHANGED")
	if got := h.count("submitter_command"); got != 1 {
		t.Errorf("%d commands, want only the pause", got)
	}
	changed := make(chan error, 1)
	go func() { changed <- resume(first) }()
	decide(txn.ResultPauseChanged, "")
	wantStatus(t, <-changed, codes.Aborted, "PAUSE_CHANGED")
	go func() { changed <- resume(first) }()
	decide(txn.Applied, txn.Active)
	h.must(<-changed)
	if s := get().GetStatus(); s != pb.SubmitterStatus_SUBMITTER_STATUS_ACTIVE {
		t.Errorf("status %v", s)
	}
}
