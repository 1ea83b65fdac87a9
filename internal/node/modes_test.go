package node

import (
	"testing"

	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// TestRegistration_NodesDisagree_OneMode: of two nodes whose configurations name different modes,
// the one that registers the account sets its mode, and the other one accepts that.
func TestRegistration_NodesDisagree_OneMode(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	s, err := store.Open(t.Context(),
		store.Config{URL: db.URL, Schema: db.Schema, Node: "a/1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	cfg := &config.Config{Chains: []config.Chain{{Name: "one", ChainID: 1}}}
	strict := config.Submitter{Name: "alice", Chain: "one", Signer: "local", StartFrom: "0"}
	pipelined := strict
	pipelined.Mode, pipelined.MaxInFlight = "pipelined", 8
	for i, of := range []config.Submitter{pipelined, strict, pipelined} {
		r := registration(cfg, of)
		info, created, err := s.Register(t.Context(), r)
		if err != nil || created != (i == 0) || info.Mode != txn.Pipelined || info.Limit != 8 {
			t.Fatalf("registration %d: %+v %v", i, info, err)
		}
		if !r.As(info.Submitter) {
			t.Errorf("registration %d does not start with %+v", i, info.Submitter)
		}
	}
	strict.Mode = "strict"
	info, _, err := s.Register(t.Context(), registration(cfg, strict))
	if err != nil || len(differing(strict, info.Submitter)) != 1 {
		t.Errorf("the difference is not logged: %+v %v", info, err)
	}
}
