package config

import (
	"slices"
	"testing"

	"github.com/holiman/uint256"
)

// TestUnapprovable: approve_above needs another caller that may approve, on each account.
func TestUnapprovable(t *testing.T) {
	t.Parallel()
	shop := Caller{Name: "shop", Submitters: []string{"alice", "bob"}, Pools: []string{"pay"},
		Approve: true, Policy: CallerPolicy{ApproveAbove: uint256.NewInt(5)}}
	dry := shop
	dry.Policy.DryRun = true
	all := Caller{Name: "shop", Submitters: []string{"*"}, Policy: shop.Policy}
	approver := func(submitters ...string) Caller {
		return Caller{Submitters: submitters, Approve: true}
	}
	for name, c := range map[string]struct {
		callers []Caller
		want    []string
	}{
		"only itself": {[]Caller{shop}, []string{"alice", "bob", "pay"}},
		"without the right": {[]Caller{shop, {Submitters: []string{"*"}}},
			[]string{"alice", "bob", "pay"}},
		"on one of them":          {[]Caller{shop, approver("bob")}, []string{"alice"}},
		"on a member of the pool": {[]Caller{shop, approver("alice", "bob", "carol")}, nil},
		"on another pool": {[]Caller{shop, {Pools: []string{"other"}, Approve: true}},
			[]string{"alice", "bob", "pay"}},
		"of all": {[]Caller{approver("*"), shop}, nil},
		"several": {[]Caller{shop, approver("bob"), approver("alice"),
			{Pools: []string{"pay"}, Approve: true}}, nil},
		"an operator": {[]Caller{shop, {Submitters: []string{"*"}, Role: "operator"}},
			nil},
		"all, approved on one": {[]Caller{all, approver("bob")}, []string{"*"}},
		"only reported":        {[]Caller{dry}, nil},
		"without a limit":      {[]Caller{{Submitters: []string{"alice"}}}, nil},
	} {
		cfg := &Config{Callers: c.callers}
		var got []string
		for _, u := range cfg.Unapprovable() {
			got = append(got, u.Accounts...)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
