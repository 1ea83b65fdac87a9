package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/sign"
)

// shell runs command lines of the program in this process, in a folder of their own.
type shell struct {
	t       *testing.T
	dir     string
	in      string
	typed   bool
	answers []string // of the person at the terminal; none: there is no terminal
	environ []string
}

func newShell(t *testing.T) *shell { return &shell{t: t, dir: t.TempDir()} }

// run executes a command line. @ stands for the folder, in the arguments and in the output.
func (s *shell) run(line ...string) (out, errs string, code int) {
	s.t.Helper()
	var stdout, stderr bytes.Buffer
	p := &program{
		in: strings.NewReader(s.in), out: &stdout, err: &stderr, environ: s.environ, typed: s.typed,
		clock: clock.NewFake(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), prompt: s.answer,
	}
	for i := range line {
		line[i] = strings.ReplaceAll(line[i], "@", s.dir)
	}
	code = p.run(s.t.Context(), line)
	clean := func(b bytes.Buffer) string { return strings.ReplaceAll(b.String(), s.dir, "@") }
	return clean(stdout), clean(stderr), code
}

func (s *shell) answer(context.Context, string) (string, error) {
	if len(s.answers) == 0 {
		return "", errors.New("there is no terminal")
	}
	answer := s.answers[0]
	s.answers = s.answers[1:]
	return answer, nil
}

// good is run for a command line that must succeed quietly.
func (s *shell) good(line ...string) string {
	s.t.Helper()
	out, errs, code := s.run(line...)
	if code != exitDone || errs != "" {
		s.t.Fatalf("%q gave %d: %s", line, code, errs)
	}
	return out
}

// bad expects a failure that prints nothing but errors, with these words.
func (s *shell) bad(code int, want string, line ...string) {
	s.t.Helper()
	out, errs, got := s.run(line...)
	for text := range strings.Lines(errs) {
		if !strings.HasPrefix(text, "fencepost: ") {
			s.t.Errorf("%q printed %q", line, text)
		}
	}
	if got != code || !strings.Contains(errs, want) || out != "" {
		s.t.Errorf("%q returned %d\n%s%swant %d and %q", line, got, out, errs, code, want)
	}
}

func (s *shell) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func TestUsageErrors_Commands(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for _, c := range []struct{ line, want string }{
		{"kye", `unknown command "kye" (did you mean "key"?); see "fencepost --help"`},
		{"key lst", `unknown command "lst" (did you mean "list"?); see "fencepost key --help"`},
		{"tx lst", `unknown command "lst" (did you mean "list"?); see "fencepost tx --help"`},
		{"tx lis", `unknown command "lis" (did you mean "list"?); see "fencepost tx --help"`},
		{"submitter register z --nme z", `--nme; see "fencepost submitter add --help"`},
		{"tx creat --submitter bob", `"creat" (did you mean "create"?); see "fencepost tx --help"`},
		{"creat --submitter bob", `unknown command "creat"; see "fencepost --help"`},
		{"completion zhs --no", `command "zhs" (did you mean "zsh"?); see "fencepost completion `},
		{"tx creat --timeout x", `command "creat" (did you mean "create"?); see "fencepost tx `},
		{"tx --submitter bob", `--submitter; see "fencepost tx --help"`},
		{"sink replay a --from yesterday", `"yesterday" is neither a time nor a resume token`},
		{"sink replay a --from 2026-01-02", `give a time like 2026-01-02T15:04:05Z, or a token of`},
		{"sink replay a --from 10.5.2026", `is neither a time nor a resume token`},
		{"costs --by day --from yesterday", `"yesterday" is neither a day nor a time; give`},
		{"costs --by day --from 2026-01-02 --to now", `--to "now" is neither a day nor a time`},
		{"archive --out x --before yesterday", `"yesterday" is not a time; write it as 2026-`},
		{"tx create --to x --submitter a --not-after soon", `"soon" is neither a time nor a dur`},
		{"tx create --submitter a --value 1,5", `give a whole number of wei, like 1000, or a unit`},
		{"tx create --submitter a --value 0.1", `"0.1" is not a whole number of wei; give a whole`},
		{"bench --submitter a --to x --value 0.1", `or a unit (wei, gwei or ether), like 0.1ether`},
		{"nonce allocate a --ttl 5", `--ttl "5" is not a duration with a unit, like 30s or 10m`},
		{"bench --submitter a --to x --wait -1m", `--wait must not be negative`},
		{"submitter move a --to b --wait -1m", `--wait must not be negative`},
		{"migrate up --database-url postgres://h/d --ledger a", `--ledger and --set need --config`},
		{"migrate grants --role r --print --schema s --config f", `--schema and --config exclude`},
		{"migrate grants --role r --print --schema s --ledger a", `--ledger and --set need --conf`},
		{"migrate grants --role r --print --ledger a", `--ledger and --set need --config; give`},
		{"migrate grants --role r --print --schema s --set a=b", `--ledger and --set need --confi`},
		{"tx create --nonce 7", `unknown flag: --nonce; Fencepost assigns nonces; `},
		{"tx simulate --from 0x1", `unknown flag: --from; the sender is the account of --submi`},
		{"key list --nonce 7", `unknown flag: --nonce; see "fencepost key list --help"`},
		{"key destroy", `unknown command "destroy"; see "fencepost key --help"`},
		{"key new --dri x", `--dri; see "fencepost key new --help"`},
		{"key new", `--dir is missing; see "fencepost key new --help"`},
		{"key list", `--dir is missing; see "fencepost key list --help"`},
		{"key import --dir x", `FILE, the file with the private key, is missing`},
		{"key import x", `--dir is missing`},
		{"key list --dir x extra", `1 argument given, 0 expected; `},
		{"config check", `FENCEPOST_CONFIG; see "fencepost config check --help"`},
		{"version --json=maybe", `--json "maybe" is not true or false`},
		{"key new --dir x --password secret", `--password; see "fencepost key new --help"`},
	} {
		s.bad(exitUsage, c.want, strings.Fields(c.line)...)
	}
}

func TestHelp_ListsCommands(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for _, line := range []string{"", "help", "--help"} {
		out := s.good(strings.Fields(line)...)
		for _, u := range (&program{}).audiences() {
			_, group, _ := strings.Cut(out, u.title)
			group, _, _ = strings.Cut(group, "\n\n")
			for _, c := range u.commands {
				if u.id != "" && !strings.Contains(group, "\n  "+c.Name()+" ") ||
					!strings.Contains(out, "\n  "+c.Name()+" ") {
					t.Errorf("%q does not list %s where it belongs: %s", line, c.Name(), out)
				}
			}
		}
	}
	if out := s.good("key"); !strings.Contains(out, "import") {
		t.Errorf("key lists %s", out)
	}
}

// Every command has a description, a valid example, and a text for each flag.
func TestHelp_EveryCommandComplete(t *testing.T) {
	t.Parallel()
	all := []*cobra.Command{(&program{}).root()}
	for i := 0; i < len(all); i++ {
		all = append(all, all[i].Commands()...)
		c, path := all[i], all[i].CommandPath()
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: what it does is said as %q", path, c.Short)
		}
		for _, f := range visited(c.LocalFlags().VisitAll) {
			if f.Usage == "" {
				t.Errorf("%s: nothing is said of --%s", path, f.Name)
			}
		}
		if c.HasSubCommands() {
			continue
		}
		lines := commandLines(strings.ReplaceAll(c.Example, "  fencepost", "fencepost"))
		if !strings.Contains(c.Example, "  "+path) || len(lines) == 0 {
			t.Errorf("%s has no example of its own: %q", path, c.Example)
		}
		for _, line := range lines {
			if err := understood(words(line)[1:]); err != nil {
				t.Errorf("%s: example %q: %v", path, line, err)
			}
		}
	}
	if len(all) < 30 {
		t.Errorf("only %d commands were looked at", len(all))
	}
}

func TestKeyNewAndList(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.write("password", "correct horse\n")
	made := s.good("key", "new", "--dir", "@/keys", "--password-file", "@/password", "--light")
	row := regexp.MustCompile(
		`^ADDRESS +FILE +PROBLEM\n(0x[0-9a-fA-F]{40})  ` +
			`(@/keys/UTC--2026-01-02T03-04-05\.000000000Z--[0-9a-f]{40})  none\n$`)
	match := row.FindStringSubmatch(made)
	if match == nil {
		t.Fatalf("printed %s", made)
	}
	if listed := s.good("key", "list", "--dir", "@/keys"); listed != made {
		t.Errorf("listed %s", listed)
	}
	var keys []keyRow
	if err := json.Unmarshal(
		[]byte(s.good("key", "list", "--dir", "@/keys", "--json")), &keys,
	); err != nil ||
		len(keys) != 1 ||
		keys[0] != (keyRow{Address: match[1], File: match[2]}) {
		t.Errorf("listed %v, %v", keys, err)
	}
	s.write("keys/broken", "{")
	if listed := s.good("key", "list", "--dir", "@/keys"); !regexp.MustCompile(
		`\nunknown +@/keys/broken +not JSON`).MatchString(
		listed,
	) {
		t.Errorf("listed %s", listed)
	}
	s.bad(exitFailed,
		"fencepost: key store folder @/none does not exist; create a first key with "+
			"\"fencepost key new --dir @/none\"\n",
		"key", "list", "--dir", "@/none")
	s.bad(exitFailed,
		"fencepost: password file @/none does not exist; write the keys' password "+
			"into it, readable by this user only\n",
		"key", "new", "--dir", "@/keys", "--password-file", "@/none")
}

func TestKeyNew_StandardScryptByDefault(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]sign.Strength{"": sign.Standard, "--light": sign.Light} {
		var f keyFlags
		c := &cobra.Command{}
		f.add(c)
		if err := c.ParseFlags(strings.Fields(args)); err != nil || f.strength() != want {
			t.Errorf("%q gives strength %v, %v", args, f.strength(), err)
		}
	}
}

func TestKeyNew_PasswordTypedTwice(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.bad(exitFailed, "fencepost: there is no terminal\n", "key", "new", "--dir", "@/keys",
		"--light")
	s.answers = []string{"one", "two"}
	s.bad(exitFailed, "passwords differ", "key",
		"new", "--dir", "@/keys", "--light")
	s.answers = []string{"", ""}
	s.bad(exitFailed, "password", "key", "new",
		"--dir", "@/keys", "--light")
	s.answers = []string{"one", "one"}
	s.good("key", "new", "--dir", "@/keys", "--light")
	s.write("password", "one")
	if !opens(t, s, 1) {
		t.Error("the typed password does not open the key")
	}
}

func TestKeyImport(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.write("password", "correct horse\n")
	var digits [4]string
	for i := range digits {
		digits[i] = hex.EncodeToString(crypto.Keccak256([]byte{byte(i)}))
	}
	add := func(from string) string {
		return s.good("key", "import", "--dir", "@/keys", "--password-file", "@/password",
			"--light", from)
	}
	s.write("hex", "0x"+digits[0]+"\n")
	add("@/hex")
	s.in = digits[1]
	add("-")
	s.typed = true
	s.answers = []string{digits[2]}
	s.in = "not this"
	add("-")
	if !opens(t, s, 3) {
		t.Error("the keys are not all there")
	}
	refuse := func(code int, want, from string) {
		t.Helper()
		s.bad(code, want, "key", "import", "--dir", "@/keys", "--password-file",
			"@/password", "--light", from)
	}
	refuse(exitUsage,
		"private key given as an argument",
		digits[3])
	refuse(exitFailed,
		"file @/none does not exist",
		"@/none")
	s.write("short", digits[3][1:])
	refuse(exitFailed, "64 hex digits",
		"@/short")
	_, errs, code := s.run("key", "import", "--dir", "@/keys", "--password-file", "@/password",
		"--light", "@/hex")
	if code != exitFailed || !strings.Contains(errs, "@/keys/UTC--") {
		t.Errorf("twice: %d %s", code, errs)
	}
	if !opens(t, s, 3) {
		t.Error("a refused key was kept")
	}
}

// opens reports whether the key store opens with its password file and has this many keys.
func opens(t *testing.T, s *shell, keys int) bool {
	t.Helper()
	var log bytes.Buffer
	k, err := sign.OpenKeyStore(
		t.Context(),
		sign.KeyStoreOptions{
			Dir:          filepath.Join(s.dir, "keys"),
			PasswordFile: filepath.Join(s.dir, "password"),
			Clock:        clock.Real{},
			Log:          testLog(&log),
		},
	)
	if err != nil {
		t.Error(err)
		return false
	}
	held, err := k.Addresses(t.Context())
	if err != nil {
		t.Error(err)
	}
	return len(held) == keys
}

const goodConfig = `node: {name: a}
database: {url: "postgres://user:hush@h/d"}
chains:
  - {name: dev, chain_id: 1, rpc: [https://hush.example]}
`

func TestConfigCheck(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.write("good.yaml", goodConfig)
	s.write("bad.yaml", "node: {nam: a}\n"+goodConfig[strings.Index(goodConfig, "\n")+1:])
	const good = "configuration of node a is valid: 1 chain, 0 signers with 0 keys, 0 " +
		"submitters\n" +
		"not checked: database, chains, ports\n"
	if out := s.good("config", "check", "--config", "@/good.yaml"); out != good {
		t.Errorf("printed %s", out)
	}
	if out := s.good("config", "check", "--config", "@/good.yaml", "--json"); out != "[]\n" {
		t.Errorf("printed %s", out)
	}
	s.bad(
		exitFailed,
		"fencepost: @/bad.yaml:1: node.nam: ",
		"config",
		"check",
		"--config",
		"@/bad.yaml",
	)
	out, errs, code := s.run("config", "check", "--config", "@/bad.yaml", "--json")
	var problems []map[string]string
	if err := json.Unmarshal([]byte(out), &problems); err != nil || len(problems) != 2 ||
		problems[0]["where"] != "@/bad.yaml:1" ||
		problems[0]["key"] != "node.nam" ||
		!strings.Contains(problems[0]["remedy"], `"name"`) ||
		code != exitFailed ||
		errs != `{"code":"FAILED","message":"invalid configuration: 2 `+
			`problems","exitCode":1,"remedy":"correct each of the problems","problems":`+
			strings.TrimSpace(compact(t, out))+"}\n" {
		t.Errorf("%d: %s%s", code, out, errs)
	}
	s.bad(exitFailed,
		"file @/none",
		"config", "check", "--config", "@/none")
	s.environ = []string{
		"FENCEPOST_CONFIG=" + filepath.Join(s.dir, "bad.yaml"),
		"FENCEPOST_NODE_NAME=b",
	}
	s.bad(exitFailed,
		"fencepost: @/bad.yaml:1: node.nam: ",
		"config", "check")
	s.environ[0] = "FENCEPOST_CONFIG=" + filepath.Join(s.dir, "good.yaml")
	if out := s.good("config", "check"); out != strings.Replace(good, "node a", "node b", 1) {
		t.Errorf("printed %s", out)
	}
}

// The check reports every problem of the files that would stop a node, all at once.
func TestConfigCheck_ReadsFiles(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.write("password", "right")
	s.write("wrong", "wrong")
	s.write("abi.json", "[")
	address := regexp.MustCompile(`0x[0-9a-fA-F]{40}`).FindString(
		s.good("key", "new", "--dir", "@/keys", "--password-file", "@/password", "--light"))
	s.write(
		"c.yaml",
		strings.NewReplacer("rpc:", "abi_files: [./abi.json], rpc:", "@h/d",
			"@h/d?sslmode=verify-ca&sslrootcert=/none/ca.pem").Replace(
			goodConfig,
		)+`signers:
  - {name: good, keystore: {dir: ./keys, password_file: ./password}}
  - {name: none, keystore: {dir: ./none, password_file: ./password}}
  - {name: shut, keystore: {dir: ./keys, password_file: ./wrong}}
  - {name: open, keystore: {dir: ./keys, password_file: ./no-password}}
submitters:
  - {name: alice, chain: dev, address: "`+address+`", signer: good}
  - {name: bob, chain: dev, address: "`+recipient+`", signer: good}
  - {name: carl, chain: dev, address: "0x000000000000000000000000000000000000c0de", signer: none}
`,
	)
	want := []string{
		`^fencepost: @/c\.yaml:2: database\.url: .*/none/ca\.pem`,
		`^fencepost: @/c\.yaml:7: signers\.none\.keystore\.dir: .*@/none .*fencepost key new`,
		`^fencepost: @/c\.yaml:8: signers\.shut\.keystore\.dir: .*@/keys/`,
		`^fencepost: @/c\.yaml:9: signers\.open\.keystore\.password_file: .*@/no-password`,
		`^fencepost: @/c\.yaml:12: submitters\.bob\.address: .*` + recipient,
		`^fencepost: @/c\.yaml:4: chains\.dev\.abi_files: .*@/abi\.json`,
	}
	out, errs, code := s.run("config", "check", "--config", "@/c.yaml")
	lines := strings.Split(strings.TrimSpace(errs), "\n")
	if code != exitFailed || out != "" || len(lines) != len(want) {
		t.Fatalf("gave %d: %s%s", code, out, errs)
	}
	for i, row := range want {
		if !regexp.MustCompile(row).MatchString(lines[i]) {
			t.Errorf("%s\nis not %s", lines[i], row)
		}
	}
	var problems []map[string]string
	if out, _, code := s.run("config", "check", "--config", "@/c.yaml", "--json"); json.Unmarshal(
		[]byte(out), &problems) != nil ||
		code != exitFailed ||
		len(problems) != len(want) {
		t.Errorf("gave %d: %s", code, out)
	}
	s.write("c.yaml", goodConfig+`signers:
  - {name: good, keystore: {dir: ./keys, password_file: ./password}}
submitters:
  - {name: alice, chain: dev, address: "`+address+`", signer: good}
`)
	if out := s.good("config", "check", "--config", "@/c.yaml"); !strings.HasPrefix(out,
		"configuration of node a is valid: 1 chain, 1 signer with 1 key, 1 submitter\n") {
		t.Errorf("printed %s", out)
	}
}

func TestConfigCheck_WorldReadableTokens_Warns(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.write("tokens", strings.Repeat("a", 32))
	s.write("c.yaml", goodConfig+"grpc: {tokens_file: ./tokens}\n")
	for mode, warned := range map[os.FileMode]bool{0o600: false, 0o640: true} {
		if err := os.Chmod(filepath.Join(s.dir, "tokens"), mode); err != nil {
			t.Fatal(err)
		}
		_, errs, code := s.run("config", "check", "--config", "@/c.yaml")
		if code != exitDone ||
			strings.Contains(errs, "grpc.tokens_file") != warned {
			t.Errorf("mode %o gave %d: %s", mode, code, errs)
		}
	}
}

// Files are also checked for an invalid configuration, as far as their own keys are valid.
func TestConfigCheck_InvalidConfig_StillReadsFiles(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.write(
		"c.yaml",
		"node: {nam: a}\n"+goodConfig[strings.Index(goodConfig, "\n")+1:]+`
grpc: {tokens_file: ./tokens, listen: here, tls: {cert_file: ./cert, key_file: []}}
log: {format: odd}
signers:
  - {name: one, keystore: {dir: ./none, password_file: ./no-password}}
  - {name: one, keystore: {dir: [], password_file: ./no-password}}
  - {keystore: {dir: ./none}}
`,
	)
	_, errs, code := s.run("config", "check", "--config", "@/c.yaml")
	var keys []string
	for _, m := range regexp.MustCompile(
		`(?m)^fencepost: [^:]*:\d+: ([^:]*): `,
	).FindAllStringSubmatch(errs, -1) {
		keys = append(keys, m[1])
	}
	want := []string{
		"node.nam",
		"node.name",
		"grpc.listen",
		"grpc.tls.key_file",
		"log.format",
		"signers[1].name",
		"signers[1].keystore.dir",
		"signers[2].name",
		"signers[2].keystore.password_file",
		"grpc.tls.cert_file",
		"grpc.tokens_file",
		"signers.one.keystore.password_file",
		"signers.one.keystore.dir",
		"signers[1].keystore.password_file",
		"signers[2].keystore.dir",
	}
	if code != exitFailed || !slices.Equal(keys, want) || len(keys) != strings.Count(errs, "\n") {
		t.Errorf("%d: the keys are\n%q, want\n%q\n%s", code, keys, want, errs)
	}
}

// compact is JSON without blanks.
func compact(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text)); err != nil {
		t.Error(err)
	}
	return b.String()
}

func TestConfigShow(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.write("c.yaml", goodConfig)
	s.environ = []string{"FENCEPOST_LOG_LEVEL=debug"}
	out := s.good("config", "show", "--config", "@/c.yaml", "--set", "lease.duration=20s")
	for _, want := range []string{
		`(?m)^KEY +VALUE +FROM$`, `(?m)^node\.name +a +@/c\.yaml:1$`, `(?m)^database\.url ` +
			`+postgres://user:redacted@h/d\?sslmode=verify-full ` +
			`+@/c\.yaml:2$`, `(?m)^chains\.dev\.rpc +\[redacted\] +@/c\.yaml:4$`,
		`(?m)^log\.level +debug +environment ` +
			`FENCEPOST_LOG_LEVEL$`, `(?m)^lease\.duration +20s ` +
			`+--set$`, `(?m)^lease\.renew_interval +3s +default$`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%s is not in\n%s", want, out)
		}
	}
	asJSON := s.good("config", "show", "--config", "@/c.yaml", "--json")
	var settings []map[string]string
	if err := json.Unmarshal([]byte(asJSON), &settings); err != nil ||
		settings[0]["key"] != "node.name" ||
		settings[0]["value"] != "a" ||
		settings[0]["from"] != "@/c.yaml:1" {
		t.Errorf("%v: %s", err, asJSON)
	}
	if strings.Contains(out+asJSON, "hush") {
		t.Errorf("printed a secret: %s%s", out, asJSON)
	}
}

func TestVersion_Completion(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	want := regexp.MustCompile(`^fencepost \S+ \(commit .+, go\S+\)\n$`)
	if out := s.good("version"); !want.MatchString(out) {
		t.Errorf("printed %s", out)
	}
	var b build
	if err := json.Unmarshal([]byte(s.good("version", "--json")), &b); err != nil || b.Go == "" ||
		b.Version == "" {
		t.Errorf("%+v, %v", b, err)
	}
	for _, name := range []string{"bash", "zsh", "fish", "powershell"} {
		if out := s.good("completion", name); !strings.Contains(out, "fencepost") {
			t.Errorf("%s: %s", name, out)
		}
	}
}

func testLog(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
