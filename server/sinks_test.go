package server

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/txn"
)

func TestSinkService_Decisions(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	h.must(h.store.EnsureSinks(h.ctx, []string{"hook"}))
	n := h.serve()
	sinks := pb.NewSinkServiceClient(n.conn)
	paused, err := sinks.PauseSink(h.ctx,
		&pb.PauseSinkRequest{Sink: "hook", Reason: "r", Operator: "o"})
	h.must(err)
	if s := paused.GetSink(); s.GetStatus() != pb.SinkStatus_SINK_STATUS_PAUSED ||
		s.GetReason() != "r" || s.GetOperator() != "o" {
		t.Errorf("paused: %v", s)
	}
	replayed, err := sinks.ReplaySink(h.ctx, &pb.ReplaySinkRequest{Sink: "hook",
		From: &pb.ReplaySinkRequest_Time{Time: timestamppb.New(time.Now().Add(-time.Hour))}})
	h.must(err)
	_, err = sinks.ReplaySink(h.ctx, &pb.ReplaySinkRequest{Sink: "hook",
		From: &pb.ReplaySinkRequest_ResumeToken{
			ResumeToken: replayed.GetSink().GetResumeToken()}})
	h.must(err)
	resumed, err := sinks.ResumeSink(h.ctx, &pb.ResumeSinkRequest{Sink: "hook"})
	h.must(err)
	if s := resumed.GetSink(); s.GetStatus() != pb.SinkStatus_SINK_STATUS_ACTIVE {
		t.Errorf("resumed: %v", s)
	}
	created, err := n.txs.CreateTx(h.ctx,
		&pb.CreateTxRequest{Submitter: "alice", RequestId: "r", Payload: payload()})
	h.must(err)
	skip := &pb.SkipUndeliveredRequest{Sink: "hook", TxId: created.GetTx().GetTxId(), Seq: 1}
	_, err = sinks.SkipUndelivered(h.ctx, skip)
	wantStatus(t, err, codes.FailedPrecondition, "DECISION_REFUSED")
	retried, err := sinks.RetryUndelivered(h.ctx, &pb.RetryUndeliveredRequest{Sink: "hook"})
	h.must(err)
	if retried.GetRetried() != 0 {
		t.Errorf("retried %v", retried)
	}
}

func TestSinkService_UnknownSink_NotFound(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	sinks := pb.NewSinkServiceClient(h.serve().conn)
	for name, call := range sinkCalls(h, sinks) {
		if err := call(); name != "skip" {
			wantStatus(t, err, codes.NotFound, "SINK_NOT_FOUND")
		}
	}
}

// sinkCalls are calls about a sink that does not exist.
func sinkCalls(h *harness, sinks pb.SinkServiceClient) map[string]func() error {
	ctx := h.ctx
	at := &pb.ReplaySinkRequest_Time{Time: timestamppb.Now()}
	return map[string]func() error{
		"list": func() error {
			_, err := sinks.ListSinks(ctx, &pb.ListSinksRequest{Sink: "none"})
			return err
		},
		"undelivered": func() error {
			_, err := sinks.ListUndelivered(ctx, &pb.ListUndeliveredRequest{Sink: "none"})
			return err
		},
		"pause": func() error {
			_, err := sinks.PauseSink(ctx, &pb.PauseSinkRequest{Sink: "none"})
			return err
		},
		"resume": func() error {
			_, err := sinks.ResumeSink(ctx, &pb.ResumeSinkRequest{Sink: "none"})
			return err
		},
		"retry": func() error {
			_, err := sinks.RetryUndelivered(ctx, &pb.RetryUndeliveredRequest{Sink: "none"})
			return err
		},
		"skip": func() error {
			_, err := sinks.SkipUndelivered(ctx, &pb.SkipUndeliveredRequest{Sink: "none",
				TxId: txn.TxID{15: 1}.String(), Seq: 1})
			return err
		},
		"replay": func() error {
			_, err := sinks.ReplaySink(ctx, &pb.ReplaySinkRequest{Sink: "none", From: at})
			return err
		},
	}
}

// TestSinkService_OperatorOfSomeAccounts_Denied: a sink has the events of all accounts.
func TestSinkService_OperatorOfSomeAccounts_Denied(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve(func(o *Options) {
		o.Callers = []auth.Caller{{Name: "one", Tokens: []string{tokenOf("one")}, Operator: true,
			Submitters: []string{"alice"}}}
	})
	h.ctx = role{token: tokenOf("one")}.in(h.ctx)
	for name, call := range sinkCalls(h, pb.NewSinkServiceClient(n.conn)) {
		t.Run(name, func(t *testing.T) {
			wantStatus(t, call(), codes.PermissionDenied, "PERMISSION_DENIED")
		})
	}
}
