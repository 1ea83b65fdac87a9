package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// jargon are terms of lower layers.
var jargon = []string{
	"rpc error",
	"desc =",
	"transport:",
	"http2",
	"grpc:",
	"preface",
	"strconv",
	"store:",
	"payload.",
	"CreateTx",
	"GetSubmitter",
	"rpc ",
}

// Errors of a node name the flags and arguments of the command line.
func TestErrors_NameFlagsAndArguments(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	unknown := "01a21fca-9bb7-8000-8000-058ead4b4abd"
	unknownHash := txn.Hash{1}.Hex()
	for _, c := range []struct {
		line []string
		want string
	}{
		{
			[]string{
				"submitter", "add", "Bob", "--chain-id", "31337", "--address", recipient,
				"--signer", "local",
			},
			`fencepost: NAME: `,
		},
		{
			[]string{
				"submitter", "add", "bob", "--chain-id", "31337", "--address", recipient,
				"--signer", "local", "--start-from", "now",
			},
			`fencepost: --start-from: `,
		},
		{
			[]string{"submitter", "show", "eip155:x"},
			`fencepost: NAME: account id "eip155:x" `,
		},
		{
			[]string{"submitter", "pause", "alice", "--operator", strings.Repeat("a", 129)},
			"fencepost: --operator: ",
		},
		{
			[]string{"submitter", "show", "carl"},
			`see "fencepost submitter list" (SUBMITTER_NOT_FOUND)`,
		},
		{
			[]string{"tx", "create", "--submitter", "eip155:x", "--to", recipient},
			"fencepost: --submitter: account id",
		},
		{
			[]string{
				"tx", "create", "--submitter", "alice", "--to", recipient, "--request-id", "a\nb",
			},
			"fencepost: --request-id: ",
		},
		{
			[]string{
				"tx", "create", "--submitter", "alice", "--to", recipient, "--gas-limit",
				"18446744073709551615",
			},
			"fencepost: --gas-limit: ",
		},
		{
			[]string{"tx", "get", "--submitter", "eip155:x", "--request-id", "r"},
			"fencepost: --submitter: account id",
		},
		{
			[]string{"tx", "get", unknown},
			"(TX_NOT_FOUND)",
		},
		{
			[]string{"tx", "cancel", unknown},
			`see "fencepost tx list" (TX_NOT_FOUND)`,
		},
		{
			[]string{"tx", "get", unknownHash},
			"fencepost: transaction with hash " + unknownHash + ": not found; check",
		},
		{
			[]string{"tx", "list", "--label", "order"},
			"fencepost: --label: ",
		},
		{
			[]string{"tx", "watch", "--submitter", "alice", "--request-id", "never"},
			"(TX_NOT_FOUND)",
		},
	} {
		_, errs, code := l.start(c.line...).end()
		if code != exitFailed || !strings.Contains(errs, c.want) {
			t.Errorf("%q gave %d: %swant %s", c.line, code, errs, c.want)
		}
		plainWords(t, errs)
	}
}

func plainWords(t *testing.T, errs string) {
	t.Helper()
	for _, word := range jargon {
		if strings.Contains(errs, word) {
			t.Errorf("%q is in %s", word, errs)
		}
	}
}

// The text of gRPC errors that unreached reads.
func TestErrors_WrongPort(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	pair, ca := certificate(t)
	plain := l.addr
	l.serve("127.0.0.1:0", pair)
	page := httptest.NewServer(http.NotFoundHandler())
	defer page.Close()
	for name, c := range map[string]struct {
		line []string
		want string
	}{
		"a page": {
			[]string{"--server", page.Listener.Addr().String()},
			"not a gRPC port, or TLS is required",
		},
		"TLS for plain text": {
			[]string{"--server", plain, "--tls"},
			"does not use TLS",
		},
		"plain text for TLS": {[]string{"--server", l.addr}, "or TLS is required"},
		"an unknown signer": {
			[]string{"--server", l.addr, "--tls-name", "node.test"},
			"certificate rejected (failed to verify certificate: x509: certificate signed by " +
				"unknown authority); check --tls-ca",
		},
		"the name of another": {
			[]string{"--server", l.addr, "--tls-ca", ca, "--tls-name", "x.test"},
			"valid for node.test, not x.test); check --tls-ca and --tls-name",
		},
		"nobody": {
			[]string{"--server", "127.0.0.1:1"},
			`connection refused; start it with "fencepost serve"`,
		},
		"a port of HTTP/1 only": {
			[]string{"--server", page.Listener.Addr().String(), "--tls"}, "does not use TLS",
		},
	} {
		_, errs, code := l.start(append([]string{"submitter", "list"}, c.line...)...).end()
		if code != exitFailed || !strings.Contains(errs, c.want) ||
			!strings.HasPrefix(errs, "fencepost: cannot connect to node "+c.line[1]+": ") {
			t.Errorf("%s: gave %d: %swant %s", name, code, errs, c.want)
		}
		plainWords(t, errs)
	}
	for text, want := range map[string]string{
		"name resolver error: produced zero addresses": "unknown host; check --server",
		`connection error: desc = "transport: Error while dialing: dial tcp 10.0.0.1:9090: i/o ` +
			`timeout"`: `Error while dialing: dial tcp 10.0.0.1:9090: i/o timeout; start it with ` +
			`"fencepost serve", or give another with --server`,
	} {
		if got := unreached(text); got != want {
			t.Errorf("%s is reported as %s", text, got)
		}
	}
}

func TestReport_LocalError_PackageNamesRemoved(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"store: move submitter \"hot\": paused; wait", "move submitter \"hot\": paused; wait"},
		{"database.url: store: check the schema: old", "database.url: check the schema: old"},
		{"sign: sink: both", "both"},
		{"bookstore: closed", "bookstore: closed"},
	} {
		var errs bytes.Buffer
		p := &program{err: &errs}
		if code := p.report(errors.New(c.text)); code != exitFailed ||
			errs.String() != "fencepost: "+c.want+"\n" {
			t.Errorf("%s is reported as %d %s", c.text, code, errs.String())
		}
	}
}

// With --json, at any position, an error is one JSON object on standard error, with the same exit
// code.
func TestError_JSON(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	for line, want := range map[string]failure{
		"submitter show carl": {
			"NOT_FOUND", "SUBMITTER_NOT_FOUND", "", exitFailed, "", nil,
		},
		"submitter show eip155:x": {
			"INVALID_ARGUMENT", "INVALID_FIELD", "NAME: account id", exitFailed, "", nil,
		},
		"submitter list --server 127.0.0.1:1": {
			"UNAVAILABLE", "", "connection refused", exitFailed, "", nil,
		},
		"submitter pause alice --timeout 1m": {
			"DEADLINE_EXCEEDED", "NOT_YET_APPLIED", "", exitFailed, "", nil,
		},
		"submitter pause": {
			"USAGE", "", "NAME is missing", exitUsage, "", nil,
		},
		"tx create --gas-limit abc": {
			"USAGE", "", "--gas-limit", exitUsage, "", nil,
		},
		"config check --config none": {
			"FAILED", "", "none", exitFailed, "", nil,
		},
		"audit": {
			"USAGE", "", "--config", exitUsage, "", nil,
		},
		"key list --dir none": {
			"FAILED", "", "none", exitFailed, "", nil,
		},
		"tx create --submitter carl --to " + recipient: {
			"NOT_FOUND", "SUBMITTER_NOT_FOUND", "", exitFailed, "", nil,
		},
	} {
		words := strings.Fields(line)
		for _, args := range [][]string{
			append(words, "--json"), append([]string{"--json"}, words...),
		} {
			out, errs, code := l.start(args...).end()
			var got failure
			if err := json.Unmarshal([]byte(errs), &got); err != nil ||
				strings.Count(errs, "\n") != 1 ||
				out != "" {
				t.Errorf("%q printed %s%s: %v", args, out, errs, err)
				continue
			}
			if got.Code != want.Code || got.Reason != want.Reason ||
				!strings.Contains(got.Message, want.Message) || got.Remedy == "" ||
				got.ExitCode != want.ExitCode ||
				code != want.ExitCode {
				t.Errorf("%q gave %d: %s", args, code, errs)
			}
		}
	}
	s := newShell(t)
	s.write("bad.yaml", "node: {nam: a}\n")
	_, errs, code := s.run("config", "show", "--config", "@/bad.yaml", "--json")
	var got failure
	if err := json.Unmarshal([]byte(errs), &got); err != nil || code != exitFailed ||
		len(got.Problems) != 4 ||
		got.Problems[2].Key != "node.nam" ||
		got.Message != "invalid configuration: 4 problems" {
		t.Errorf("gave %d: %s", code, errs)
	}
}

func TestHints_FillInArguments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, reason, want string }{
		{
			"tx create --submitter alice --request-id order-1", "IDEMPOTENCY_KEY_REUSED",
			`see "fencepost tx get --submitter alice --request-id order-1"`,
		},
		{
			"tx create --submitter alice --request-id $(id)", "IDEMPOTENCY_KEY_REUSED",
			`see "fencepost tx get --submitter alice --request-id KEY"`,
		},
		{
			"submitter pause bob", "NOT_YET_APPLIED",
			`see "fencepost submitter show bob"`,
		},
		{
			"tx cancel 1", "NOT_YET_APPLIED",
			`see "fencepost submitter show NAME"`,
		},
		{
			"nonce show hot 7", "NONCE_NOT_FOUND",
			`see "fencepost nonce list hot"`,
		},
		{
			"tx list", "UNAUTHENTICATED",
			"authenticate with --token-file FILE (or FENCEPOST_TOKEN_FILE) or --tls-cert and " +
				"--tls-key",
		},
	} {
		cmd, rest, err := (&program{}).root().Find(strings.Fields(c.line))
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.ParseFlags(rest); err != nil {
			t.Fatal(err)
		}
		if got := filled(cmd, hints[c.reason]); got != c.want {
			t.Errorf("%s: %s", c.line, got)
		}
	}
}

func TestSubmitterLog_ReasonNotTruncated(t *testing.T) {
	t.Parallel()
	why := "REFUSED: " + strings.Repeat("because ", 30)
	if row := commandRow(&pb.Command{Result: why}); row[len(row)-1] != why {
		t.Error(row)
	}
}

// A flag without a value, as a variable that is not set gives, is never taken for one that is left
// out.
func TestFlags_EmptyValues(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	create := func(flag string) []string {
		return append(
			[]string{"tx", "create", "--submitter", "alice", "--to", recipient, "--data", "0x00"},
			flag, "")
	}
	for _, args := range [][]string{
		create("--to"), create("--data"), create("--value"), create("--not-after"),
		create("--max-fee-gwei"), create("--request-id"), create("--server"),
		create("--token-file"), create("--speed"),
		{
			"tx", "list", "--submitter", "",
		}, {"tx", "list", "--state", ""}, {"tx", "list", "--label", ""},
		{"tx", "watch", "--all", "--state", ""},
		{"bench", "--to", recipient, "--submitter", ""},
		{"submitter", "pause", "alice", "--reason", ""}, {"audit", "--config", ""},
	} {
		flag := args[len(args)-2]
		l.bad(exitUsage, flag+" is empty", args...)
	}
	if rows := l.good("tx", "list"); strings.Contains(rows, "alice") {
		t.Errorf("something was queued:\n%s", rows)
	}
}

// Client-chosen text, such as a request_id or a label, cannot control the terminal or reorder a
// line.
func TestOutput_ControlCharactersRemoved(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.own()
	const name = "a\u009b2Jb\u202ec\u2028d" // as older ledgers have it; the API refuses it
	info, _, err := l.store.CreateTx(l.ctx, store.Intent{
		Submitter: l.lease.Submitter(), RequestID: name, Labels: map[string]string{"k": name},
		Payload: txn.Payload{To: new(txn.Address)},
	})
	l.must(err)
	for _, args := range [][]string{
		{"tx", "list", "--wide"}, {"tx", "get", info.ID.String()}, {"submitter", "show", "alice"},
	} {
		if out := l.good(args...); strings.ContainsAny(out, "\u009b\u202e\u2028") ||
			args[0] == "tx" && !strings.Contains(out, "a 2Jb c d") {
			t.Errorf("%q printed %q", args, out)
		}
	}
}
