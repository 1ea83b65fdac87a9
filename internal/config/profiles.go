package config

import (
	"slices"
	"strings"
)

// custom is the profile without values: the defaults of the keys apply.
const custom = "custom"

// preset is the value of a key in a profile, and where it is defined.
type preset struct{ key, value, source string }

// profile holds the values of one kind of chain. The file, the environment and flags override each.
type profile struct {
	name    string
	text    string // of the reference
	presets []preset
}

// profiles lists the profiles in the order of the reference. Values are data with a source: change
// one only with a newer source.
var profiles = []profile{
	{"ethereum", "Ethereum and its testnets", []preset{
		{"poll_interval", "3s", "a block every 12 s"},
		{"finality.tag", "finalized", "checkpoints of the beacon chain; about 15 minutes"},
		{"gas.max_limit", "16777216", "EIP-7825"},
	}},
	{"op-stack", "OP Mainnet, Base and other chains of the OP Stack", []preset{
		{"poll_interval", "1s", "a block every 2 s or less"},
		{"finality.tag", "finalized", "the batch is in a finalized block of Ethereum"},
		{"fees.l1_fee", "op-stack", "contract GasPriceOracle, specification of Fjord and Isthmus"},
	}},
	{"arbitrum", "Arbitrum One, Nova and other chains of Nitro", []preset{
		{"poll_interval", "250ms", "up to four blocks a second"},
		{"finality.tag", "finalized", "the batch is in a finalized block of Ethereum"},
		{"gas.margin", "1.5", "gas includes the data on Ethereum, whose price changes until " +
			"the transaction executes"},
		{"gas.max_limit", "32000000", "limit of a transaction since ArbOS 50"},
	}},
	{"polygon", "Polygon PoS", []preset{
		{"poll_interval", "1s", "a block every 2 s or less"},
		{"finality.tag", "finalized", "milestones of Heimdall"},
		{"fees.min_tip_gwei", "25", "Bor's txpool.pricelimit, which it enforces"},
	}},
	{"bsc", "BNB Smart Chain", []preset{
		{"poll_interval", "400ms", "a block in less than a second"},
		{"finality.tag", "finalized", "BEP-126, fast finality"},
		{"fees.min_tip_gwei", "0.05", "minimum gas price of the validators; 0.1 on the testnet"},
	}},
	{"avalanche", "Avalanche C-Chain and its L1s", []preset{
		{"confirmations", "1", "a block that nodes report is accepted, and never reorganized"},
	}},
	{"linea", "Linea", []preset{
		{"gas.max_limit", "30000000", "Linea's default limit of a transaction in its pool"},
	}},
	{"zksync", "ZKsync Era and other chains of the ZK Stack", []preset{
		{"gas.max_limit", "80000000", "constant MAX_L2_TX_GAS_LIMIT"},
	}},
	{"monad", "Monad", []preset{
		{"poll_interval", "300ms", "a block every 300 ms"},
		{"finality.tag", "finalized", "MonadBFT, two blocks"},
		{"fees.min_price_gwei", "100", "minimum base fee"},
		{"gas.margin", "1.05", "a transaction pays for its gas limit, not for the gas used"},
		{"gas.max_limit", "30000000", "gas limit of a transaction"},
	}},
	{"dev", "development chains with instant blocks", []preset{
		{"poll_interval", "100ms", ""},
		{"confirmations", "1", ""},
		{"resubmit.interval", "5s", ""},
	}},
	{custom, "none of these: the defaults of the keys", nil},
}

// ProfileNames returns the names of all profiles.
func ProfileNames() []string {
	names := make([]string, len(profiles))
	for i, p := range profiles {
		names[i] = p.name
	}
	return names
}

// chainProfile defines the key of a chain that selects its profile. It must precede the keys that
// profiles set.
func chainProfile() field[Chain] {
	f := value("profile", oneOf(ProfileNames()...), custom,
		"The kind of chain, which sets the defaults of other keys of this chain: see [chain "+
			"profiles](#chain-profiles).",
		func(c *Chain) *string { return &c.Profile })
	read := f.read
	f.read = func(r *reader, e entry, into *Chain, at position) {
		read(r, e, into, at)
		i := slices.IndexFunc(profiles, func(p profile) bool { return p.name == into.Profile })
		if i < 0 {
			return // reported
		}
		for _, p := range profiles[i].presets {
			r.presets[strings.TrimSuffix(at.path, "profile")+p.key] = defaultValue{
				p.value, Origin{Layer: InProfile, Name: into.Profile},
			}
		}
	}
	return f
}

// defaultValue is the value of a key that is set nowhere.
type defaultValue struct {
	text   string
	origin Origin
}

// byDefault returns the default of a key: its profile's, else its own.
func (r *reader) byDefault(e entry, path string) defaultValue {
	if preset, ok := r.presets[path]; ok {
		return preset
	}
	return defaultValue{e.byDefault, Origin{Layer: ByDefault}}
}

func writeProfiles(b *strings.Builder) {
	b.WriteString("## Chain profiles\n\n" +
		"`chains.*.profile` sets the defaults of other keys for a kind of chain. A value in the " +
		"file, the\nenvironment or a flag has precedence. `fencepost config show` prints the " +
		"source of each value. Chains\nchange their rules: compare these values with the " +
		"documentation of your chain.\n\n" +
		"| profile | key | default | reason or source |\n|---|---|---|---|\n")
	for _, p := range profiles {
		b.WriteString("| `" + p.name + "` | | | " + p.text + " |\n")
		for _, v := range p.presets {
			b.WriteString("| | `" + v.key + "` | `" + v.value + "` | " + v.source + " |\n")
		}
	}
	b.WriteString("\n")
}
