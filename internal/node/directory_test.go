package node

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/store"
)

// TestStart_DirectoryAway_OthersRegistered: a node that cannot ask the directory starts with the
// submitters that are registered.
func TestStart_DirectoryAway_OthersRegistered(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	open := func(c store.Config) *store.Store {
		c.URL, c.Schema = db.URL, db.Schema
		c.Node = "a/1"
		s, err := store.Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	cfg := &config.Config{Chains: []config.Chain{{Name: "one", ChainID: 1}}}
	alice := config.Submitter{Name: "alice", Chain: "one", Signer: "local", StartFrom: "0"}
	bob := alice
	bob.Name, bob.Address = "bob", [20]byte{1}
	joined := open(store.Config{Directory: open(store.Config{})})
	if _, err := joined.JoinDirectory(t.Context(), "eu1"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := joined.Register(t.Context(), registration(cfg, alice)); err != nil {
		t.Fatal(err)
	}
	away := open(store.Config{Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("the directory is away")
	}})
	var log bytes.Buffer
	cfg.Submitters = []config.Submitter{bob, alice}
	n := &ledger{cfg: cfg, log: slog.New(slog.NewTextHandler(&log, nil)),
		store: open(store.Config{Directory: away})}
	if err := n.registerAll(t.Context(), func() {}); err != nil {
		t.Fatal(err)
	}
	there, err := n.store.Registered(t.Context(), []string{"alice", "bob"})
	if err != nil || len(there) != 1 {
		t.Errorf("registered: %v %v", there, err)
	}
	if !strings.Contains(log.String(), "submitter=bob") {
		t.Errorf("bob is not in the log: %s", &log)
	}
}
