package server

import (
	"fmt"
	"slices"
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

// TestListCommands_SinkDecisions: each decision about a sink is recorded with operator, caller and
// reason, among the commands of all submitters; one that changed nothing is not.
func TestListCommands_SinkDecisions(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	alice := h.register("alice")
	h.must(h.store.EnsureSinks(h.ctx, []string{"hook"}))
	n := h.serve(func(o *Options) {
		o.Callers = []auth.Caller{
			{Name: "all", Tokens: []string{tokenOf("all")}, Operator: true,
				Submitters: []string{auth.AllSubmitters}},
			{Name: "one", Tokens: []string{tokenOf("one")}, Operator: true,
				Submitters: []string{"alice"}}}
	})
	of := h.ctx
	h.ctx = role{token: tokenOf("all")}.in(of)
	subs, sinks := n.subs, pb.NewSinkServiceClient(n.conn)
	ids := [2]string{}
	for i := range ids {
		created, err := n.txs.CreateTx(h.ctx, &pb.CreateTxRequest{Submitter: "alice",
			RequestId: fmt.Sprint("r", i), Payload: payload()})
		h.must(err)
		ids[i] = created.GetTx().GetTxId()
	}
	id := ids[0]
	_, err := h.db.Pool.Exec(h.ctx, `INSERT INTO sink_parked (sink, tx_id, submitter_id, next_seq,
		last_seq) VALUES ('hook', $1, $2, 1, 2)`, id, int32(alice))
	h.must(err)
	from := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := []*pb.Command{
		{Kind: "SINK_PAUSE", Reason: "a"},
		{Kind: "SINK_RETRY", Reason: "b"}, {Kind: "SINK_RETRY", Reason: "c", TxId: id},
		{Kind: "SINK_SKIP", Reason: "d", TxId: id, Action: "EVENT 1"},
		{Kind: "CANCEL", Reason: "e", TxId: ids[1]},
		{Kind: "SINK_REPLAY", Reason: "f", Action: "2026-01-02T03:04:05Z"},
		{Kind: "SINK_RESUME", Reason: "g"},
	}
	for _, c := range want {
		h.must(decide(h, n.txs, sinks, c, from))
	}
	_, err = sinks.RetryUndelivered(h.ctx,
		&pb.RetryUndeliveredRequest{Sink: "hook", Operator: "o"}) // none is dead
	h.must(err)
	var got []*pb.Command
	ask := &pb.ListCommandsRequest{PageSize: 2}
	for {
		page, err := subs.ListCommands(h.ctx, ask)
		h.must(err)
		got = append(got, page.GetCommands()...)
		if ask.PageToken = page.GetNextPageToken(); ask.PageToken == "" {
			break
		}
	}
	slices.Reverse(got)
	if len(got) != len(want) {
		t.Fatalf("got %v", got)
	}
	for i, c := range got {
		sink := "hook"
		if c.GetSubmitter() != "" {
			sink = ""
		}
		if c.GetKind() != want[i].GetKind() || c.GetReason() != want[i].GetReason() ||
			c.GetTxId() != want[i].GetTxId() || c.GetAction() != want[i].GetAction() ||
			c.GetOperator() != "o" || c.GetCaller() != "all" || c.GetSink() != sink {
			t.Errorf("command %d is %v, want %v", i, c, want[i])
		}
	}
	h.ctx = role{token: tokenOf("one")}.in(of)
	page, err := subs.ListCommands(h.ctx, &pb.ListCommandsRequest{})
	h.must(err)
	if len(page.GetCommands()) != 1 || page.GetCommands()[0].GetKind() != "CANCEL" {
		t.Errorf("an operator of one account reads %v", page.GetCommands())
	}
}

// decide makes the request that is recorded as this command.
func decide(h *harness, txs pb.TxServiceClient, sinks pb.SinkServiceClient, c *pb.Command,
	from time.Time) (err error) {
	const name, operator = "hook", "o"
	switch c.GetKind() {
	case "CANCEL":
		_, err = txs.CancelTx(h.ctx, &pb.CancelTxRequest{TxId: c.GetTxId(), Reason: c.GetReason(),
			Operator: operator})
	case "SINK_PAUSE":
		_, err = sinks.PauseSink(h.ctx,
			&pb.PauseSinkRequest{Sink: name, Reason: c.GetReason(), Operator: operator})
	case "SINK_RESUME":
		_, err = sinks.ResumeSink(h.ctx,
			&pb.ResumeSinkRequest{Sink: name, Reason: c.GetReason(), Operator: operator})
	case "SINK_RETRY":
		_, err = sinks.RetryUndelivered(h.ctx, &pb.RetryUndeliveredRequest{Sink: name,
			TxId: c.GetTxId(), Reason: c.GetReason(), Operator: operator})
	case "SINK_SKIP":
		_, err = sinks.SkipUndelivered(h.ctx, &pb.SkipUndeliveredRequest{Sink: name,
			TxId: c.GetTxId(), Seq: 1, Reason: c.GetReason(), Operator: operator})
	case "SINK_REPLAY":
		_, err = sinks.ReplaySink(h.ctx, &pb.ReplaySinkRequest{Sink: name,
			From:   &pb.ReplaySinkRequest_Time{Time: timestamppb.New(from)},
			Reason: c.GetReason(), Operator: operator})
	}
	return err
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
