package limit

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/server/port"
	"github.com/fencepost/fencepost/server/status"
)

const patience = 20 * time.Second // for an event that must happen

// harness is a grpc.Server with a limiter, and a service whose response has responseBytes.
type harness struct {
	*testing.T
	limiter  *Limiter
	address  string
	contexts chan context.Context // of the calls that the service received
}

const responseBytes = 1 << 20

type service struct {
	pb.UnimplementedSubmitterServiceServer
	contexts chan context.Context
}

func (s service) GetSubmitter(ctx context.Context,
	_ *pb.GetSubmitterRequest) (*pb.GetSubmitterResponse, error) {
	s.contexts <- ctx
	name := make([]byte, responseBytes)
	for i := range name {
		name[i] = 'x'
	}
	return &pb.GetSubmitterResponse{Submitter: &pb.Submitter{Name: string(name)}}, nil
}

// newHarness serves until the test ends. Calls with the header "stranger" are unauthenticated.
func newHarness(t *testing.T, limits Limits) *harness {
	t.Helper()
	l := New(limits, clock.Real{}, slog.New(slog.DiscardHandler),
		Counters{Busy: func() {}, Limited: func(string, string) {}})
	h := &harness{T: t, limiter: l, contexts: make(chan context.Context, 100)}
	server := grpc.NewServer(append(
		l.ServerOptions(encoding.GetCodecV2(grpcproto.Name)),
		grpc.InTapHandle(l.Tap(
			func(ctx context.Context, _ string) (context.Context, error) {
				if metadata.ValueFromIncomingContext(ctx, "stranger") != nil {
					return ctx, status.ErrUnauthenticated
				}
				return ctx, nil
			},
			func(ctx context.Context) string {
				return strings.Join(metadata.ValueFromIncomingContext(ctx, "caller"), "")
			},
			func(_ context.Context, _ string, err error) error {
				return status.From(err, "call").Err()
			},
		)))...)
	pb.RegisterSubmitterServiceServer(server, service{contexts: h.contexts})
	healthpb.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.address = listener.Addr().String()
	split := port.New(listener, port.Options{Patience: patience, Clock: clock.Real{}})
	go func() { _ = split.Run() }() // returns an error when the split is closed
	go func() { _ = server.Serve(l.Listen(split.GRPC())) }()
	t.Cleanup(func() { split.Close(); server.Stop() })
	return h
}

func defaultLimits() Limits {
	return Limits{
		Calls: 100, Watches: 100, StreamsPerConnection: 100, Call: time.Minute,
		CheckEvery: time.Minute,
	}
}

// dial connects with a flow-control window of 64 KiB, so that most of a response waits for its
// reader.
func (h *harness) dial() *grpc.ClientConn {
	h.Helper()
	conn, err := grpc.NewClient(h.address, grpc.WithStaticStreamWindowSize(65535),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { conn.Close() })
	return conn
}

// request sends a request and does not read the response.
func (h *harness) request(ctx context.Context, conn *grpc.ClientConn) grpc.ClientStream {
	h.Helper()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true},
		pb.SubmitterService_GetSubmitter_FullMethodName)
	if err == nil {
		err = stream.SendMsg(&pb.GetSubmitterRequest{})
	}
	if err == nil {
		err = stream.CloseSend()
	}
	if err != nil {
		h.Fatal(err)
	}
	return stream
}

func (h *harness) eventually(what string, is func() bool) {
	h.Helper()
	for limit := time.After(patience); !is(); {
		select {
		case <-limit:
			h.Fatalf("%s: not within %v", what, patience)
		case <-time.After(time.Millisecond):
		}
	}
}

func codeOf(err error) codes.Code { return grpcstatus.Code(err) }
