package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	fencepost "github.com/fencepost/fencepost/clients/go"
	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/clock"
)

// scripted is a node that handles its n-th stream by the n-th line of a script; the last line
// repeats.
type scripted struct {
	pb.UnimplementedTxServiceServer
	script  []func(*pb.WatchTxRequest, pb.TxService_WatchTxServer) error
	streams atomic.Int64
}

func (s *scripted) WatchTx(r *pb.WatchTxRequest, stream pb.TxService_WatchTxServer) error {
	n := min(int(s.streams.Add(1)), len(s.script))
	return s.script[n-1](r, stream)
}

// watchScripted runs a watch against a scripted node and returns how long it took.
func watchScripted(t *testing.T, s *scripted,
	args ...string) (out, errs string, code int, passed time.Duration) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	node := grpc.NewServer()
	pb.RegisterTxServiceServer(node, s)
	served := make(chan error, 1)
	go func() { served <- node.Serve(listener) }()
	defer func() { node.Stop(); <-served }()
	if args == nil {
		args = []string{"01a21fca-9bb7-8000-8000-058ead4b4abd"}
	}
	var stdout, stderr output
	p := &program{
		in: strings.NewReader(""), out: &stdout, err: &stderr, clock: clock.Real{},
		watchOptions: fencepost.Options{Heartbeat: time.Second, Patience: testPatience},
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	code = p.run(
		ctx, append([]string{"tx", "watch", "--server", listener.Addr().String()}, args...),
	)
	if ctx.Err() != nil {
		t.Fatalf("the watch does not end; it printed\n%s%s", stdout.String(), stderr.String())
	}
	return stdout.String(), stderr.String(), code, time.Since(start)
}

// testPatience is how long a watch of a scripted node retries; longer than a silence.
const testPatience = 5 * time.Second

func event(seq uint64, kind pb.TxEventKind, executed pb.Executed) *pb.WatchTxResponse {
	e := &pb.TxEvent{
		TxId:      "01a21fca-9bb7-8000-8000-058ead4b4abd",
		Submitter: "alice",
		Seq:       seq,
		Kind:      kind,
		State:     pb.TxState(1),
		Executed:  executed,
	}
	return &pb.WatchTxResponse{
		Message:     &pb.WatchTxResponse_Event{Event: e},
		ResumeToken: "token of " + e.GetKind().String(),
	}
}

// A stream that falls silent is not trusted; one that breaks is resumed where it was; a stream that
// ends is done.
func TestTxWatch_StreamLost_Resumes(t *testing.T) {
	t.Parallel()
	token := make(chan string, 100)
	s := &scripted{script: []func(*pb.WatchTxRequest, pb.TxService_WatchTxServer) error{
		func(_ *pb.WatchTxRequest, stream pb.TxService_WatchTxServer) error {
			if err := stream.Send(event(1, pb.TxEventKind_TX_EVENT_KIND_QUEUED, 0)); err != nil {
				return err
			}
			<-stream.Context().Done() // and not a word more
			return stream.Context().Err()
		},
		func(*pb.WatchTxRequest, pb.TxService_WatchTxServer) error {
			return status.Error(codes.Unavailable, "gone")
		},
		// one that took over the watchers of another
		func(*pb.WatchTxRequest, pb.TxService_WatchTxServer) error {
			return busy(t)
		},
		func(*pb.WatchTxRequest, pb.TxService_WatchTxServer) error { // as of a proxy
			return status.Error(codes.Internal, "stream terminated by RST_STREAM")
		},
		func(r *pb.WatchTxRequest, stream pb.TxService_WatchTxServer) error {
			token <- r.GetResumeToken()
			return stream.Send(
				event(2, pb.TxEventKind_TX_EVENT_KIND_CONFIRMED, pb.Executed_EXECUTED_SUCCESS))
		},
	}}
	out, errs, code, _ := watchScripted(t, s)
	if code != exitDone || strings.Count(out, "\n") != 2 ||
		!strings.Contains(errs, "silent") ||
		s.streams.Load() < 5 {
		t.Fatalf("gave %d after %d streams: %s%s", code, s.streams.Load(), out, errs)
	}
	if got := <-token; got != "token of TX_EVENT_KIND_QUEUED" {
		t.Errorf("resumed with %q", got)
	}
}

// Snapshots of a stream that is cut before its first token are printed once; the next stream
// repeats them.
func TestTxWatch_SnapshotsPrintedOnce(t *testing.T) {
	t.Parallel()
	id := "01a21fca-9bb7-8000-8000-058ead4b4abd"
	snapshot := func(version uint64) *pb.WatchTxResponse {
		return &pb.WatchTxResponse{
			Message: &pb.WatchTxResponse_Snapshot{
				Snapshot: &pb.Tx{TxId: id, Submitter: "alice", Version: version, State: 1},
			},
		}
	}
	sends := func(end error, all ...*pb.WatchTxResponse) func(
		*pb.WatchTxRequest, pb.TxService_WatchTxServer,
	) error {
		return func(_ *pb.WatchTxRequest, stream pb.TxService_WatchTxServer) error {
			for _, m := range all {
				if err := stream.Send(m); err != nil {
					return err
				}
			}
			return end
		}
	}
	heartbeat := &pb.WatchTxResponse{
		Message:     &pb.WatchTxResponse_Heartbeat{Heartbeat: &pb.Heartbeat{}},
		ResumeToken: "first",
	}
	gone, enough := status.Error(codes.Unavailable, "gone"), status.Error(codes.OutOfRange,
		"so it is")
	s := &scripted{script: []func(*pb.WatchTxRequest, pb.TxService_WatchTxServer) error{
		sends(gone, snapshot(1)),
		sends(gone, snapshot(2), heartbeat),
		sends(enough, event(2, pb.TxEventKind_TX_EVENT_KIND_CONFIRMED, 0),
			event(3, pb.TxEventKind_TX_EVENT_KIND_CONFIRMED, 0)),
	}}
	out, errs, _, _ := watchScripted(t, s, "--all")
	if strings.Count(out, "(current)") != 1 || strings.Count(out, " CONFIRMED ") != 1 ||
		strings.Count(out, "\n") != 2 {
		t.Errorf("printed:\n%s%s", out, errs)
	}
}

// busy is the error of a node without capacity.
func busy(t *testing.T) error {
	t.Helper()
	s, err := status.New(codes.ResourceExhausted, "it has no room").WithDetails(
		&errdetails.ErrorInfo{
			Reason: "NODE_BUSY",
			Domain: "fencepost.dev",
		},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)},
	)
	if err != nil {
		t.Error(err)
	}
	return s.Err()
}

// A watch gives up on nodes that do not come back, and at once on an answer that will not change.
func TestTxWatch_NodeGone_GivesUp(t *testing.T) {
	t.Parallel()
	answering := func(code codes.Code) *scripted {
		return &scripted{script: []func(*pb.WatchTxRequest, pb.TxService_WatchTxServer) error{
			func(
				*pb.WatchTxRequest, pb.TxService_WatchTxServer,
			) error {
				return status.Error(code, "so it is")
			},
		}}
	}
	gone := answering(codes.Unavailable)
	if _, errs, code, passed := watchScripted(t, gone); code != exitFailed ||
		passed < testPatience ||
		!strings.Contains(errs, "so it is") {
		t.Errorf("gave %d after %v and %d streams: %s", code, passed, gone.streams.Load(), errs)
	}
	// an error before the first message is not a lost connection
	for _, final := range []codes.Code{codes.OutOfRange, codes.Internal} {
		refused := answering(final)
		if _, errs, code, _ := watchScripted(t, refused); code != exitFailed ||
			refused.streams.Load() != 1 ||
			!strings.Contains(errs, "so it is") {
			t.Errorf("%v gave %d after %d streams: %s", final, code, refused.streams.Load(), errs)
		}
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	pair, ca := certificate(t)
	l.serve("127.0.0.1:0", pair)
	if out := l.good(
		"submitter", "list", "--tls-ca", ca, "--tls-name", "node.test",
	); !strings.Contains(
		out, "alice") {
		t.Errorf("listed %s", out)
	}
	l.bad(exitFailed, "certificate is valid for node.test, not other.test", "submitter", "list",
		"--tls-ca", ca, "--tls-name", "other.test")
	l.bad(exitFailed, "signed by unknown authority", "submitter", "list", "--tls-name", "node.test")
	l.bad(exitFailed, "cannot connect", "submitter", "list")
	empty := filepath.Join(t.TempDir(), "empty")
	l.must(os.WriteFile(empty, nil, 0o600))
	l.bad(exitFailed, "no certificate", "submitter", "list", "--tls-ca", empty)
}

// certificate makes one for node.test that signs itself, and its PEM file.
func certificate(t *testing.T) (pair tls.Certificate, file string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"node.test"},
		NotBefore: time.Now().Add(-time.Hour),
		NotAfter:  time.Now().Add(time.Hour),
		IsCA:      true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(
		file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600,
	); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}
