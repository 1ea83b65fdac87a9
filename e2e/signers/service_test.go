package signers

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/holiman/uint256"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	signerv1 "github.com/fencepost/fencepost/gen/go/fencepost/signer/v1"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/sign/endpoint"
	"github.com/fencepost/fencepost/sign/service"
	"github.com/fencepost/fencepost/sign/signtest"
	"github.com/fencepost/fencepost/sign/signtest/peers"
	"github.com/fencepost/fencepost/txn"
)

// TestService_Faults runs the whole suite with the example of a signer, behind a proxy.
func TestService_Faults(t *testing.T) {
	t.Parallel()
	client := exampleSigner(t)
	signtest.Run(t, signtest.Subject{
		Count: proxied,
		Open: func(t *testing.T, s *signtest.Script) sign.Holder {
			return openService(t, &serviceProxy{script: s, signer: client})
		},
	})
}

// TestService runs the suite with the example of a signer.
func TestService(t *testing.T) {
	t.Parallel()
	client := exampleSigner(t)
	signtest.RunReal(t, signtest.Subject{
		Open: func(t *testing.T, s *signtest.Script) sign.Holder {
			return openService(t, &serviceProxy{script: s, signer: client})
		},
	})
}

// exampleSigner runs examples/signer with two keys and a policy that allows everything.
func exampleSigner(t *testing.T) signerv1.SignerServiceClient {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "signer")
	if text, err := exec.CommandContext(t.Context(), "go", "build", "-o", program,
		"../../examples/signer").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	keys, err := peers.Keys(filepath.Join(dir, "keys"), signtest.Key("account"),
		signtest.Key("other"))
	if err != nil {
		t.Fatal(err)
	}
	policy := filepath.Join(dir, "policy.json")
	recipients, err := json.Marshal(map[string]any{
		"recipients": []common.Address{
			signtest.Address(signtest.Key("recipient")), signtest.Address(signtest.Key("thief")),
		},
		"deploy":      true,
		"wei_per_day": "1000000000000000000000000",
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(policy, recipients, 0o600); err != nil {
		t.Fatal(err)
	}
	listen := port(t)
	address := "127.0.0.1:" + listen
	p, err := peers.Run(t.Context(), exec.Command(program, "-listen", address, "-keys", keys.Dir,
		"-password-file", keys.PasswordFile, "-policy", policy,
		"-log", filepath.Join(dir, "allowed.log")), listen)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	conn, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return signerv1.NewSignerServiceClient(conn)
}

func openService(t *testing.T, p *serviceProxy) sign.Holder {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.listener = &connections{Listener: l}
	g := grpc.NewServer()
	signerv1.RegisterSignerServiceServer(g, p)
	go func() { _ = g.Serve(p.listener) }()
	t.Cleanup(g.Stop)
	h, err := service.Open(endpoint.Endpoint{URL: "http://" + l.Addr().String()},
		signtest.Keys(t, false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// serviceProxy is a SignerService before another one.
type serviceProxy struct {
	signerv1.UnimplementedSignerServiceServer
	script   *signtest.Script
	signer   signerv1.SignerServiceClient
	listener *connections
}

// SignTransaction forwards the transaction of the script.
func (p *serviceProxy) SignTransaction(ctx context.Context,
	r *signerv1.SignTransactionRequest) (*signerv1.SignTransactionResponse, error) {
	switch p.script.Fault() {
	case signtest.Hangs:
		p.script.Hang(ctx)
		return nil, status.FromContextError(ctx.Err()).Err()
	case signtest.Throttled:
		return nil, status.Error(codes.ResourceExhausted, "slow down")
	case signtest.Reset:
		p.listener.reset()
		return nil, status.Error(codes.Unavailable, "going away")
	case signtest.Broken:
		return nil, status.Error(codes.Internal, "broken")
	case signtest.Denied:
		return nil, status.Error(codes.PermissionDenied, "policy: recipient not allowed")
	}
	p.edit(r)
	return p.signer.SignTransaction(ctx, r)
}

// edit makes a request ask for the script's transaction.
func (p *serviceProxy) edit(r *signerv1.SignTransactionRequest) {
	u := txn.Unsigned{
		ChainID: txn.ChainID(r.GetChainId()), Nonce: txn.Nonce(r.GetNonce()),
		GasLimit: r.GetGasLimit(),
	}
	u.Payload.Data, u.Payload.Value = r.GetData(), *uint256.MustFromDecimal(r.GetValue())
	u.Fees.Legacy = r.GetGasPrice() != ""
	limit, tip := r.GetMaxFeePerGas(), r.GetMaxPriorityFeePerGas()
	if u.Fees.Legacy {
		limit, tip = r.GetGasPrice(), r.GetGasPrice()
	}
	u.Fees.Cap, u.Fees.Tip = *uint256.MustFromDecimal(limit), *uint256.MustFromDecimal(tip)
	if r.GetTo() != "" {
		to := common.HexToAddress(r.GetTo())
		u.Payload.To = &to
	}
	u = p.script.Edit(u)
	if p.script.OtherKey() {
		r.From = signtest.Address(signtest.Key("other")).Hex()
	}
	r.ChainId, r.Nonce = uint64(u.ChainID), uint64(u.Nonce)
	r.GasLimit = u.GasLimit
	r.Data, r.Value = u.Payload.Data, u.Payload.Value.Dec()
	if r.To = ""; u.Payload.To != nil {
		r.To = u.Payload.To.Hex()
	}
	if u.Fees.Legacy {
		r.GasPrice = u.Fees.Cap.Dec()
		r.MaxFeePerGas, r.MaxPriorityFeePerGas = "", ""
	} else {
		r.GasPrice = ""
		r.MaxFeePerGas, r.MaxPriorityFeePerGas = u.Fees.Cap.Dec(), u.Fees.Tip.Dec()
	}
}

// CheckAccount forwards.
func (p *serviceProxy) CheckAccount(ctx context.Context,
	r *signerv1.CheckAccountRequest) (*signerv1.CheckAccountResponse, error) {
	return p.signer.CheckAccount(ctx, r)
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
		_ = conn.(*net.TCPConn).SetLinger(0) // closes with RST
		_ = conn.Close()
	}
	c.open = nil
}
