package node

import (
	"slices"
	"testing"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// What is registered is what the configuration says, and what it leaves out is the default.
func TestRegistration(t *testing.T) {
	t.Parallel()
	cfg := &config.Config{Chains: []config.Chain{{Name: "one", ChainID: 1}, {Name: "two", ChainID: 2}}}
	full := config.Submitter{Name: "alice", Chain: "two", Signer: "local", Mode: "strict", StartFrom: "chain", OnFailure: "pause", MaxFee: uint256.NewInt(7)}
	want := store.Registration{Name: "alice", Chain: 2, Signer: "local", Mode: txn.Strict, StartFrom: "chain"}
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

// Policies that the configuration leaves out are nobody's difference.
func TestDiffering(t *testing.T) {
	t.Parallel()
	ledger := store.SubmitterInfo{Submitter: txn.Submitter{OnFailure: txn.PauseOnFailure, MaxFee: *uint256.NewInt(7)}}
	for name, c := range map[string]struct {
		says config.Submitter
		want []string
	}{
		"nothing":     {config.Submitter{}, nil},
		"the same":    {config.Submitter{OnFailure: "pause", MaxFee: uint256.NewInt(7)}, nil},
		"other":       {config.Submitter{OnFailure: "continue", MaxFee: uint256.NewInt(8)}, []string{"on_failure", "max_fee_gwei"}},
		"no limit":    {config.Submitter{MaxFee: new(uint256.Int)}, []string{"max_fee_gwei"}},
		"only policy": {config.Submitter{OnFailure: "continue"}, []string{"on_failure"}},
	} {
		if got := differing(c.says, ledger); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Gas limits of callers are trusted only where the configuration says so.
func TestSimulation(t *testing.T) {
	t.Parallel()
	for says, trusts := range map[string]bool{"always": false, "without-gas-limit": true} {
		if o := chainOptions(config.Chain{Prepare: config.Prepare{Simulate: says}}, nil, nil); o.TrustGasLimits != trusts {
			t.Errorf("simulate: %s: %+v", says, o)
		}
	}
}
