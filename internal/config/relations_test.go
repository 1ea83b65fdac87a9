package config

import (
	"strings"
	"testing"
)

func TestRelations(t *testing.T) {
	t.Parallel()
	second := func(keys string) string {
		return strings.Replace(example, "signers:",
			"  - {name: two, rpc: [http://two], "+keys+"}\nsigners:", 1)
	}
	submitter := func(keys string) string {
		return example + "  - {name: bob, signer: local, " +
			keys + "}\n"
	}
	twoEndpoints := strings.Replace(example, "rpc: [http://127.0.0.1:8545]",
		"rpc: [http://a:1, http://b:1]", 1)
	fourEndpoints := strings.Replace(example, "rpc: [http://127.0.0.1:8545]",
		"rpc: [http://a:1, http://b:1, http://c:1, http://d:1]", 1)
	topUps := func(rules string) string {
		return strings.Replace(example, "    rpc: [http://127.0.0.1:8545]",
			"    rpc: [http://127.0.0.1:8545]\n    balance: {top_ups: ["+rules+"]}", 1)
	}
	const gas = "{name: gas, from: bank, below: 5, to: 10, max_per_day: 5"
	for name, c := range map[string]struct {
		text string
		set  []string
		want string // parts of the problem, separated by "|"; empty: no problem
	}{
		"top-up": {topUps(gas + "}"), nil, ""},
		"top-up to too little": {topUps(gas + "}"),
			[]string{"chains.dev.balance.top_ups.gas.to=5"},
			"--set: chains.dev.balance.top_ups.gas.to:|5|5"},
		"top-up beyond its day": {topUps(gas + "}"),
			[]string{"chains.dev.balance.top_ups.gas.max_per_day=4"},
			"--set: chains.dev.balance.top_ups.gas.max_per_day:|4|5"},
		"top-up of the treasury": {topUps(gas + ", submitters: [alice, bank]}"), nil,
			"chains.dev.balance.top_ups.gas.from:|bank"},
		"top-ups in a circle": {topUps(gas + ", submitters: [vault]}, {name: other, from: vault, " +
			"below: 5, to: 10, max_per_day: 5, submitters: [bank]}"), nil, "from:|bank|vault"},
		"top-ups in a row": {topUps(gas + ", submitters: [alice]}, {name: other, from: vault, " +
			"below: 5, to: 10, max_per_day: 5, submitters: [bank]}"), nil, ""},
		"treasury of another chain": {strings.Replace(topUps(gas+"}"), "signers:",
			"  - {name: two, rpc: [http://two]}\nsigners:", 1) +
			"  - {name: bank, signer: local, chain: two, address: \"0x" +
			strings.Repeat("2", 40) + "\"}\n", nil,
			"chains.dev.balance.top_ups.gas.from:|bank|two"},
		"renewal at a third": {example,
			[]string{"lease.duration=12s", "lease.renew_interval=4s"}, ""},
		"renewal after a third": {example,
			[]string{"lease.duration=12s", "lease.renew_interval=4001ms"},
			"--set: lease.renew_interval:|12s|4.001s"},
		"lease too short": {example + "lease: {duration: 9s, renew_interval: 3s}\n",
			[]string{"lease.renew_interval=2s"}, "config.yaml:20: lease.duration:|statement|3s"},
		"lease of 5s": {example + "lease: {duration: 5s, renew_interval: 1s}\n", nil,
			"a lease of 5s|database.statement_timeout|1.66s|lease.duration|9s"},
		"statement below a third": {example, []string{"database.statement_timeout=3333ms"}, ""},
		"statement at a third": {example,
			[]string{"lease.duration=9s", "database.statement_timeout=3s"},
			"database.statement_timeout:|statement"},
		"progress within a lease": {example, []string{"lease.progress_timeout=10s"},
			"--set: lease.progress_timeout:|stuck after 10s|lease of 10s"},
		"progress after a lease": {example,
			[]string{"lease.progress_timeout=10001ms", "chains.dev.rpc_timeout=1s",
				"signers.local.timeout=1s"}, ""},
		"progress within a call": {example, []string{"chains.dev.rpc_timeout=1m"},
			"--set: chains.dev.rpc_timeout: |after 48s|1m10s: 1 times rpc_timeout (1m)|signature " +
				"(10s)|at least 1m27.5s"},
		"progress within a wait": {example, []string{"signers.local.timeout=39s"},
			"--set: signers.local.timeout: |after 48s|49s"},
		"progress of a step": {example, []string{"signers.local.timeout=38s"}, ""},
		"progress of two calls": {twoEndpoints, []string{"chains.dev.rpc_timeout=20s"},
			"--set: chains.dev.rpc_timeout: |after 48s|50s: 2 times rpc_timeout (20s)"},
		"two calls are enough": {twoEndpoints, []string{"chains.dev.rpc_timeout=19s"}, ""},
		"progress of three calls": {fourEndpoints, []string{"lease.progress_timeout=49s"},
			"--set: lease.progress_timeout: |after 39.2s|40s: 3 times rpc_timeout (10s)"},
		"no round calls four":      {fourEndpoints, []string{"lease.progress_timeout=50s"}, ""},
		"audit depth left out":     {example, []string{"chains.dev.finality.audit_depth=0"}, ""},
		"audit depth of the final": {example, []string{"chains.dev.finality.audit_depth=20"}, ""},
		"audit depth too small": {example, []string{"chains.dev.finality.audit_depth=19"},
			"--set: chains.dev.finality.audit_depth:|depth 19|final at 20|at least 20"},
		"audit depth at most": {example, []string{"chains.dev.finality.audit_depth=4094"}, ""},
		"audit depth beyond all": {example, []string{"chains.dev.finality.audit_depth=4095"},
			"--set: chains.dev.finality.audit_depth: 4095 is out of range"},
		"listeners": {example, []string{"ops.listen=127.0.0.1:9090"},
			"ops.listen: grpc.listen and ops.listen are both 127.0.0.1:9090"},
		"any ports": {example,
			[]string{"ops.listen=127.0.0.1:0", "grpc.listen=127.0.0.1:0"}, ""},
		"key without certificate": {example, []string{"grpc.tls.key_file=k"},
			"--set: grpc.tls.key_file:|certificate and its key"},
		"certificate without key": {example + "grpc: {tls: {cert_file: c}}\n", nil,
			"config.yaml:20: grpc.tls.cert_file:|certificate and its key"},
		"certificate and key": {example,
			[]string{"grpc.tls.cert_file=c", "grpc.tls.key_file=k", "grpc.listen=:9090",
				"grpc.tokens_file=t"}, ""},
		"callers' certificates": {example, []string{"grpc.tls.client_ca_file=a"},
			"--set: grpc.tls.client_ca_file:|only over TLS"},
		"tokens for this machine": {example,
			[]string{"grpc.tokens_file=t", "grpc.listen=[::1]:9090"}, ""},
		"tokens in plain text": {example, []string{"grpc.tokens_file=t", "grpc.listen=:9090"},
			"grpc.tokens_file: |plain text"},
		"a caller by token": {example + "callers: [{name: shop, tokens_file: t, " +
			"submitters: [alice]}]\n", nil, ""},
		"a caller by certificate": {example + "callers: [{name: shop, certificates: " +
			"[\"cn:shop\"], submitters: [\"*\"], role: operator}]\n",
			[]string{"grpc.tls.cert_file=c", "grpc.tls.key_file=k", "grpc.tls.client_ca_file=a"},
			""},
		"a caller's tokens, open": {example + "callers: [{name: shop, tokens_file: t, " +
			"submitters: [alice]}]\n", []string{"grpc.listen=:9090"},
			"--set: grpc.listen: |plain text"},
		"a caller of nothing": {example + "callers: [{name: shop, submitters: [alice]}]\n",
			nil, "config.yaml:20: callers.shop:|credentials"},
		"a caller without account": {example + "callers: [{name: shop, tokens_file: t}]\n", nil,
			"callers.shop: the caller has no rights"},
		"a caller of any account": {example + "callers: [{name: shop, tokens_file: t, " +
			"submitters: [al*]}]\n", nil, "callers.shop.submitters[0]: \"al*\" has the wrong " +
			"format"},
		"a caller by any name": {example + "callers: [{name: shop, certificates: [shop], " +
			"submitters: [alice]}]\n", nil, "callers.shop.certificates[0]: \"shop\" has the " +
			"wrong format"},
		"unknown role": {example + "callers: [{name: shop, tokens_file: t, " +
			"submitters: [alice], role: admin}]\n", nil, "callers.shop.role: \"admin\" is not " +
			"one of caller, operator"},
		"unknown certificates": {example + "callers: [{name: shop, certificates: " +
			"[\"cn:shop\"], submitters: [alice]}]\n", nil,
			"config.yaml:20: callers.shop.certificates:|grpc.tls.client_ca_file"},
		"unknown tokens": {example + "callers: [{name: shop, tokens_file: t, " +
			"submitters: [alice]}]\n", []string{"grpc.tokens_file=t"},
			"--set: grpc.tokens_file:|combined with callers"},
		"one certificate for two": {example + "callers: [{name: a, certificates: [\"cn:x\"], " +
			"submitters: [alice]}, {name: b, certificates: [\"cn:x\"], submitters: [alice]}]\n",
			[]string{"grpc.tls.cert_file=c", "grpc.tls.key_file=k", "grpc.tls.client_ca_file=a"},
			"config.yaml:20: callers.b.certificates: cn:x|callers.a"},
		"one of two with a token": {example + "callers: [{name: a, certificates: [\"cn:x\"], " +
			"submitters: [alice]}, {name: b, tokens_file: t, certificates: [\"cn:x\"], " +
			"submitters: [alice]}]\n",
			[]string{"grpc.tls.cert_file=c", "grpc.tls.key_file=k", "grpc.tls.client_ca_file=a"},
			""},
		"gap of the feed": {example, []string{"watch.min_gap=1s"},
			"watch.min_gap: the feed cannot be read every 200ms"},
		"queue above the ledger": {example, []string{"queue.max_total=99999"},
			"--set: queue.max_total:|100000|99999|at most 99999"},
		"queue as the ledger": {example, []string{"queue.max_total=100000"}, ""},
		"ledger without a limit": {example,
			[]string{"queue.max_per_submitter=2000000", "queue.max_total=0"}, ""},
		"connections per address": {example, []string{"grpc.max_connections=100",
			"grpc.max_connections_per_address=101"}, "grpc.max_connections_per_address"},
		"connections per address, auto": {example,
			[]string{"grpc.max_connections_per_address=101"}, ""},
		"queue without a limit":  {example, []string{"queue.max_per_submitter=0"}, ""},
		"depth at confirmations": {example, []string{"chains.dev.release_depth=20"}, ""},
		"depth past confirmations": {example, []string{"chains.dev.release_depth=21"},
			"chains.dev.release_depth: the nonce is released at depth 21"},
		"confirmations too few": {example, []string{"chains.dev.confirmations=1"}, ""},
		"only when final": {example,
			[]string{"chains.dev.release_depth=final", "chains.dev.confirmations=1"}, ""},
		"neither depth nor final": {example, []string{"chains.dev.release_depth=safe"},
			`--set: chains.dev.release_depth: "safe" is not a whole number of decimal digits`},
		"no depth": {example, []string{"chains.dev.release_depth=0"},
			"--set: chains.dev.release_depth: 0 is out of range"},
		"caps that agree": {example, []string{"chains.dev.fees.max_fee_cap_gwei=60",
			"chains.dev.gas_bump.max_fee_cap_gwei=60"}, ""},
		"bumps below the first": {example,
			[]string{"chains.dev.gas_bump.max_fee_cap_gwei=499.5"},
			"--set: chains.dev.gas_bump.max_fee_cap_gwei: |500 gwei|499.5 gwei|raise " +
				"gas_bump.max_fee_cap_gwei to 500"},
		"first above the bumps": {example, []string{"chains.dev.fees.max_fee_cap_gwei=501"},
			"--set: chains.dev.fees.max_fee_cap_gwei:|501 gwei"},
		"bumps without a limit": {example, []string{"chains.dev.fees.max_fee_cap_gwei=501",
			"chains.dev.gas_bump.max_fee_cap_gwei=0"}, ""},
		"tip above all": {example, []string{"chains.dev.fees.min_tip_gwei=501"},
			"chains.dev.fees.min_tip_gwei:|minimum tip"},
		"tip without a limit": {example,
			[]string{"chains.dev.fees.min_tip_gwei=501", "chains.dev.fees.max_fee_cap_gwei=0"}, ""},
		"price above all": {example, []string{"chains.dev.fees.min_price_gwei=501"},
			"--set: chains.dev.fees.min_price_gwei:|minimum price"},
		"price at most": {example, []string{"chains.dev.fees.min_price_gwei=500"}, ""},
		"price without a limit": {example, []string{"chains.dev.fees.min_price_gwei=501",
			"chains.dev.fees.max_fee_cap_gwei=0"}, ""},
		"slow above standard": {example, []string{"chains.dev.fees.slow_percentile=51"},
			"--set: chains.dev.fees.slow_percentile:|slow speed|lower slow_percentile"},
		"fast below standard": {example, []string{"chains.dev.fees.fast_percentile=49"},
			"chains.dev.fees.fast_percentile:|fast speed"},
		"one speed for all": {example, []string{"chains.dev.fees.fast_percentile=50",
			"chains.dev.fees.slow_percentile=50"}, ""},
		"high and low percentiles": {example, []string{"chains.dev.fees.percentile=99"}, ""},
		"two chains":               {second("chain_id: 2"), nil, ""},
		"same chain id": {second("chain_id: 31337"), nil,
			"config.yaml:10: chains.two.chain_id: chain id 31337|chains.dev.chain_id"},
		"same endpoint": {strings.Replace(example, "8545]",
			"8545, http://127.0.0.1:8545]", 1), nil, "config.yaml:8: chains.dev.rpc[1]: duplicate"},
		"same account": {submitter("chain: dev, address: " +
			"0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"), nil,
			"config.yaml:20: submitters.bob.address:|submitters.alice"},
		"other account": {submitter("chain: dev, address: " +
			"0xf39fd6e51aad88f6f4ce6ab8827279cfffb92267"), nil, ""},
		"unknown chain": {submitter("chain: mainnet, address: " +
			"0xf39fd6e51aad88f6f4ce6ab8827279cfffb92267"), nil,
			`submitters.bob.chain: unknown chain "mainnet"|["dev"]`},
		"no signers": {strings.Replace(example, "signers:", "signrs:", 1), nil,
			`submitters.alice.signer: unknown signer "local"|empty`},
		"unknown signer": {strings.Replace(example, "name: local", "name: remote", 1), nil,
			`submitters.alice.signer: unknown signer "local"|["remote"]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := write(t, c.text)
			_, err := Load(Source{File: file, Set: c.set})
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && err == nil:
				t.Errorf("no problem; want %q", c.want)
			}
			for part := range strings.SplitSeq(c.want, "|") {
				if c.want != "" && err != nil &&
					!strings.Contains(strings.ReplaceAll(err.Error(), file, "config.yaml"), part) {
					t.Errorf("got %v, want %q in it", err, part)
				}
			}
		})
	}
}

// Unreadable values are not reported twice.
func TestRelations_InvalidKeys(t *testing.T) {
	t.Parallel()
	file := write(t, `
node: {name: a}
database: {url: postgres://h/d}
lease: {duration: 1}
chains:
  - {name: one, chain_id: x, rpc: [http://h], release_depth: 5,`+
		` confirmations: x, fees: {min_tip_gwei: x, max_fee_cap_gwei: 1}}
  - {name: two, chain_id: x, rpc: [http://h]}
submitters:
  - {name: a, chain: "", address: "0x1", signer: One}
  - {name: b, chain: one, address: "0x1", signer: One}
  - {name: c, chain: one, address: "0x1", signer: One}
`)
	_, err := Load(Source{File: file})
	compareProblems(t, file, err, []string{
		`config.yaml:4: lease.duration: "1" has no unit`,
		`config.yaml:6: chains.one.chain_id: "x"`,
		`config.yaml:6: chains.one.confirmations: "x"`,
		`config.yaml:6: chains.one.fees.min_tip_gwei: "x"`,
		`config.yaml:7: chains.two.chain_id: "x"`,
		`config.yaml:9: submitters.a.chain: no value`,
		`config.yaml:9: submitters.a.address: "0x1"`,
		`config.yaml:9: submitters.a.signer: "One"`,
		`config.yaml:10: submitters.b.address: "0x1"`,
		`config.yaml:10: submitters.b.signer: "One"`,
		`config.yaml:11: submitters.c.address: "0x1"`,
		`config.yaml:11: submitters.c.signer: "One"`,
	})
}
