package server

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/holiman/uint256"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/txn"
)

// TestApproveTx_Rights: a transaction above the limit awaits a caller with the right, which is
// never the one that created it.
func TestApproveTx_Rights(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	alice := []string{"alice"}
	policy := &txn.CallerPolicy{ApproveAbove: uint256.NewInt(4), ApprovalTime: time.Hour}
	n := h.serve(func(o *Options) {
		o.Callers = []auth.Caller{
			{Name: "shop", Submitters: alice, Policy: policy, Operator: true},
			{Name: "clerk", Submitters: alice},
			{Name: "desk", Submitters: alice, Approve: true},
			{Name: "other", Submitters: []string{"bob"}, Approve: true},
			{Name: "boss", Submitters: []string{auth.AllSubmitters}, Operator: true},
		}
		for i := range o.Callers {
			o.Callers[i].Tokens = []string{o.Callers[i].Name + "-0123456789abcdef"}
		}
	})
	as := func(name string) context.Context {
		return metadata.AppendToOutgoingContext(h.ctx, "authorization",
			"Bearer "+name+"-0123456789abcdef")
	}
	create := func(id, value string) *pb.Tx {
		t.Helper()
		made, err := n.txs.CreateTx(as("shop"), createRequest("alice", id, value))
		h.must(err)
		return made.GetTx()
	}
	const awaits = pb.TxSubState_TX_SUB_STATE_AWAITING_APPROVAL
	if tx := create("small", "4"); tx.GetSubState() == awaits {
		t.Errorf("at the limit: %v", tx)
	}
	tx := create("large", "5")
	if tx.GetState() != pb.TxState_TX_STATE_QUEUED || tx.GetSubState() != awaits {
		t.Fatalf("above the limit: %v", tx)
	}
	for name, want := range map[string]int{"shop": 1, "clerk": 1, "other": 0, "boss": 1} {
		list, err := n.txs.ListTxs(as(name), &pb.ListTxsRequest{AwaitingApproval: true})
		h.must(err)
		if got := list.GetTxs(); len(got) != want || want > 0 && got[0].GetTxId() != tx.GetTxId() {
			t.Errorf("awaiting, for %s: %v", name, got)
		}
		status, err := n.status.GetStatus(as(name), &pb.GetStatusRequest{})
		h.must(err)
		if got := status.GetCaller().GetApprove(); got != (name != "clerk") {
			t.Errorf("%s may approve: %v", name, got)
		}
		totals := status.GetTotals()
		oldest := totals.GetOldestApprovalTime()
		if totals.GetAwaitingApproval() != int64(want) || (oldest != nil) != (want > 0) ||
			want > 0 && !proto.Equal(oldest, tx.GetCreateTime()) {
			t.Errorf("%s: %v", name, totals)
		}
	}
	approve := &pb.ApproveTxRequest{TxId: tx.GetTxId(), Reason: "invoice"}
	deny := &pb.DenyTxRequest{TxId: tx.GetTxId()}
	for _, name := range []string{"shop", "clerk", "other"} {
		_, err := n.txs.ApproveTx(as(name), approve)
		wantStatus(t, err, codes.PermissionDenied, "PERMISSION_DENIED")
		_, err = n.txs.DenyTx(as(name), deny)
		wantStatus(t, err, codes.PermissionDenied, "PERMISSION_DENIED")
	}
	for range 2 { // a repeated call has the same answer
		approved, err := n.txs.ApproveTx(as("desk"), approve)
		h.must(err)
		if got := approved.GetTx(); got.GetState() != pb.TxState_TX_STATE_QUEUED ||
			got.GetSubState() == awaits || got.GetVersion() != 2 {
			t.Errorf("approved: %v", got)
		}
	}
	_, err := n.txs.DenyTx(as("boss"), deny)
	wantStatus(t, err, codes.FailedPrecondition, "DECISION_REFUSED")

	tx = create("larger", "6")
	n.http("POST", "/api/v1/tx/"+tx.GetTxId()+"/deny", `{"reason":"typo"}`, "Authorization",
		"Bearer boss-0123456789abcdef")
	got, err := n.txs.GetTx(as("shop"), byID(tx.GetTxId()))
	h.must(err)
	if got.GetTx().GetState() != pb.TxState_TX_STATE_FAILED_FINAL ||
		got.GetTx().GetReason() != txn.ReasonApprovalDenied || !got.GetTx().GetRetrySafe() {
		t.Errorf("denied: %v", got)
	}
	n.http("POST", "/api/v1/tx/"+tx.GetTxId()+"/approve", `{}`, "Authorization",
		"Bearer desk-0123456789abcdef").
		wantError(t, http.StatusBadRequest, codes.FailedPrecondition, "DECISION_REFUSED")
}
