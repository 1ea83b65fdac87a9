package config

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holiman/uint256"
)

func withProfile(name string) string {
	return strings.Replace(example, "    poll_interval: 250ms", "    profile: "+name, 1)
}

func TestProfiles(t *testing.T) {
	t.Parallel()
	for _, p := range profiles {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			c, err := Load(Source{File: write(t, withProfile(p.name))})
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range p.presets {
				got := find(t, c, "chains.dev."+v.key)
				if want := (Setting{got.Key, v.value, "profile " + p.name}); got != want {
					t.Errorf("%+v, want %+v", got, want)
				}
				if v.source == "" && p.name != "dev" {
					t.Errorf("%s of %s has no source", v.key, p.name)
				}
			}
			set := 0
			for _, s := range c.Settings {
				if strings.HasPrefix(s.From, "profile ") {
					set++
				}
			}
			if set != len(p.presets) {
				t.Errorf("%d settings come from the profile, want %d", set, len(p.presets))
			}
		})
	}
}

func TestProfile_ValueSet_HasPrecedence(t *testing.T) {
	t.Parallel()
	text := strings.Replace(withProfile("polygon"), "    profile:",
		"    fees: {min_tip_gwei: 30}\n    profile:", 1)
	file := write(t, text)
	c, err := Load(Source{File: file,
		Environ: []string{"FENCEPOST_CHAINS_DEV_POLL_INTERVAL=7s"},
		Set:     []string{"chains.dev.finality.tag=safe"}})
	if err != nil {
		t.Fatal(err)
	}
	chain := c.Chains[0]
	if chain.Fees.MinTip != *uint256.NewInt(30e9) || chain.PollInterval != 7*time.Second ||
		chain.Finality.Tag != "safe" {
		t.Errorf("%+v", chain)
	}
	if c, err = Load(Source{File: file, Set: []string{"chains.dev.profile=monad"}}); err != nil {
		t.Fatal(err)
	}
	if got := find(t, c, "chains.dev.gas.margin").Value; got != "1.05" {
		t.Errorf("margin %s: the profile of the flag does not apply", got)
	}
}

func TestProfile_OtherChain_Unchanged(t *testing.T) {
	t.Parallel()
	text := strings.Replace(withProfile("bsc"), "signers:",
		"  - {name: two, chain_id: 5, rpc: [http://two]}\nsigners:", 1)
	c, err := Load(Source{File: write(t, text)})
	if err != nil {
		t.Fatal(err)
	}
	if got := find(t, c, "chains.two.finality.tag"); got.From != "default" {
		t.Errorf("%+v", got)
	}
}

func TestProfile_Unknown_Reported(t *testing.T) {
	t.Parallel()
	_, problems, err := Survey(Source{File: write(t, withProfile("polygn"))})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(problems, func(p Problem) bool {
		return p.Key == "chains.dev.profile" && strings.Contains(p.Remedy, `"polygon"`)
	}) {
		t.Errorf("%v", problems)
	}
}
