package service_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/holiman/uint256"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	signerv1 "github.com/fencepost/fencepost/gen/go/fencepost/signer/v1"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/sign/endpoint"
	"github.com/fencepost/fencepost/sign/service"
	"github.com/fencepost/fencepost/sign/signtest"
	"github.com/fencepost/fencepost/txn"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	signtest.Run(t, signtest.Subject{
		Open: func(t *testing.T, s *signtest.Script) sign.Holder {
			return open(t, endpoint.Endpoint{URL: "http://" + serve(t, &server{script: s})})
		},
	})
}

func open(t *testing.T, e endpoint.Endpoint) *service.Holder {
	t.Helper()
	h, err := service.Open(e, signtest.Keys(t, false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// serve serves a signer until the test ends, and returns its address.
func serve(t *testing.T, s *server, options ...grpc.ServerOption) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.listener = &connections{Listener: l}
	g := grpc.NewServer(options...)
	signerv1.RegisterSignerServiceServer(g, s)
	go func() { _ = g.Serve(s.listener) }()
	t.Cleanup(g.Stop)
	return l.Addr().String()
}

// server is a signer that behaves as a script.
type server struct {
	signerv1.UnimplementedSignerServiceServer
	script   *signtest.Script
	listener *connections
	last     *signerv1.SignTransactionRequest
}

func (s *server) SignTransaction(ctx context.Context,
	r *signerv1.SignTransactionRequest) (*signerv1.SignTransactionResponse, error) {
	s.last = r
	switch s.script.Fault() {
	case signtest.Missing:
		return nil, status.Error(codes.NotFound, "no such key")
	case signtest.Hangs:
		s.script.Hang(ctx)
		return nil, status.Error(codes.Canceled, "the client has left")
	case signtest.Throttled:
		return nil, status.Error(codes.ResourceExhausted, "slow down")
	case signtest.Reset:
		s.listener.reset()
		return nil, status.Error(codes.Unavailable, "going away")
	case signtest.Broken:
		return nil, status.Error(codes.Internal, "broken")
	case signtest.Denied:
		return nil, status.Error(codes.PermissionDenied, "policy: recipient not allowed")
	}
	return &signerv1.SignTransactionResponse{
		SignedTransaction: s.script.Transaction(unsigned(r)),
	}, nil
}

func (s *server) CheckAccount(_ context.Context,
	r *signerv1.CheckAccountRequest) (*signerv1.CheckAccountResponse, error) {
	if common.HexToAddress(r.GetAddress()) != signtest.Address(signtest.Key("account")) {
		return nil, status.Error(codes.NotFound, "no such key")
	}
	return &signerv1.CheckAccountResponse{}, nil
}

// unsigned reads a request as an implementation would.
func unsigned(r *signerv1.SignTransactionRequest) txn.Unsigned {
	u := txn.Unsigned{
		ChainID:  txn.ChainID(r.GetChainId()),
		From:     common.HexToAddress(r.GetFrom()),
		Nonce:    txn.Nonce(r.GetNonce()),
		GasLimit: r.GetGasLimit(),
	}
	if r.GetTo() != "" {
		to := common.HexToAddress(r.GetTo())
		u.Payload.To = &to
	}
	u.Payload.Data = r.GetData()
	u.Payload.Value = *uint256.MustFromDecimal(r.GetValue())
	if u.Fees.Legacy = r.GetGasPrice() != ""; u.Fees.Legacy {
		u.Fees.Cap = *uint256.MustFromDecimal(r.GetGasPrice())
		u.Fees.Tip = u.Fees.Cap
	} else {
		u.Fees.Cap = *uint256.MustFromDecimal(r.GetMaxFeePerGas())
		u.Fees.Tip = *uint256.MustFromDecimal(r.GetMaxPriorityFeePerGas())
	}
	return u
}

// connections can be reset.
type connections struct {
	net.Listener
	mu   sync.Mutex
	open []net.Conn
}

func (c *connections) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open = append(c.open, conn)
	}
	return conn, err
}

func (c *connections) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.open {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // closes with RST
		}
		_ = conn.Close()
	}
}

func TestSign_PurposeReachesSigner(t *testing.T) {
	t.Parallel()
	s := &server{script: signtest.NewScript(t)}
	h := open(t, endpoint.Endpoint{URL: "http://" + serve(t, s)})
	id := txn.TxID{1, 2, 3}
	u := txn.Unsigned{ChainID: 1, From: signtest.Address(signtest.Key("account")), GasLimit: 21000,
		Purpose: txn.Purpose{Submitter: "alice", TxID: id, RequestID: "order-7", Attempt: 3,
			Kind: txn.Cancel}}
	if _, err := h.Sign(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	r := s.last
	if r.GetSubmitter() != "alice" || r.GetTxId() != id.String() ||
		r.GetRequestId() != "order-7" || r.GetAttempt() != 3 ||
		r.GetKind() != signerv1.AttemptKind_ATTEMPT_KIND_CANCEL {
		t.Errorf("the signer received %v", r)
	}
}

func TestCheck_Unreachable_InTime(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	h := open(t, endpoint.Endpoint{URL: "http://127.0.0.1:" + strconv.Itoa(port)})
	book, err := sign.NewBook(sign.Entry{Name: "it", Holder: h, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := book.Check(t.Context(), "it"); !isUnavailable(err) {
		t.Errorf("check: %v", err)
	}
}

func isUnavailable(err error) bool { return errors.Is(err, txn.ErrUnavailable) }

// A signer that was away is used soon after its return, however long it was away.
func TestHolder_Reconnects(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	attempts := make(chan struct{}, 100)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
			attempts <- struct{}{}
		}
	}()
	h := open(t, endpoint.Endpoint{URL: "http://" + l.Addr().String()})
	account := signtest.Address(signtest.Key("account"))
	if err := h.Check(t.Context(), account); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("while away: %v", err)
	}
	late := time.After(8 * time.Second)
	for n := range 6 {
		select {
		case <-attempts:
		case <-late:
			t.Fatalf("%d attempts to connect", n)
		}
	}
}
