package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/fencepost/fencepost/cmd/load"
	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// call is something that callers and operators do with a submitter.
type call struct {
	name string
	do   func(ctx context.Context, conn *grpc.ClientConn, submitter string, n int) error
}

var queueCalls = []call{
	{"create", func(ctx context.Context, conn *grpc.ClientConn, submitter string, n int) error {
		_, err := pb.NewTxServiceClient(conn).CreateTx(
			ctx,
			&pb.CreateTxRequest{
				Submitter: submitter,
				RequestId: fmt.Sprintf("call-%d", n),
				Payload:   transfer(),
			},
		)
		return err
	}},
	{"list", func(ctx context.Context, conn *grpc.ClientConn, submitter string, _ int) error {
		_, err := pb.NewTxServiceClient(conn).ListTxs(ctx, &pb.ListTxsRequest{Submitter: submitter})
		return err
	}},
	{"watch", func(ctx context.Context, conn *grpc.ClientConn, submitter string, _ int) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := pb.NewTxServiceClient(conn).WatchTx(ctx, load.Of(submitter))
		if err == nil {
			// non-final transactions arrive in pages: the first response means that it has started
			_, err = stream.Recv()
		}
		return err
	}},
	{"show", func(ctx context.Context, conn *grpc.ClientConn, submitter string, _ int) error {
		_, err := pb.NewSubmitterServiceClient(conn).GetSubmitter(ctx,
			&pb.GetSubmitterRequest{Submitter: submitter})
		return err
	}},
}

// callNumbers are the numbers of each call.
func callNumbers() (names []string) {
	for _, c := range queueCalls {
		names = append(names, c.name+".p50", c.name+".buffers")
	}
	return names
}

const (
	callsOfEach = 200
	queueLives  = 60
)

// longQueue measures the cost of taking the head of a long queue, and of calls for such a
// submitter.
func longQueue(ctx context.Context, b *bench, queued int) (err error) {
	s, err := newGrown(
		ctx,
		b,
		grown{
			submitters: fewBusy,
			busy:       1,
			stored:     fewBusy * fewPast,
			queued:     queued,
			period:     grownPeriod,
			lockstep:   true,
		},
	)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	name := fmt.Sprintf("growth.queued.%d.", queued)
	if err := livesOf(ctx, b, s, name, queueLives); err != nil {
		return err
	}
	for _, c := range queueCalls {
		before, err := s.cost(ctx)
		if err != nil {
			return err
		}
		var took load.Latencies
		for n := range callsOfEach {
			began := time.Now()
			if err := c.do(ctx, s.nodes[0].conns[0], s.submitters[0], n); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			took = append(took, time.Since(began))
		}
		after, err := s.cost(ctx)
		if err != nil {
			return err
		}
		buffers, pages := 0.0, less(after.by, before.by)
		for _, statement := range callStatements[c.name] {
			buffers += pages[statement+" pages"]
		}
		b.add(name+c.name+".p50", "ms", millis(took.At(0.5)))
		b.add(name+c.name+".buffers", "pages/call", buffers/callsOfEach)
	}
	return nil
}

// callStatements are the statements of a call, without statements of concurrent work.
var callStatements = map[string][]string{
	"create": {
		"InsertTxs",
		"TxsByRequest",
		"Gate",
	}, "list": {"ListTxs"}, "watch": {"FeedHead", "Settle", "ListTxs", "ListOpenTxs"},
	"show": {"Submitters", "Blocking", "QueueHead", "Gaps"},
}
