package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// scripted is a node that injects faults at once and each time. The last part of the request_id, or
// of the watched submitter, selects the behaviour; the first part separates the tests of the
// languages.
type scripted struct {
	fencepostv1.UnimplementedTxServiceServer
	mu      sync.Mutex
	creates map[string]int // calls, by request_id
	streams map[string]int // by submitter
}

// startScripted serves the script in plain text, and with TLS for clients that have a certificate.
// It returns both addresses.
func startScripted(t *testing.T, certs string) (plain, secure string) {
	t.Helper()
	s := &scripted{creates: map[string]int{}, streams: map[string]int{}}
	return s.serve(t), s.serve(t, grpc.Creds(credentials.NewTLS(writeCertificates(t, certs))))
}

func (s *scripted) serve(t *testing.T, options ...grpc.ServerOption) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(options...)
	fencepostv1.RegisterTxServiceServer(server, s)
	fencepostv1.RegisterNonceServiceServer(server, &scriptedNonces{calls: map[string]int{}})
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { server.Stop(); <-done })
	return l.Addr().String()
}

func count(mu *sync.Mutex, calls map[string]int, key string) int {
	mu.Lock()
	defer mu.Unlock()
	calls[key]++
	return calls[key]
}

func lastPart(name string) string { return name[strings.LastIndex(name, "/")+1:] }

func (s *scripted) CreateTx(ctx context.Context,
	r *fencepostv1.CreateTxRequest) (*fencepostv1.CreateTxResponse, error) {
	call := count(&s.mu, s.creates, r.GetRequestId())
	switch what := lastPart(r.GetRequestId()); {
	case what == "flaky" && call < 3:
		return nil, refuse(codes.Unavailable, "STORE_UNAVAILABLE")
	case what == "busy" && call < 3:
		return nil, refuse(codes.ResourceExhausted, "",
			&errdetails.RetryInfo{RetryDelay: durationpb.New(20 * time.Millisecond)})
	case what == "later":
		return nil, refuse(codes.ResourceExhausted, "",
			&errdetails.RetryInfo{RetryDelay: durationpb.New(40 * time.Second)})
	case what == "full":
		return nil, refuse(codes.ResourceExhausted, "")
	case what == "wrong":
		return nil, refuse(
			codes.InvalidArgument,
			"INVALID_FIELD",
			&errdetails.BadRequest{
				FieldViolations: []*errdetails.BadRequest_FieldViolation{
					{Field: "payload.to", Description: "must be an address"},
				},
			},
		)
	case what == "defect":
		return nil, refuse(codes.Internal, "INTERNAL", &errdetails.RequestInfo{RequestId: "call-1"})
	case what == "novel":
		return nil, refuse(codes.FailedPrecondition, "NOT_INVENTED_YET",
			&errdetails.RetryInfo{RetryDelay: durationpb.New(1500 * time.Millisecond)})
	case what == "slow":
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	return &fencepostv1.CreateTxResponse{
		Tx: &fencepostv1.Tx{
			RequestId: r.GetRequestId(),
			Version:   uint64(call),
			LastError: authorization(ctx),
			Reason:    certifiedName(ctx),
		},
	}, nil
}

// GetTx returns, as the version, how often the request was made.
func (s *scripted) GetTx(_ context.Context,
	r *fencepostv1.GetTxRequest) (*fencepostv1.GetTxResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &fencepostv1.GetTxResponse{
		Tx: &fencepostv1.Tx{Version: uint64(s.creates[r.GetRequest().GetRequestId()])},
	}, nil
}

// ListTxs returns more than gRPC's default receive limit.
func (s *scripted) ListTxs(context.Context,
	*fencepostv1.ListTxsRequest) (*fencepostv1.ListTxsResponse, error) {
	answer := &fencepostv1.ListTxsResponse{}
	for range 50 {
		answer.Txs = append(answer.Txs,
			&fencepostv1.Tx{Payload: &fencepostv1.Payload{Data: make([]byte, 128<<10)}})
	}
	return answer, nil
}

func (s *scripted) WatchTx(r *fencepostv1.WatchTxRequest,
	out fencepostv1.TxService_WatchTxServer) error {
	if r.GetTxs() != nil {
		return watchSeveral(count(&s.mu, s.streams, r.GetTxs().GetTxIds()[0]), r, out)
	}
	stream := count(&s.mu, s.streams, r.GetSubmitter())
	if what := lastPart(r.GetSubmitter()); what == "picky" {
		return refuseHeartbeat(r.GetHeartbeat().AsDuration(), out)
	} else if what == "snapshots" {
		return watchSnapshots(stream, out)
	} else if stream > 1 && r.GetResumeToken() != "after 1" && what != "down" {
		return status.Errorf(
			codes.InvalidArgument, "stream %d resumes with %q", stream, r.GetResumeToken(),
		)
	} else if stream > 1 && what == "expired" {
		return refuse(codes.OutOfRange, "RESUME_TOKEN_EXPIRED")
	} else if what == "refused" {
		return refuse(codes.NotFound, "SUBMITTER_NOT_FOUND")
	} else if what == "down" {
		return refuse(codes.Unavailable, "STORE_UNAVAILABLE")
	} else if err := out.Send(event("tx", stream,
		map[int]string{1: "after 1", 2: "after 2"}[stream])); err != nil {
		return err
	} else if what == "silent" || stream > 1 {
		<-out.Context().Done()
		return out.Context().Err()
	} else if what == "ends" {
		return nil
	}
	return refuse(codes.Unavailable, "DRAINING")
}

// refuseHeartbeat takes its time, as the way to a node does.
func refuseHeartbeat(every time.Duration, out fencepostv1.TxService_WatchTxServer) error {
	if every >= time.Second && every <= 5*time.Minute {
		return status.Error(codes.FailedPrecondition, "the heartbeat is fine")
	}
	select {
	case <-time.After(100 * time.Millisecond):
	case <-out.Context().Done():
	}
	return refuse(codes.InvalidArgument, "INVALID_FIELD")
}

// watchSnapshots breaks before the first token, when it has shown one of two transactions; later
// the second is not there any more, and the other has moved on.
func watchSnapshots(stream int, out fencepostv1.TxService_WatchTxServer) error {
	if stream == 1 {
		_ = out.Send(snapshot("gone", 1))
		_ = out.Send(snapshot("kept", 1))
		return refuse(codes.Unavailable, "DRAINING")
	}
	heartbeat := &fencepostv1.WatchTxResponse{
		Message:     &fencepostv1.WatchTxResponse_Heartbeat{Heartbeat: &fencepostv1.Heartbeat{}},
		ResumeToken: "start",
	}
	for _, m := range []*fencepostv1.WatchTxResponse{
		snapshot("kept", 2), heartbeat, event("kept", 2, "a"), event("kept", 3, "b"),
		event("new", 1, "c"),
	} {
		if err := out.Send(m); err != nil {
			return err
		}
	}
	<-out.Context().Done()
	return out.Context().Err()
}

// watchSeveral fails after two transactions, one of them final, and one event; the next watch
// resumes from there.
func watchSeveral(stream int, r *fencepostv1.WatchTxRequest,
	out fencepostv1.TxService_WatchTxServer) error {
	if len(r.GetTxs().GetTxIds()) != 2 || !r.GetUntilFinal() ||
		stream > 1 && r.GetResumeToken() != "after 2" {
		return status.Errorf(codes.InvalidArgument, "stream %d is asked for with %v", stream, r)
	}
	if stream > 1 {
		return out.Send(event("on", 3, "after 3"))
	}
	heartbeat := &fencepostv1.WatchTxResponse{
		Message:     &fencepostv1.WatchTxResponse_Heartbeat{Heartbeat: &fencepostv1.Heartbeat{}},
		ResumeToken: "start",
	}
	for _, m := range []*fencepostv1.WatchTxResponse{
		snapshot("done", 5), snapshot("on", 1), heartbeat, event("done", 5, "after 1"),
		event("on", 2, "after 2"),
	} {
		if err := out.Send(m); err != nil {
			return err
		}
	}
	return refuse(codes.Unavailable, "DRAINING")
}

func event(id string, seq int, token string) *fencepostv1.WatchTxResponse {
	return &fencepostv1.WatchTxResponse{
		Message: &fencepostv1.WatchTxResponse_Event{
			Event: &fencepostv1.TxEvent{TxId: id, Seq: uint64(seq)},
		},
		ResumeToken: token,
	}
}

func snapshot(id string, version uint64) *fencepostv1.WatchTxResponse {
	return &fencepostv1.WatchTxResponse{
		Message: &fencepostv1.WatchTxResponse_Snapshot{
			Snapshot: &fencepostv1.Tx{TxId: id, Version: version},
		},
	}
}

func refuse(code codes.Code, reason string, details ...protoadapt.MessageV1) error {
	if reason != "" {
		details = append(details, &errdetails.ErrorInfo{Reason: reason, Domain: "fencepost.dev"})
	}
	s, err := status.New(code, "scripted").WithDetails(details...)
	if err != nil {
		return err
	}
	return s.Err()
}

func authorization(ctx context.Context) string {
	return strings.Join(metadata.ValueFromIncomingContext(ctx, "authorization"), ",")
}

func certifiedName(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok &&
			len(info.State.PeerCertificates) > 0 {
			return info.State.PeerCertificates[0].Subject.CommonName
		}
	}
	return ""
}

// writeCertificates makes a CA, a node "node.test" and a client "caller", and writes the files that
// nodes and clients need.
func writeCertificates(t *testing.T, dir string) *tls.Config {
	t.Helper()
	return certificatesFor(t, dir, "node.test")
}

// certificatesFor makes the same for a server of this name.
func certificatesFor(t *testing.T, dir, server string) *tls.Config {
	t.Helper()
	authority := newCertificate(t, "authority", nil)
	node, client := newCertificate(t, server, authority), newCertificate(t, "caller", authority)
	for name, c := range map[string]*certificate{"ca": authority, "client": client, "node": node} {
		key, err := x509.MarshalPKCS8PrivateKey(c.key)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, name+".pem"),
			string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.der})))
		writeFile(t, filepath.Join(dir, name+"-key.pem"),
			string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
	}
	pool := x509.NewCertPool()
	pool.AddCert(authority.cert)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{node.der}, PrivateKey: node.key}},
		ClientCAs:    pool, ClientAuth: tls.RequireAndVerifyClientCert,
		MinVersion: tls.VersionTLS12,
	}
}

type certificate struct {
	der  []byte
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newCertificate makes one that the parent signs, or an authority if there is no parent.
func newCertificate(t *testing.T, name string, parent *certificate) *certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &certificate{key: key}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(
			time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: parent == nil, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	issuer, signer := template, key
	if parent == nil {
		template.KeyUsage |= x509.KeyUsageCertSign
	} else {
		issuer, signer = parent.cert, parent.key
	}
	if c.der, err = x509.CreateCertificate(
		rand.Reader, template, issuer, &key.PublicKey, signer,
	); err != nil {
		t.Fatal(err)
	}
	if c.cert, err = x509.ParseCertificate(c.der); err != nil {
		t.Fatal(err)
	}
	return c
}
