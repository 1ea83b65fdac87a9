package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/limit"
	"github.com/fencepost/fencepost/server/status"
)

// statusOf returns the status of a call by a client of connect-go.
func statusOf(err error) error {
	var failed *connect.Error
	if !errors.As(err, &failed) {
		return err
	}
	s := &statuspb.Status{Code: int32(failed.Code()), Message: failed.Message()}
	for _, d := range failed.Details() {
		s.Details = append(s.Details,
			&anypb.Any{TypeUrl: "type.googleapis.com/" + d.Type(), Value: d.Bytes()})
	}
	return grpcstatus.ErrorProto(s)
}

// statusOfREST makes a request and returns its status.
func statusOfREST(r *http.Request) error {
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var s statuspb.Status
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode == http.StatusOK {
		return err
	}
	if err := protojson.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("%s: %q: %w", response.Status, text, err)
	}
	return grpcstatus.ErrorProto(&s)
}

// protocolCalls are calls of CreateTx, BatchCreateTx and GetTx in each protocol.
func (n *node) protocolCalls() map[string]func(id string) error {
	calls := map[string]func(string) error{
		"gRPC": func(id string) error {
			_, err := n.txs.CreateTx(n.ctx, createRequest("alice", id, "1"))
			return err
		},
		"gRPC batch": func(id string) error {
			_, err := n.txs.BatchCreateTx(n.ctx,
				batchOf(createRequest("alice", id, "1")))
			return err
		},
		"gRPC read": func(string) error {
			_, err := n.txs.GetTx(n.ctx, byKey("alice", "first"))
			return err
		},
		"REST": func(id string) error {
			return statusOfREST(n.request("POST", "/api/v1/tx",
				`{"submitter": "alice", "request_id": "`+id+`", "payload": {"to": "`+recipient+
					`"}}`))
		},
		"REST read": func(string) error {
			return statusOfREST(n.request("GET",
				"/api/v1/tx/by-request?submitter=alice&request_id=first", ""))
		},
	}
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	h2 := &http.Client{Transport: &http.Transport{Protocols: p}}
	n.t.Cleanup(h2.CloseIdleConnections)
	for version, over := range map[string]*http.Client{"HTTP/1.1": http.DefaultClient,
		"HTTP/2": h2} {
		for name, options := range map[string][]connect.ClientOption{
			"Connect": nil, "Connect JSON": {connect.WithProtoJSON()},
			"gRPC-Web": {connect.WithGRPCWeb()},
		} {
			create := connect.NewClient[pb.CreateTxRequest, pb.CreateTxResponse](over,
				"http://"+n.conn.Target()+pb.TxService_CreateTx_FullMethodName, options...)
			calls[name+" over "+version] = func(id string) error {
				request := connect.NewRequest(createRequest("alice", id, "1"))
				_, err := create.CallUnary(n.ctx, request)
				return statusOf(err)
			}
		}
	}
	return calls
}

// A client of a stopping node learns that its call may be repeated elsewhere, also if the node does
// not wait for the database any longer.
func TestStop_CallsBlockedInDatabase_ReturnDraining(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve(limits(func(l *Limits) { l.Grace, l.Answer = time.Second, time.Minute }))
	n.create("alice", "first")
	lock, err := h.db.Pool.Begin(h.ctx)
	h.must(err)
	defer func() { _ = lock.Rollback(context.Background()) }()
	_, err = lock.Exec(h.ctx, "LOCK TABLE managed_tx IN ACCESS EXCLUSIVE MODE")
	h.must(err)

	type result struct {
		name string
		err  error
	}
	results := make(chan result)
	calls, weight := 0, int64(0)
	for name, call := range n.protocolCalls() {
		for i := range 3 {
			calls++
			if weight++; name == "gRPC batch" {
				weight += limit.HeavyCall - 1
			}
			go func() { results <- result{name, call(fmt.Sprint(name, i))} }()
		}
	}
	h.eventually("all calls are in progress",
		func() bool { return n.server.limiter.Calls() == weight })
	n.stop()
	for range calls {
		r := <-results
		s, ok := grpcstatus.FromError(r.err)
		if !ok || s.Code() != codes.Unavailable || status.ReasonOf(s) != "DRAINING" {
			t.Errorf("%s: got %v (reason %q), want DRAINING", r.name, r.err, status.ReasonOf(s))
			continue
		}
		wantRetry(t, s, time.Millisecond, time.Second)
	}
	h.must(<-n.served)
	n.served <- nil
}

// Without its body a request cannot be served, and the node does not wait for it beyond the grace.
func TestStop_BodyIncomplete_ReturnsDraining(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve(limits(func(l *Limits) { l.Grace = time.Second }))
	conn, err := net.Dial("tcp", n.conn.Target())
	h.must(err)
	defer conn.Close()
	_, err = fmt.Fprint(conn, "POST /api/v1/tx HTTP/1.1\r\nHost: 127.0.0.1\r\n"+
		"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
	h.must(err)
	h.eventually("the call is in progress",
		func() bool { return n.server.limiter.Calls() == 1 })
	n.stop()
	h.must(conn.SetReadDeadline(time.Now().Add(testTimeout)))
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	h.must(err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	h.must(err)
	a := httpResponse{response.StatusCode, response.Header, text}
	a.wantError(t, http.StatusServiceUnavailable, codes.Unavailable, "DRAINING")
	h.must(<-n.served)
	n.served <- nil
}

// A stopped inner server does not respond.
func TestStop_InnerServerStopped_ReturnsDraining(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve()
	n.create("alice", "first")
	n.server.inner.Stop()
	for name, call := range n.protocolCalls() {
		if !strings.HasPrefix(name, "gRPC ") && name != "gRPC" {
			wantStatus(t, call("x"), codes.Unavailable, "DRAINING")
		}
	}
}
