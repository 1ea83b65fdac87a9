package server

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// Who asked for what, and why, is told by ListCommands, whatever it was; a cancel in the queue, for which no owner is asked, only if its caller says so.
func TestWhoAskedIsRecorded(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	o := k.own(k.register("alice"))
	n := k.serve()
	quiet, queued, taken := n.create("alice", "r1").GetTxId(), n.create("alice", "r2").GetTxId(), n.create("alice", "r3").GetTxId()
	o.allocate(txID(t, taken))
	o.deciding(at(0))
	for _, c := range []*pb.CancelTxRequest{
		{TxId: quiet},
		{TxId: queued, Reason: "not needed", Operator: "ann"},
		{TxId: queued, Reason: "again", Operator: "bea"}, // it is cancelled: nothing is done for this one
		{TxId: taken, Reason: "wrong amount", Operator: "cat"},
	} {
		_, err := n.txs.CancelTx(k.ctx, c)
		k.must(err)
	}
	_, err := n.subs.PauseSubmitter(k.ctx, &pb.PauseSubmitterRequest{Submitter: "alice", Reason: "moving funds", Operator: "dan"})
	k.must(err)
	_, err = n.subs.ResumeSubmitter(k.ctx, &pb.ResumeSubmitterRequest{Submitter: "alice", Reason: "moved", Operator: "eve"})
	k.must(err)
	_, err = n.subs.UpdateSubmitter(k.ctx, &pb.UpdateSubmitterRequest{
		Submitter: "alice", MaxFee: "7", UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"max_fee"}}, Reason: "too dear", Operator: "fay",
	})
	k.must(err)
	log, err := n.subs.ListCommands(k.ctx, &pb.ListCommandsRequest{Submitter: "alice"})
	k.must(err)
	told := []string{}
	for _, c := range slices.Backward(log.GetCommands()) {
		told = append(told, fmt.Sprintf("%s %s %q by %s: %s", c.GetKind(), c.GetTxId(), c.GetReason(), c.GetOperator(), c.GetResult()))
	}
	want := []string{
		`CANCEL ` + queued + ` "not needed" by ann: APPLIED`, `CANCEL ` + taken + ` "wrong amount" by cat: APPLIED`, `PAUSE  "moving funds" by dan: APPLIED`,
		`RESUME  "moved" by eve: APPLIED`, `UPDATE  "too dear" by fay: APPLIED`,
	}
	if !slices.Equal(told, want) {
		t.Errorf("recorded\n%q, want\n%q", told, want)
	}
}
