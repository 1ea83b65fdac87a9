package load

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// taker accepts every request but one.
type taker struct {
	pb.UnimplementedTxServiceServer
	refuse string

	mu    sync.Mutex
	calls int
	ids   map[string]int
}

func (s *taker) take(r *pb.CreateTxRequest) (*pb.Tx, error) {
	s.ids[r.GetRequestId()]++
	if r.GetRequestId() == s.refuse {
		return nil, status.Error(codes.FailedPrecondition, "paused")
	}
	return &pb.Tx{TxId: r.GetRequestId()}, nil
}

func (s *taker) CreateTx(_ context.Context, r *pb.CreateTxRequest) (*pb.CreateTxResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	tx, err := s.take(r)
	return &pb.CreateTxResponse{Tx: tx, Created: true}, err
}

func (s *taker) BatchCreateTx(_ context.Context,
	r *pb.BatchCreateTxRequest) (*pb.BatchCreateTxResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	answer := &pb.BatchCreateTxResponse{}
	for _, one := range r.GetRequests() {
		tx, err := s.take(one)
		result := &pb.BatchCreateTxResult{Result: &pb.BatchCreateTxResult_Tx{Tx: tx}}
		if err != nil {
			result.Result = &pb.BatchCreateTxResult_Error{
				Error: &spb.Status{Code: int32(status.Code(err)), Message: err.Error()},
			}
		}
		answer.Results = append(answer.Results, result)
	}
	return answer, nil
}

func start(t *testing.T, s *taker) []*grpc.ClientConn {
	t.Helper()
	s.ids = map[string]int{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterTxServiceServer(server, s)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return []*grpc.ClientConn{conn}
}

// A plan creates its number of transactions with unique ids, one by one or in batches.
func TestCreate(t *testing.T) {
	t.Parallel()
	for batch, calls := range map[int]int{0: 60, 1: 60, 20: 3} {
		s := &taker{}
		var mu sync.Mutex
		created := 0
		done, err := Create(t.Context(), start(t, s), Plan{
			Submitters: []string{
				"a",
				"b",
			}, Callers: 4, Batch: batch, Count: 60, Prefix: "x",
			Created: func(*pb.Tx) { mu.Lock(); created++; mu.Unlock() },
		})
		if err != nil || done.Count != 60 || len(done.Latency) != calls || s.calls != calls ||
			len(s.ids) != 60 ||
			created != 60 {
			t.Errorf("batches of %d: %+v, %v: %d calls, %d ids, %d reported", batch, done, err,
				s.calls, len(s.ids), created)
		}
	}
}

// One transaction that is not taken ends a plan, in a batch as well.
func TestCreate_OneCallFails_Stops(t *testing.T) {
	t.Parallel()
	for _, batch := range []int{0, 10} {
		s := &taker{refuse: "x-7"}
		_, err := Create(
			t.Context(),
			start(t, s),
			Plan{
				Submitters: []string{"a"},
				Callers:    1,
				Batch:      batch,
				Duration:   time.Minute,
				Prefix:     "x",
			},
		)
		if status.Code(err) != codes.FailedPrecondition {
			t.Errorf("batches of %d: %v", batch, err)
		}
	}
	if _, err := Create(t.Context(), nil, Plan{}); err == nil {
		t.Error("a plan without anything to do")
	}
}

func TestLatencies(t *testing.T) {
	t.Parallel()
	l := Latencies{4, 2, 1, 3}
	if l.At(0.5) != 3 || l.At(0.99) != 4 || l.At(0) != 1 || (Latencies{}).At(0.5) != 0 {
		t.Errorf("%d %d %d", l.At(0.5), l.At(0.99), l.At(0))
	}
	if Rate(10, 2*time.Second) != 5 || Rate(10, 0) != 0 {
		t.Error("rates")
	}
}
