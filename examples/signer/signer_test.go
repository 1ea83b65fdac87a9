package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holiman/uint256"
	"google.golang.org/grpc"

	signerv1 "github.com/fencepost/fencepost/gen/go/fencepost/signer/v1"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/sign/endpoint"
	"github.com/fencepost/fencepost/sign/service"
	"github.com/fencepost/fencepost/sign/signtest"
	"github.com/fencepost/fencepost/txn"
)

// newPolicy allows the recipient of the suite, and 100 wei a day.
func newPolicy(t *testing.T, log string) *policy {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.json")
	text := `{"recipients": ["` + signtest.Address(signtest.Key("recipient")).Hex() +
		`"], "wei_per_day": "100"}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := openPolicy(file, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.log.Close() })
	return p
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	p := newPolicy(t, log)
	friend := signtest.Address(signtest.Key("recipient")).Hex()
	other := signtest.Address(signtest.Key("thief")).Hex()
	monday := time.Date(2026, 11, 30, 23, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name      string
		nonce     uint64
		to, value string
		kind      signerv1.AttemptKind
		at        time.Time
		allowed   bool
	}{
		{"first", 0, friend, "60", 1, monday, true},
		{"its replacement", 0, friend, "60", 2, monday, true},
		{"replacement with a higher value", 0, friend, "101", 2, monday, false},
		{"above the limit", 1, friend, "41", 1, monday, false},
		{"up to the limit", 2, friend, "40", 1, monday, true},
		{"other recipient", 3, other, "0", 1, monday, false},
		{"new contract", 4, "", "0", 1, monday, false},
		{"cancel", 0, "self", "0", 3, monday, true},
		{"cancel that sends", 5, other, "1", 3, monday, false},
		{"replacement on the next day", 0, friend, "60", 2, monday.Add(2 * time.Hour), true},
		{"next day", 1, friend, "100", 1, monday.Add(2 * time.Hour), true},
		{"overflow", 6, friend, new(uint256.Int).SetAllOne().Dec(), 1, monday, false},
	} {
		r := &signerv1.SignTransactionRequest{From: "self", To: c.to, Value: c.value,
			Nonce: c.nonce, TxId: "same", Kind: c.kind}
		err := p.allow(r, c.at)
		var refused refusal
		if (err == nil) != c.allowed || err != nil && !errors.As(err, &refused) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	again := newPolicy(t, log) // a restart forgets nothing
	r := &signerv1.SignTransactionRequest{From: "self", To: friend, Value: "1", Nonce: 7}
	if err := again.allow(r, monday); err == nil {
		t.Error("after a restart the limit was gone")
	}
	r.Nonce, r.Value = 0, "60"
	if err := again.allow(r, monday); err != nil {
		t.Errorf("after a restart, a replacement: %v", err)
	}
}

// TestServer signs through Fencepost's client, whose book verifies the results.
func TestServer(t *testing.T) {
	t.Parallel()
	p := newPolicy(t, filepath.Join(t.TempDir(), "log"))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	signerv1.RegisterSignerServiceServer(g,
		&server{keys: sign.NewMemory(signtest.Key("account")), policy: p})
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)
	h, err := service.Open(endpoint.Endpoint{URL: "http://" + l.Addr().String()},
		signtest.Keys(t, false))
	if err != nil {
		t.Fatal(err)
	}
	book, err := sign.NewBook(sign.Entry{Name: "it", Holder: h})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(book.Close)
	random := rand.New(rand.NewPCG(1, 2))
	ask := func(to, from string, wei uint64) error {
		u := signtest.Request(random)
		recipient := signtest.Address(signtest.Key(to))
		u.From, u.Payload.To = signtest.Address(signtest.Key(from)), &recipient
		u.Payload.Value = *uint256.NewInt(wei)
		_, err := book.Sign(context.Background(), "it", u)
		return err
	}
	for range 50 {
		if err := ask("recipient", "account", 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := ask("thief", "account", 0); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("another recipient: %v", err)
	}
	if err := ask("recipient", "absent", 0); !errors.Is(err, txn.ErrKeyMissing) {
		t.Errorf("an account without a key: %v", err)
	}
}
