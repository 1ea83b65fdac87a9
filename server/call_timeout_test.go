package server

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/web"
)

// shortTimeouts shortens the time limit of a call.
func shortTimeouts(l *Limits) {
	l.PingAfter = 200 * time.Millisecond
	l.Answer = 300 * time.Millisecond
	l.CommandWait = 10 * time.Millisecond
}

// Neither a call whose request never arrives nor a stream other than a watch holds its slot for
// longer than a call may take, even on a healthy connection.
func TestCall_NoRequestSent_SlotReleased(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve(limits(shortTimeouts))
	for _, method := range []string{pb.SubmitterService_GetSubmitter_FullMethodName,
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"} {
		stream, err := n.conn.NewStream(h.ctx,
			&grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
		h.must(err)
		h.eventually("the opened call takes its slot",
			func() bool { return n.server.limiter.Calls() == 1 })
		h.eventually("its slot is released",
			func() bool { return n.server.limiter.Calls() == 0 })
		if err := stream.RecvMsg(&pb.GetSubmitterResponse{}); !isCode(err, codes.DeadlineExceeded) {
			t.Errorf("%s ends with %v", method, err)
		}
	}
}

func TestWatch_LongerThanCallTimeout_Continues(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve(limits(shortTimeouts))
	stream, lines := n.watch(watchAll()), n.stream("/api/v1/events")
	_, err := stream.Recv()
	h.must(err)
	lines.message()
	end := time.NewTimer(2 * n.server.limits.wholeCall())
	<-end.C
	h.eventually("a call ends in time on a busy machine", func() bool {
		_, err := n.txs.CreateTx(h.ctx,
			&pb.CreateTxRequest{Submitter: "alice", RequestId: "r", Payload: payload()})
		return err == nil
	})
	if m, err := stream.Recv(); err != nil || m.GetEvent() == nil {
		t.Errorf("over gRPC: %v, %v", m, err)
	}
	if m := lines.message(); m.GetEvent() == nil {
		t.Errorf("over HTTP: %v", m)
	}
}

// The client answers every ping, so only the call timeout applies.
func TestResponse_NotRead_SlotReleased(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve(limits(shortTimeouts))
	conn, err := net.Dial("tcp", n.conn.Target())
	h.must(err)
	defer conn.Close()
	_, err = conn.Write([]byte(http2.ClientPreface))
	h.must(err)
	framer := http2.NewFramer(conn, conn)
	h.must(framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
	var head bytes.Buffer
	encoder := hpack.NewEncoder(&head)
	for _, field := range [][2]string{{":method", "GET"}, {":scheme", "http"},
		{":authority", "localhost"}, {":path", "/api/v1/submitters/alice"}} {
		h.must(encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}))
	}
	h.must(framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID:      1,
		BlockFragment: head.Bytes(),
		EndStream:     true,
		EndHeaders:    true,
	}))
	answered := make(chan struct{})
	go func() {
		for {
			frame, err := framer.ReadFrame()
			if err != nil {
				return
			}
			switch f := frame.(type) {
			case *http2.SettingsFrame:
				if !f.IsAck() {
					_ = framer.WriteSettingsAck()
				}
			case *http2.PingFrame:
				_ = framer.WritePing(true, f.Data)
			case *http2.HeadersFrame:
				close(answered)
			}
		}
	}()
	<-answered
	if got := n.server.limiter.Calls(); got != 1 {
		t.Fatalf("%d calls in progress with one unread", got)
	}
	h.eventually("its slot is released",
		func() bool { return n.server.limiter.Calls() == 0 })
}

// Events that were read before the removal are not sent after it, even if the client reads slowly.
func TestWatch_CallerRemoved_BufferedEventsDropped(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	const token, rows = "a-token-of-the-caller", 3000
	n := h.serve(limits(func(l *Limits) { l.PageEvents = rows }), func(o *Options) {
		o.Callers = []auth.Caller{{Name: "shop", Tokens: []string{token},
			Submitters: []string{"alice"}}}
	})
	n.dial(n.conn.Target(), grpc.WithStaticStreamWindowSize(1<<16),
		grpc.WithStaticConnWindowSize(1<<16)) // bounds the events in transit
	h.ctx = metadata.AppendToOutgoingContext(h.ctx, "authorization", "Bearer "+token)
	first, err := n.watch(watchAll()).Recv()
	h.must(err)
	for i := 0; i < rows; i += 1000 {
		var requests []*pb.CreateTxRequest
		for j := range 1000 {
			requests = append(requests, createRequest("alice", fmt.Sprint(i+j), "1"))
		}
		n.batch(requests...)
	}
	again := watchAll()
	again.ResumeToken = first.GetResumeToken()
	stream := n.watch(again)
	_, err = stream.Recv()
	h.must(err)
	n.server.SetCallers(nil, []auth.Caller{
		{
			Name:       "another",
			Tokens:     []string{"a-token-of-another"},
			Submitters: []string{"alice"},
		},
	})
	received := 1
	for {
		if _, err = stream.Recv(); err != nil {
			break
		}
		received++
	}
	wantStatus(t, err, codes.Unauthenticated, "UNAUTHENTICATED")
	if received > rows/2 { // events in transit arrive
		t.Errorf("%d of %d events received", received, rows)
	}
}

// Unauthenticated clients may call health without counting against the limits, so its requests are
// small.
func TestHealth_LongRequest_Rejected(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve(func(o *Options) { o.Tokens = []string{"a-token-of-alice"} })
	const path = "/grpc.health.v1.Health/Check"
	header := []string{"Content-Type", "application/json", "Connect-Protocol-Version", "1"}
	n.http("POST", path, `{"service": ""}`, header...).want(t, http.StatusOK, "status", "SERVING")
	long := `{"service": "` + strings.Repeat("x", web.HealthBytes) + `"}`
	if a := n.http("POST", path, long, header...); !strings.Contains(string(a.body), "too large") {
		t.Errorf("a long request: %d: %s", a.code, a.body)
	}
}
