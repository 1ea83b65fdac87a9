package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holiman/uint256"
	"pgregory.net/rapid"
)

func TestLoad_Example(t *testing.T) {
	t.Parallel()
	file := write(t, example)
	c, err := Load(Source{File: file})
	if err != nil {
		t.Fatal(err)
	}
	chain := c.Chains[0]
	for what, is := range map[string]bool{
		"node":      c.Node.Name == "a",
		"listeners": c.GRPC.Listen == "127.0.0.1:9090" && c.Ops.Listen == "127.0.0.1:9091",
		"database": c.Database.URL.Reveal() ==
			"postgres://fencepost@127.0.0.1:5432/fencepost" && c.Database.Schema == "public",
		"lease": c.Lease.Duration == 10*time.Second &&
			c.Lease.RenewInterval == 3*time.Second,
		"payload": c.Payload.MaxBytes == 126<<10,
		"log":     c.Log == Log{"info", "text"},
		"chain": chain.Name == "dev" && chain.ChainID == 31337 &&
			chain.PollInterval == 250*time.Millisecond && chain.Confirmations == 20 &&
			chain.ReleaseDepth == 1,
		"rpc": len(chain.RPC) == 1 && chain.RPC[0].Reveal() == "http://127.0.0.1:8545" &&
			chain.RPCTimeout == 10*time.Second && chain.RPCMaxInFlight == 100,
		"resubmit": chain.Resubmit == Resubmit{Interval: time.Minute, MaxAttempts: 20},
		"fees": chain.Fees.MinTip == *uint256.NewInt(1e6) &&
			chain.Fees.MaxFeeCap == *uint256.NewInt(500e9) && chain.Fees.FixedPrice == nil,
		"speeds": chain.Fees.SlowPercentile == 0 && chain.Fees.FastPercentile == 0 &&
			chain.Fees.MinPrice.IsZero(),
		"bumps": chain.GasBump == GasBump{false, 1.125, time.Minute, 10, 4,
			*uint256.NewInt(500e9)} && chain.GasBump.Permille() == 1125,
		"off": !chain.Mempool.Diagnose && !chain.Finality.TellBlocks &&
			chain.Prepare == Prepare{0, "always"} && !chain.Prepare.TrustsGasLimits() &&
			chain.ABIFiles == nil,
		"gas":    chain.Gas.Margin == 1.2,
		"signer": c.Signers[0].Timeout == 10*time.Second,
		"key store": *c.Signers[0].KeyStore == KeyStore{filepath.Join(filepath.Dir(file),
			"keys"), filepath.Join(filepath.Dir(file), "password")},
		"submitter": c.Submitters[0].Mode == "" && c.Submitters[0].StartFrom == "0" &&
			c.Submitters[0].Address.Hex() == "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
		"policies": c.Submitters[0].OnFailure == "" && c.Submitters[0].MaxFee == nil,
		"what it shows": find(t, c, "lease.duration") == Setting{"lease.duration", "10s",
			"default"} && find(t, c, "node.name") == Setting{"node.name", "a", file + ":2"},
	} {
		if !is {
			t.Errorf("%s differs from the file: %+v", what, c)
		}
	}
}

// Paths in the file are relative to its folder, those from elsewhere to the working folder.
func TestLoad_FileLists(t *testing.T) {
	t.Parallel()
	text := strings.Replace(example, "poll_interval: 250ms",
		"abi_files: [abi/vault.json, /etc/abi/token.json]", 1)
	file := write(t, text)
	c, err := Load(Source{File: file})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Join(filepath.Dir(file), "abi", "vault.json"), "/etc/abi/token.json"}
	if got := c.Chains[0].ABIFiles; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := find(t, c, "chains.dev.abi_files").Value; got != strings.Join(want, ",") {
		t.Errorf("shown as %s", got)
	}
	c, err = Load(Source{File: file, Set: []string{"chains.dev.abi_files=vault.json,token.json"}})
	if err != nil || !slices.Equal(c.Chains[0].ABIFiles, []string{"vault.json", "token.json"}) {
		t.Errorf("%v, %v", c.Chains[0].ABIFiles, err)
	}
}

// A policy with its default value is distinguished from an absent one.
func TestLoad_SubmitterPolicies(t *testing.T) {
	t.Parallel()
	line := func(keys string) string {
		return example + "  - {name: bob, chain: dev, address: " +
			"0xf39fd6e51aad88f6f4ce6ab8827279cfffb92267, signer: local, " + keys + "}\n"
	}
	c, err := Load(
		Source{
			File: write(t, line("on_failure: pause, max_fee_gwei: 30.5")),
			Set: []string{
				"submitters.alice.on_failure=continue",
				"submitters.alice.max_fee_gwei=0",
			},
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	alice, bob := c.Submitters[0], c.Submitters[1]
	if bob.OnFailure != "pause" || bob.MaxFee == nil ||
		*bob.MaxFee != *uint256.NewInt(30_500_000_000) {
		t.Errorf("bob is %+v", bob)
	}
	if alice.OnFailure != "continue" || alice.MaxFee == nil || !alice.MaxFee.IsZero() {
		t.Errorf("alice is %+v", alice)
	}
	for keys, want := range map[string]string{
		"on_failure: stop":         `submitters.bob.on_failure: "stop" is not one of`,
		"on_failure: PAUSE":        `submitters.bob.on_failure: "PAUSE" is not one of`,
		"max_fee_gwei: -1":         `submitters.bob.max_fee_gwei: "-1" is not an amount in gwei`,
		"max_fee_gwei: 2000000001": "submitters.bob.max_fee_gwei: 2000000001 is out of range",
	} {
		if _, err := Load(Source{File: write(t, line(keys))}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q in it", keys, err, want)
		}
	}
}

// All problems are reported at once, each with place, reason and remedy.
func TestLoad_ReportsAllProblems(t *testing.T) {
	t.Parallel()
	file := write(t, `
nodes: {name: a}
node: {name: a/b}
grpc:
  listen: 9090
lease: {duration: 10s, duraton: 5, renew_interval: 4s}
database: {pool: 5}
release_depth: 3
fees: {max_fee_cap_gwei: 5}
chains:
  - name: dev
    chain_id: "0x7a69"
    rpc: ftp://secret.example
    confirmations: 5
    release_depth: 6
    gas: {margin: }
  - {name: dev, chain_id: 2, rpc: ["https://secret.example/key", "ftp://secret.example"],`+
		` fees: {min_tip_gwei: 1.0000000001}}
  - {chain_id: 1, rpc: []}
signers:
  - name: local
    keystore: {dir: keys}
    timeout: 5
submitters:
  - {name: alice, chain: dve, address: "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92267",`+
		` signer: locl, mode: parallel}
  - {name: Bob, chain: dev, address: 0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266,`+
		` signer: local, start_from: -1}
log: info
log: {level: warning, format: yaml}
`)
	_, err := Load(
		Source{
			File:    file,
			Environ: []string{"FENCEPOST_LEASE_DURATON=4s", "OTHER=x"},
			Set:     []string{"ops.lisen=:1", "nothing"},
		},
	)
	want := []string{
		`config.yaml: database.url: missing`,
		`config.yaml:2: nodes: unknown key; did you mean "node"?`,
		`config.yaml:3: node.name: "a/b"`,
		`config.yaml:5: grpc.listen: "9090"`,
		`config.yaml:6: lease.duraton: unknown key; did you mean "duration"?`,
		`config.yaml:6: lease.renew_interval: a lease of 10s`,
		`config.yaml:7: database.pool: unknown key`,
		`config.yaml:8: release_depth: unknown key; did you mean chains.*.release_depth?`,
		`config.yaml:9: fees: unknown key; did you mean chains.*.fees?`,
		`config.yaml:12: chains.dev.chain_id: "0x7a69"`,
		`config.yaml:13: chains.dev.rpc: not a list`,
		`config.yaml:15: chains.dev.release_depth: the nonce is released at depth 6`,
		`config.yaml:16: chains.dev.gas.margin: no value`,
		`config.yaml:17: chains[1].name: the name "dev"`,
		`config.yaml:17: chains[1].rpc[1]: `,
		`config.yaml:17: chains[1].fees.min_tip_gwei: "1.0000000001"`,
		`config.yaml:18: chains[2].name: missing`,
		`config.yaml:18: chains[2].rpc: missing`,
		`config.yaml:21: signers.local.keystore.password_file: missing`,
		`config.yaml:22: signers.local.timeout: "5" has no unit`,
		`config.yaml:24: submitters.alice.address: "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92267" ` +
			`has a wrong EIP-55 checksum`,
		`config.yaml:24: submitters.alice.mode: "parallel" is not one of strict`,
		`config.yaml:24: submitters.alice.chain: unknown chain "dve"; did you mean "dev"?`,
		`config.yaml:24: submitters.alice.signer: unknown signer "locl"; did you mean "local"?`,
		`config.yaml:25: submitters[1].name: "Bob"`,
		`config.yaml:25: submitters[1].start_from: "-1"`,
		`config.yaml:27: log: duplicate key`,
		`config.yaml:26: log: not a group`,
		`environment FENCEPOST_LEASE_DURATON: unknown key; did you mean FENCEPOST_LEASE_DURATION?`,
		`--set: nothing: no value`,
		`--set: ops.lisen: unknown key; did you mean ops.listen?`,
	}
	compareProblems(t, file, err, want)
	if strings.Contains(err.Error(), "secret.example") {
		t.Errorf("an error quotes an endpoint: %v", err)
	}
}

// compareProblems compares problems by how their lines start: the place, the key, and the value or
// a word.
func compareProblems(t *testing.T, file string, err error, want []string) {
	t.Helper()
	var problems Problems
	if !errors.As(err, &problems) {
		t.Fatalf("error is %v", err)
	}
	var found []string
	for _, p := range problems {
		found = append(found, strings.ReplaceAll(p.String(), file, "config.yaml"))
	}
	for _, start := range want {
		at := slices.IndexFunc(found,
			func(line string) bool { return strings.HasPrefix(line, start) })
		if at < 0 {
			t.Errorf("missing: %s", start)
			continue
		}
		found = slices.Delete(found, at, at+1)
	}
	for _, line := range found {
		t.Errorf("not expected: %s", line)
	}
}

func TestLoad_UnreadableFile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"not YAML": {"node: {name: a\nlease:\n  x", "config.yaml:"},
		"tabs":     {"node:\n\tname: a\n", "config.yaml:2: not valid YAML"},
		"first line": {"\tnode: {name: a}\n", "config.yaml: not valid YAML: found character that " +
			"cannot start any token; indent with spaces"},
		"two documents": {example + "---\nnode: {name: b}\n", "second document"},
		"no group":      {"- a\n- b\n", "not a group"},
		"merge key": {strings.Replace(example, "lease", "", 1) + "lease: {<<: {duration: " +
			"9s}}\n", "lease.<<: merge keys"},
		"list in list": {strings.Replace(example, "[http://127.0.0.1:8545]",
			"[[http://127.0.0.1:8545]]", 1), "chains.dev.rpc[0]: expected one value"},
		"group":      {"node: {name: {a: b}}\n", "node.name: expected one value"},
		"list group": {"chains: {name: dev}\n", "chains: not a list"},
		"element":    {"chains: [dev]\n", "chains[0]: not a group"},
		"no value":   {"node: {name: \"\"}\n", "node.name: no value"},
		"long list": {"chains:\n" + strings.Repeat("- {}\n", maxElements+1),
			"chains: the list has 10001 elements"},
		"long rpc": {"chains: [{rpc: [" + strings.Repeat("x,", maxElements+1) + "]}]\n",
			"chains[0].rpc: the list has 10001 elements"},
		"endless alias": {"chains: &c [*c]\n", "chains"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := write(t, c.text)
			_, err := Load(Source{File: file})
			if err == nil ||
				!strings.Contains(strings.ReplaceAll(err.Error(), file, "config.yaml"), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
	folder := t.TempDir()
	for path, want := range map[string]string{filepath.Join(folder, "nowhere"): "does not exist",
		folder: "read the file"} {
		if _, err := Load(Source{File: path}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q in it", path, err, want)
		}
	}
	if _, err := Load(Source{File: write(t, "# "+strings.Repeat("x", maxFileBytes))}); err == nil ||
		!strings.Contains(err.Error(), "exceeds") {
		t.Errorf("huge file: %v", err)
	}
}

// Without a file, the environment can give all but the lists.
func TestLoad_NoFile(t *testing.T) {
	t.Parallel()
	_, err := Load(
		Source{Environ: []string{"FENCEPOST_NODE_NAME=a", "FENCEPOST_DATABASE_URL=postgres://h/d"}})
	want := []string{"configuration: chains: missing"}
	compareProblems(t, "none", err, want)
}

func TestLoad_Anchors(t *testing.T) {
	t.Parallel()
	text := strings.Replace(example, "signers:",
		"  - {name: two, chain_id: 2, rpc: [http://h], poll_interval: *p, fees: *f}\nsigners:", 1)
	text = strings.Replace(text, "poll_interval: 250ms",
		"poll_interval: &p 250ms\n    fees: &f {percentile: 60}", 1)
	c, err := Load(Source{File: write(t, text)})
	if err != nil || c.Chains[1].PollInterval != 250*time.Millisecond ||
		c.Chains[1].Fees.Percentile != 60 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestLoad_Layers(t *testing.T) {
	t.Parallel()
	file := write(t, example+"lease: {duration: 30s, renew_interval: 5s}\n")
	c, err := Load(Source{
		File: file,
		Environ: []string{
			"FENCEPOST_LEASE_RENEW_INTERVAL=4s", "FENCEPOST_LEASE_DURATION=20s",
			"FENCEPOST_CHAINS_DEV_RPC=http://one, ws://two", "FENCEPOST_LOG_LEVEL=",
			"FENCEPOST_SIGNERS_LOCAL_KEYSTORE_DIR=elsewhere", "FENCEPOST_SERVER=x",
			"FENCEPOST_PORT_9090_TCP_ADDR=10.0.0.1", "FENCEPOST_GRPC_SERVICE_HOST=h",
			"FENCEPOST_PORT=tcp://10.0.0.1:9090",
		},
		Set:    []string{"lease.duration=40s", "lease.duration=50s", "chains.dev.confirmations=3"},
		Ignore: []string{"FENCEPOST_SERVER"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.Lease.Duration != 50*time.Second || c.Lease.RenewInterval != 4*time.Second ||
		c.Chains[0].Confirmations != 3 ||
		c.Log.Level != "info" {
		t.Errorf("layers are mixed up: %+v", c)
	}
	if rpc := c.Chains[0].RPC; len(rpc) != 2 || rpc[0].Reveal() != "http://one" ||
		rpc[1].Reveal() != "ws://two" {
		t.Errorf("endpoints are %d", len(rpc))
	}
	if dir := c.Signers[0].KeyStore.Dir; dir != "elsewhere" {
		t.Errorf("a path of the environment became %s", dir)
	}
	for key, from := range map[string]string{"lease.duration": "--set",
		"lease.renew_interval": "environment FENCEPOST_LEASE_RENEW_INTERVAL",
		"chains.dev.chain_id":  file + ":7"} {
		if s := find(t, c, key); s.From != from {
			t.Errorf("%s is from %s, want %s", key, s.From, from)
		}
	}
}

func TestLoad_InvalidOverrides(t *testing.T) {
	t.Parallel()
	two := strings.Replace(example, "signers:",
		"  - {name: a-b, chain_id: 2, rpc: [http://h]}\n  - {name: a.b, chain_id: 3, rpc: "+
			"[http://h]}\nsigners:",
		1)
	for name, c := range map[string]struct {
		source Source
		want   string
	}{
		"secret by flag": {Source{Set: []string{"database.url=postgres://h/d"}},
			"--set: database.url: secrets on the command line"},
		"endpoint by flag": {Source{Set: []string{"chains.dev.rpc=http://h"}},
			"--set: chains.dev.rpc: secrets"},
		"two of a name": {Source{Environ: []string{"FENCEPOST_CHAINS_A_B_CONFIRMATIONS=1"}},
			"environment FENCEPOST_CHAINS_A_B_CONFIRMATIONS: chains.a.b.confirmations: the " +
				"variable also sets chains.a-b.confirmations"},
		"name": {Source{Environ: []string{"FENCEPOST_CHAINS_DEV_NAME=x"}},
			"environment FENCEPOST_CHAINS_DEV_NAME: unknown key"},
		"unknown variable": {Source{Environ: []string{"FENCEPOST_COMPLETELY_DIFFERENT=x"}},
			"environment FENCEPOST_COMPLETELY_DIFFERENT: unknown key"},
		"bad in environment": {Source{Environ: []string{"FENCEPOST_LEASE_DURATION=10"}},
			`environment FENCEPOST_LEASE_DURATION: lease.duration: "10" has no unit`},
		"relation": {Source{Set: []string{"lease.renew_interval=5s"}},
			"--set: lease.renew_interval: a lease of 10s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.source.File = write(t, two)
			if _, err := Load(c.source); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
}

// The reference documents an environment variable for each key, and it works.
func TestEnvironment_VariablePerKey(t *testing.T) {
	t.Parallel()
	file := write(t, example)
	c, err := Load(Source{File: file})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.Settings {
		value := s.Value
		switch {
		case strings.HasSuffix(s.Key, ".name") && s.Key != "node.name":
			continue
		case strings.HasSuffix(s.Key, ".rpc"):
			value = "http://other"
		}
		again, err := Load(Source{File: file, Environ: []string{variable(s.Key) + "=" + value}})
		if err != nil {
			t.Errorf("%s: %v", s.Key, err)
		} else if got := find(t, again, s.Key); got.From != "environment "+variable(s.Key) {
			t.Errorf("%s is from %s", s.Key, got.From)
		}
	}
}

func TestLoad_DatabaseURLFile(t *testing.T) {
	t.Parallel()
	inFile := strings.Replace(example, "  url: postgres://fencepost@127.0.0.1:5432/fencepost",
		"  url_file: url", 1)
	for name, c := range map[string]struct {
		text, content string
		environ       string
		want          string // the URL, or a part of the error
	}{
		"beside the file": {inFile, "postgres://localhost/from-file\n", "",
			"postgres://localhost/from-file"},
		"environment wins": {inFile, "", "FENCEPOST_DATABASE_URL=postgres://localhost/from-env",
			"postgres://localhost/from-env"},
		"file of environment": {example, "postgres://localhost/from-file",
			"FENCEPOST_DATABASE_URL_FILE=%s/url", "postgres://localhost/from-file"},
		"both": {strings.Replace(example, "  url:", "  url_file: url\n  url:", 1),
			"x", "", "config.yaml:4: database.url_file: database.url is set too"},
		"gone": {inFile, "", "", "url does not exist"},
		"wrong": {inFile, "mysql://secret", "", "config.yaml:4: database.url_file: " +
			"not a PostgreSQL URL"},
		"huge": {inFile, strings.Repeat("x", 5000), "", "4096 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := write(t, c.text)
			if c.content != "" {
				if err := os.WriteFile(filepath.Join(filepath.Dir(file), "url"), []byte(c.content),
					0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := Load(
				Source{
					File:    file,
					Environ: []string{strings.ReplaceAll(c.environ, "%s", filepath.Dir(file))},
				},
			)
			switch {
			case err == nil && got.Database.URL.Reveal() != c.want:
				t.Errorf("the URL is %s", got.Database.URL.Reveal())
			case err != nil &&
				!strings.Contains(strings.ReplaceAll(err.Error(), file, "config.yaml"), c.want):
				t.Errorf("got %v, want %q in it", err, c.want)
			case err != nil && strings.Contains(err.Error(), "secret"):
				t.Errorf("the error quotes the file: %v", err)
			}
		})
	}
}

func TestSecret_NeverPrinted(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer("fencepost@127.0.0.1:5432/fencepost",
		"user:hush1@h/d?sslmode=verify-full&sslpassword=hush2", "http://127.0.0.1:8545",
		"https://hush3.example/hush4").Replace(
		example,
	)
	c, err := Load(Source{File: write(t, text)})
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var logged strings.Builder
	slog.New(slog.NewTextHandler(&logged, nil)).Info("text", "config", c, "url", c.Database.URL)
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("json", "config", c, "rpc", c.Chains[0].RPC)
	printed := []string{string(encoded), logged.String()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		printed = append(printed, fmt.Sprintf(verb, *c), fmt.Sprintf(verb, c.Database.URL),
			fmt.Sprintf(verb, c.Chains[0].RPC))
	}
	for _, p := range printed {
		if strings.Contains(p, "hush") || strings.Contains(p, fmt.Sprintf("%x", "hush")) {
			t.Errorf("printed a secret: %s", p)
		}
	}
	const want = "postgres://user:redacted@h/d?sslmode=verify-full&sslpassword=redacted"
	if got := c.Database.URL.String(); got != want {
		t.Errorf("shows %s", got)
	}
	if got := find(t, c, "chains.dev.rpc").Value; got != "[redacted]" {
		t.Errorf("shows %s", got)
	}
	if c.Database.URL.Reveal() !=
		"postgres://user:hush1@h/d?sslmode=verify-full&sslpassword=hush2" ||
		c.Chains[0].RPC[0].Reveal() != "https://hush3.example/hush4" {
		t.Error("the secrets themselves were changed")
	}
}

// Any file results in a configuration or a list of problems.
func TestLoad_AnyFile_NoPanic(t *testing.T) {
	t.Parallel()
	lines := strings.SplitAfter(example, "\n")
	folder := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		for _, line := range lines {
			switch rapid.IntRange(0, 7).Draw(t, "what") {
			case 0:
			case 1:
				text.WriteString(line + line)
			case 2:
				text.WriteString("  " + line)
			case 3:
				text.WriteString(strings.TrimSpace(line) + "\n")
			case 4:
				text.WriteString(
					rapid.StringOf(
						rapid.SampledFrom([]rune("a:-[]{}&*<>!|'\"#, \n\t0~%@`")),
					).Draw(t, "noise") + line,
				)
			default:
				text.WriteString(line)
			}
		}
		file := filepath.Join(folder, "config.yaml")
		if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(Source{File: file})
		var problems Problems
		if err != nil && (!errors.As(err, &problems) || len(problems) == 0) {
			t.Fatalf("%T: %v", err, err)
		}
	})
}

func find(t *testing.T, c *Config, key string) Setting {
	t.Helper()
	for _, s := range c.Settings {
		if s.Key == key {
			return s
		}
	}
	t.Errorf("%s is not among the settings", key)
	return Setting{}
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
