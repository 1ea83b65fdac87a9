package node

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/internal/dbtest/pgproxy"
	"github.com/fencepost/fencepost/sign/signtest"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// The registration follows the configuration, with defaults.
func TestRegistration(t *testing.T) {
	t.Parallel()
	cfg := &config.Config{
		Chains: []config.Chain{{Name: "one", ChainID: 1}, {Name: "two", ChainID: 2}},
	}
	full := config.Submitter{
		Name:      "alice",
		Chain:     "two",
		Signer:    "local",
		Mode:      "strict",
		StartFrom: "chain",
		OnFailure: "pause",
		MaxFee:    uint256.NewInt(7),
	}
	want := store.Registration{
		Name:      "alice",
		Chain:     2,
		Signer:    "local",
		Mode:      txn.Strict,
		AnyMode:   true,
		StartFrom: "chain",
	}
	want.OnFailure, want.MaxFee = txn.PauseOnFailure, *uint256.NewInt(7)
	if got := registration(cfg, full); got != want {
		t.Errorf("registered %+v, want %+v", got, want)
	}
	full.OnFailure, full.MaxFee = "", nil
	want.Policies = store.Policies{}
	if got := registration(cfg, full); got != want {
		t.Errorf("registered %+v, want %+v", got, want)
	}
}

// Policies that are not configured never differ.
func TestDiffering(t *testing.T) {
	t.Parallel()
	ledger := txn.Submitter{
		OnFailure: txn.PauseOnFailure, MaxFee: *uint256.NewInt(7), Mode: txn.Pipelined, Limit: 8,
	}
	for name, c := range map[string]struct {
		says config.Submitter
		want []string
	}{
		"nothing":  {config.Submitter{}, nil},
		"the same": {config.Submitter{OnFailure: "pause", MaxFee: uint256.NewInt(7)}, nil},
		"other": {
			config.Submitter{OnFailure: "continue", MaxFee: uint256.NewInt(8)},
			[]string{"on_failure", "max_fee_gwei"},
		},
		"the same mode": {config.Submitter{Mode: "pipelined", MaxInFlight: 8}, nil},
		"another mode": {
			config.Submitter{Mode: "strict", MaxInFlight: 1}, []string{"mode", "max_in_flight"},
		},
		"no limit":    {config.Submitter{MaxFee: new(uint256.Int)}, []string{"max_fee_gwei"}},
		"only policy": {config.Submitter{OnFailure: "continue"}, []string{"on_failure"}},
	} {
		if got := differing(c.says, ledger); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Gas limits of clients are trusted only if configured.
func TestSimulation(t *testing.T) {
	t.Parallel()
	for says, trusts := range map[string]bool{"always": false, "without-gas-limit": true} {
		if o := chainOptions(
			config.Chain{Prepare: config.Prepare{Simulate: says}}, nil, nil,
		); o.TrustGasLimits != trusts {
			t.Errorf("simulate: %s: %+v", says, o)
		}
	}
}

// A restarted node reads all submitters with one query, and writes only new or changed ones.
func TestSubmitterAdd_Again(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	proxy, err := pgproxy.Start(db.NodeURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	s, err := store.Open(t.Context(),
		store.Config{URL: proxy.URL(), Schema: db.Schema, Node: "a/boot"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var asked, registered atomic.Int32
	proxy.On(func(m pgproxy.Message) bool {
		if m.Type == 'E' && strings.Contains(m.SQL, "name: SubmittersOf ") {
			asked.Add(1)
		}
		if m.Type == 'E' && strings.Contains(m.SQL, "name: RegisterSubmitter ") {
			registered.Add(1)
		}
		return false
	}, pgproxy.CutMidway)
	cfg := &config.Config{Chains: []config.Chain{{Name: "one", ChainID: 1}}}
	for i := range 20 {
		cfg.Submitters = append(
			cfg.Submitters,
			config.Submitter{
				Name:      fmt.Sprint("s", i),
				Chain:     "one",
				Address:   txn.Address{byte(i + 1)},
				Signer:    "local",
				Mode:      "strict",
				StartFrom: "0",
			},
		)
	}
	var log bytes.Buffer
	n := &ledger{cfg: cfg, store: s, log: slog.New(slog.NewTextHandler(&log, nil))}
	again := func(what string, asks, writes int32) {
		t.Helper()
		asked.Store(0)
		registered.Store(0)
		if err := n.registerAll(
			t.Context(), func() { t.Error("the database answers") },
		); err != nil {
			t.Fatal(err)
		}
		if a, r := asked.Load(), registered.Load(); a != asks || r != writes {
			t.Errorf("%s: asked %d times and registered %d, want %d and %d", what, a, r, asks,
				writes)
		}
	}
	again("all are new", 1, 20)
	again("all are there", 1, 0)
	cfg.Submitters[3].StartFrom, cfg.Submitters[4].OnFailure = "7", "pause"
	again("one is corrected", 1, 1)
	if !strings.Contains(log.String(), "submitter=s4 keys=on_failure") {
		t.Errorf("logged %s", log.String())
	}
	cfg.Submitters[5].Signer = "other"
	if err := n.registerAll(t.Context(), func() {}); !errors.Is(err, store.ErrSubmitterExists) {
		t.Errorf("another signer: %v", err)
	}
	if few, many := settleLimit(&config.Config{}), settleLimit(cfg); many != few+20*time.Second {
		t.Errorf("%s to start with 20 submitters, %s without any", many, few)
	}
}

// TestKeys_External_NotNeeded: a submitter whose clients sign needs no key, any other does.
func TestKeys_External_NotNeeded(t *testing.T) {
	t.Parallel()
	keys := filepath.Join(t.TempDir(), "keys")
	held := signtest.Address(signtest.Key("held"))
	if err := os.WriteFile(keys, []byte(held.Hex()), 0o600); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	for mode, needed := range map[string]bool{
		"": true, "strict": true, "pipelined": true, "external": false,
	} {
		cfg := &config.Config{
			Signers: []config.Signer{{
				Name: "it", KeysFile: keys,
				Service: &config.RemoteSigner{URL: "http://127.0.0.1:1"},
			}},
			Submitters: []config.Submitter{{
				Name: "hot", Signer: "it", Mode: mode,
				Address: signtest.Address(signtest.Key("other")),
			}},
		}
		book, err := openSigners(t.Context(), cfg, log)
		if err != nil {
			t.Fatal(err)
		}
		defer book.Close()
		if err := checkKeys(t.Context(), cfg, book); (err != nil) != needed {
			t.Errorf("mode %q: at start: %v", mode, err)
		}
		if _, err := CheckFiles(t.Context(), cfg, log, true); (err != nil) != needed {
			t.Errorf("mode %q: check of the configuration: %v", mode, err)
		}
	}
}
