package server

import (
	"strings"
	"testing"

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
