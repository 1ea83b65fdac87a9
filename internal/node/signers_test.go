package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	signerv1 "github.com/fencepost/fencepost/gen/go/fencepost/signer/v1"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/sign/signtest"
	"github.com/fencepost/fencepost/txn"
)

// scriptedService has no key, or is unavailable.
type scriptedService struct {
	signerv1.UnimplementedSignerServiceServer
	code codes.Code
}

func (s scriptedService) CheckAccount(context.Context,
	*signerv1.CheckAccountRequest) (*signerv1.CheckAccountResponse, error) {
	return &signerv1.CheckAccountResponse{}, status.Error(s.code, "scripted")
}

// TestSigners_AtStart: a node starts without an available signer, but not with one that lacks a
// configured key. A check of the configuration reports both.
func TestSigners_AtStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code    codes.Code
		starts  bool
		checked bool
	}{
		"has the key":   {codes.OK, true, true},
		"unavailable":   {codes.Unavailable, true, false},
		"lacks the key": {codes.NotFound, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			g := grpc.NewServer()
			signerv1.RegisterSignerServiceServer(g, scriptedService{code: c.code})
			go func() { _ = g.Serve(l) }()
			defer g.Stop()
			keys := filepath.Join(t.TempDir(), "keys")
			account := signtest.Address(signtest.Key("account"))
			if err := os.WriteFile(keys, []byte(account.Hex()), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg := &config.Config{Signers: []config.Signer{{
				Name: "it", KeysFile: keys, Timeout: 2 * time.Second,
				Service: &config.RemoteSigner{URL: "http://" + l.Addr().String()},
			}}}
			log := slog.New(slog.DiscardHandler)
			book, err := openSigners(t.Context(), cfg, log)
			if err != nil {
				t.Fatal(err)
			}
			defer book.Close()
			err = checkSigners(t.Context(), book, log)
			if (err == nil) != c.starts || !c.starts && !errors.Is(err, txn.ErrKeyMissing) {
				t.Errorf("at start: %v", err)
			}
			n, err := CheckFiles(t.Context(), cfg, log, false)
			if (err == nil) != c.checked || n != 1 {
				t.Errorf("check of the configuration: %d keys, %v", n, err)
			}
			if _, err := CheckFiles(t.Context(), cfg, log, true); err != nil {
				t.Errorf("offline check: %v", err)
			}
		})
	}
}

// slowSigner has many keys, each of which takes a while to check.
type slowSigner struct {
	sign.Holder
	takes time.Duration
	err   error
}

func (slowSigner) Addresses(context.Context) ([]txn.Address, error) {
	all := make([]txn.Address, 200)
	for i := range all {
		all[i] = txn.Address{byte(i)}
	}
	return all, nil
}

func (s slowSigner) Check(ctx context.Context, _ txn.Address) error {
	return errors.Join(clock.Sleep(ctx, clock.Real{}, s.takes), s.err)
}

// A signer that is slow or faulty delays the start for a bounded time, and does not stop it.
func TestSigners_AtStart_SlowOrFaulty(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]slowSigner{
		"slow":   {takes: 9 * time.Second},
		"faulty": {err: txn.ErrSignerFault},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				book, err := sign.NewBook(sign.Entry{Name: "it", Holder: s})
				if err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				err = checkSigners(t.Context(), book, slog.New(slog.DiscardHandler))
				if took := time.Since(begin); err != nil || took > startCheck {
					t.Errorf("after %s: %v", took, err)
				}
			})
		})
	}
}
