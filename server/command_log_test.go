package server

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// Rejected clients and readers of the submitter see the policy that paused it. The text of an
// operator is visible only to readers of the submitter.
func TestPaused_Reason_OperatorTextHidden(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	refused := func(message string) {
		t.Helper()
		_, err := n.txs.CreateTx(h.ctx,
			&pb.CreateTxRequest{Submitter: "alice", RequestId: "r", Payload: payload()})
		for _, err := range []error{err,
			grpcstatus.ErrorProto(n.batch(&pb.CreateTxRequest{Submitter: "alice", RequestId: "r",
				Payload: payload()})[0].GetError())} {
			s := wantStatus(t, err, codes.FailedPrecondition, "SUBMITTER_PAUSED")
			if !strings.Contains(s.Message(), message) {
				t.Errorf("%v lacks %q", s, message)
			}
		}
	}
	id, err := h.store.AddCommand(h.ctx, o.id,
		store.Ask{Kind: txn.CommandPause, Reason: "moving funds", Operator: "dan"})
	h.must(err)
	o.commit(txn.Change{
		Status:   txn.Paused,
		Commands: []txn.CommandResult{{ID: id, Result: txn.Applied}},
	})
	refused(`"fencepost submitter show alice"`)
	if p := n.submitter().GetPause(); p.GetReason() != "moving funds" || p.GetOperator() != "dan" ||
		p.GetOnFailure() ||
		p.GetTime() == nil {
		t.Errorf("paused: %v", p)
	}
	o.commit(txn.Change{Status: txn.Paused, StatusReason: "transaction x reverted"})
	refused("transaction x reverted")
	if p := n.submitter().GetPause(); p.GetReason() != "transaction x reverted" ||
		p.GetOperator() != "fencepost" ||
		!p.GetOnFailure() {
		t.Errorf("paused: %v", p)
	}
	o.commit(txn.Change{Status: txn.Active})
	if p := n.submitter().GetPause(); p != nil {
		t.Errorf("active: %v", p)
	}
}

// A protection that ended automatically cannot be exited.
func TestListCommands_AutomaticProtection_Listed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	o.commit(
		txn.Change{Protect: &txn.Protection{Reason: txn.ReasonReorgedFinal, Evidence: "block 7"}})
	o.commit(txn.Change{Unprotect: &txn.Unprotection{ID: 1, Reason: "final again"}})
	log, err := n.subs.ListCommands(h.ctx, &pb.ListCommandsRequest{Submitter: "alice"})
	h.must(err)
	if c := log.GetCommands(); len(c) != 2 || c[1].GetKind() != "PROTECT" ||
		c[1].GetAction() != txn.ReasonReorgedFinal || c[1].GetReason() != "block 7" ||
		c[1].GetProtectionId() != 1 ||
		c[0].GetKind() != "EXIT_PROTECT" || c[0].GetAction() != "BY_ITSELF" ||
		c[0].GetProtectionId() != 1 ||
		c[0].GetApplyTime() == nil {
		t.Errorf("recorded %v", c)
	}
	_, err = n.exit(1, resume)
	if s := wantStatus(t, err, codes.Aborted, "PROTECTION_CHANGED"); !strings.Contains(s.Message(),
		"protection 1 ended automatically at 20") {
		t.Errorf("returned %v", s)
	}
}

func TestListCommands_AllSubmitters_OnlyOwn(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	h.register("bob")
	n := h.serve(statusCallers, limits(func(l *Limits) { l.CommandWait = 20 * time.Millisecond }))
	ops := role{token: tokenOf("ops")}.in(h.ctx)
	for _, name := range []string{"alice", "bob", "alice"} {
		ask := &pb.PauseSubmitterRequest{Submitter: name, Reason: "a test"}
		_, err := n.subs.PauseSubmitter(ops, ask) // no owner applies it
		wantStatus(t, err, codes.DeadlineExceeded, "NOT_YET_APPLIED")
		_, err = n.subs.ResumeSubmitter(ops, &pb.ResumeSubmitterRequest{Submitter: name})
		wantStatus(t, err, codes.DeadlineExceeded, "NOT_YET_APPLIED")
	}
	for caller, want := range map[string]string{"ops": "alice bob", "one": "alice"} {
		of, ask := map[string]int{}, &pb.ListCommandsRequest{PageSize: 1}
		last := int64(math.MaxInt64)
		for len(of) == 0 || ask.GetPageToken() != "" {
			page, err := n.subs.ListCommands(role{token: tokenOf(caller)}.in(h.ctx), ask)
			h.must(err)
			for _, c := range page.GetCommands() {
				of[c.GetSubmitter()]++
				if c.GetCommandId() >= last {
					t.Errorf("command %d after %d", c.GetCommandId(), last)
				}
				last = c.GetCommandId()
			}
			ask.PageToken = page.GetNextPageToken()
		}
		names := slices.Sorted(maps.Keys(of))
		if strings.Join(names, " ") != want || of["alice"] < 2 {
			t.Errorf("%s sees the commands %v, want those of %s", caller, of, want)
		}
	}
}
