package server

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
)

// A cancellation of a queued transaction, which needs no owner, is recorded only if it has an
// operator, a reason or a caller.
func TestListCommands_OperatorAndReason_Recorded(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	n := h.serve()
	quiet := n.create("alice", "r1").GetTxId()
	queued, taken := n.create("alice", "r2").GetTxId(), n.create("alice", "r3").GetTxId()
	o.allocate(txID(t, taken))
	o.runDecisions(at(0))
	for _, c := range []*pb.CancelTxRequest{
		{TxId: quiet},
		{TxId: queued, Reason: "not needed", Operator: "ann"},
		// a cancelled transaction needs no command
		{TxId: queued, Reason: "again", Operator: "bea"},
		{TxId: taken, Reason: "wrong amount", Operator: "cat"},
	} {
		_, err := n.txs.CancelTx(h.ctx, c)
		h.must(err)
	}
	_, err := n.subs.PauseSubmitter(h.ctx,
		&pb.PauseSubmitterRequest{Submitter: "alice", Reason: "moving funds", Operator: "dan"})
	h.must(err)
	_, err = n.subs.ResumeSubmitter(h.ctx,
		&pb.ResumeSubmitterRequest{Submitter: "alice", Reason: "moved", Operator: "eve"})
	h.must(err)
	_, err = n.subs.UpdateSubmitter(h.ctx, &pb.UpdateSubmitterRequest{
		Submitter: "alice", MaxFee: "7",
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"max_fee"}}, Reason: "too dear",
		Operator: "fay",
	})
	h.must(err)
	log, err := n.subs.ListCommands(h.ctx, &pb.ListCommandsRequest{Submitter: "alice"})
	h.must(err)
	received := []string{}
	for _, c := range slices.Backward(log.GetCommands()) {
		received = append(
			received,
			fmt.Sprintf("%s %s %q by %s: %s", c.GetKind(), c.GetTxId(), c.GetReason(),
				c.GetOperator(), c.GetResult()),
		)
	}
	want := []string{
		`CANCEL ` + queued + ` "not needed" by ann: APPLIED`,
		`CANCEL ` + taken + ` "wrong amount" by cat: APPLIED`,
		`PAUSE  "moving funds" by dan: APPLIED`,
		`RESUME  "moved" by eve: APPLIED`, `UPDATE  "too dear" by fay: APPLIED`,
	}
	if !slices.Equal(received, want) {
		t.Errorf("recorded\n%q, want\n%q", received, want)
	}
}

// The ledger has the operator that a client names; the log has the authenticated caller, at the
// default level, without reason or payload.
func TestLog_Decision_NamesCaller(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := h.own(h.register("alice"))
	log := &buffer{}
	ivo := auth.Caller{
		Name:       "ivo",
		Tokens:     []string{"ivo-0123456789abcdef"},
		Submitters: []string{auth.AllSubmitters},
		Operator:   true,
	}
	n := h.serve(func(o *Options) {
		o.Callers, o.Logger = []auth.Caller{
			ivo,
		}, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelInfo}))
	})
	ctx := role{token: ivo.Tokens[0]}.in(h.ctx)
	r, err := n.txs.CreateTx(ctx, createRequest("alice", "r1", "0"))
	h.must(err)
	id := r.GetTx().GetTxId()
	r, err = n.txs.CreateTx(ctx, createRequest("alice", "r2", "0"))
	h.must(err)
	queued := r.GetTx().GetTxId()
	o.allocate(txID(t, id))
	o.runDecisions(at(0))
	_, err = n.txs.CancelTx(ctx, &pb.CancelTxRequest{TxId: id, Reason: "secret", Operator: "root"})
	h.must(err)
	_, err = n.txs.CancelTx(ctx,
		&pb.CancelTxRequest{TxId: queued, Reason: "secret", Operator: "root"})
	h.must(err)
	for _, tx := range []string{id, queued} {
		got, err := n.txs.GetTx(ctx, &pb.GetTxRequest{Key: &pb.GetTxRequest_TxId{TxId: tx},
			View: pb.TxView_TX_VIEW_OPERATOR})
		h.must(err)
		if caller := got.GetTx().GetOperator().GetCaller(); caller != "ivo" {
			t.Errorf("transaction %s was created by caller %q", tx, caller)
		}
	}
	_, err = n.subs.PauseSubmitter(ctx,
		&pb.PauseSubmitterRequest{Submitter: "alice", Reason: "secret", Operator: "root"})
	h.must(err)
	_, err = n.subs.UpdateSubmitter(ctx, &pb.UpdateSubmitterRequest{
		Submitter: "alice", MaxFee: "7",
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"max_fee"}}, Reason: "secret",
		Operator: "root",
	})
	h.must(err)
	_, err = n.subs.RegisterSubmitter(ctx, &pb.RegisterSubmitterRequest{
		Name:    "dora",
		ChainId: uint64(chainID),
		Address: recipient,
		Signer:  "local",
	})
	h.must(err)
	commands, err := n.subs.ListCommands(ctx, &pb.ListCommandsRequest{Submitter: "alice"})
	h.must(err)
	of := map[string]int64{}
	for _, c := range commands.GetCommands() {
		of[c.GetKind()+c.GetTxId()] = c.GetCommandId()
		if c.GetCaller() != "ivo" || c.GetOperator() != "root" {
			t.Errorf("command %s by caller %q, operator %q", c.GetKind(), c.GetCaller(),
				c.GetOperator())
		}
	}
	accepted := func(kind string, fields ...string) string {
		return fmt.Sprintf(`msg="command accepted" submitter_id=%d kind=%s action="" %s `+
			`operator=root caller=ivo`, o.id, kind, strings.Join(fields, " "))
	}
	for _, want := range []string{
		accepted("CANCEL", fmt.Sprint("command_id=", of["CANCEL"+id]), "tx_id="+id),
		accepted("CANCEL", "tx_id="+queued),
		accepted("PAUSE", fmt.Sprint("command_id=", of["PAUSE"])),
		accepted("UPDATE", fmt.Sprint("command_id=", of["UPDATE"])),
		`msg="submitter registered" submitter=dora submitter_id=`,
	} {
		if got := strings.Count(log.String(), want); got != 1 {
			t.Errorf("%d lines with %s in\n%s", got, want, log)
		}
	}
	if strings.Contains(log.String(), "secret") {
		t.Errorf("it has the reason:\n%s", log)
	}
}
