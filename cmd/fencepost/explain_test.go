package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/chain/outcome"
	"github.com/fencepost/fencepost/txn"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	got := s.good("explain-rpc-error", "--code", "-32000",
		"nonce too low: next nonce 12, tx nonce 11")
	for _, want := range []string{
		"class           NONCE_TOO_LOW\n", "nonce           kept: ", "nonce expected  12\n",
		"nonce given     11\n", "\nreaction        ",
		"detail          nonce too low: next nonce 12, tx nonce 11\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nlacks %q", got, want)
		}
	}
	got = s.good("explain-rpc-error", "rate limited, try again in 1500ms")
	if !strings.Contains(got, "RATE_LIMITED") || !strings.Contains(got, "retry after  1.5s\n") {
		t.Error(got)
	}
	got = s.good("explain-rpc-error", "insufficient funds for gas * price + value: have 5 want 10")
	if !strings.Contains(got, "short of  5 wei\n") {
		t.Error(got)
	}
}

// Scripts read these names.
func TestExplainJSON(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in   string
		line []string
		want string // of class and numbers
	}{
		"nonces": {
			"", []string{"nonce too low: next nonce 12, tx nonce 11"},
			`NONCE_TOO_LOW {"nonce_expected":12,"nonce_given":11}`,
		},
		"fees": {
			"", []string{"FeeTooLow, EffectivePriorityFeePerGas too low 10 < 20, BaseFee: 30"},
			`UNDERPRICED {"fee_needed_wei":"30","tip_needed_wei":"20"}`,
		},
		"amounts": {
			"", []string{"insufficient funds: have 5 want 10"},
			`INSUFFICIENT_FUNDS {"have_wei":"5","short_wei":"5","want_wei":"10"}`,
		},
		"data": {
			"",
			[]string{
				"--code", "1010", "--data", `"Transaction is outdated"`, "Invalid Transaction",
			},
			`NONCE_TOO_LOW {}`,
		},
		"hint": {
			"", []string{"--http-status", "429", "--data", `{"retry_after":2.5}`, "slow down"},
			`RATE_LIMITED {"retry_after_ms":2500}`,
		},
		"code":    {"", []string{"--code", "-32005", "no words"}, `RATE_LIMITED {}`},
		"status":  {"", []string{"--http-status", "403", "no words"}, `UNAUTHORIZED {}`},
		"unknown": {"", []string{"no words"}, `AMBIGUOUS {}`},
		"stdin":   {"already known\n", []string{"-"}, `ALREADY_KNOWN {}`},
		"whole": {
			`{"jsonrpc":"2.0","id":1,"error":{"code":1010,"message":"Invalid ` +
				`Transaction","data":"Transaction is outdated"}}`,
			[]string{"-"}, `NONCE_TOO_LOW {}`,
		},
		"batch": {
			` [{"jsonrpc":"2.0","id":1,"error":{"code":-32005,"message":"no words"}},{"id":2}]`,
			[]string{"-"}, `RATE_LIMITED {}`,
		},
		"empty batch": {`[]`, []string{"-"}, `AMBIGUOUS {}`},
		"error alone": {`{"code":-32005,"message":"no words"}`, []string{"-"}, `RATE_LIMITED {}`},
		"flag stands": {
			`{"code":-32005,"message":"no words"}`, []string{"--code", "-32601", "-"},
			`UNAUTHORIZED {}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShell(t)
			s.in = c.in
			var got map[string]any
			if err := json.Unmarshal(
				[]byte(s.good(append([]string{"explain-rpc-error", "--json"}, c.line...)...)), &got,
			); err != nil {
				t.Fatal(err)
			}
			numbers, err := json.Marshal(got["numbers"])
			if err != nil {
				t.Fatal(err)
			}
			class, _ := got["class"].(string)
			if said := class + " " + string(numbers); said != c.want {
				t.Errorf("got %s, want %s", said, c.want)
			}
			if len(got) != 8 || got["nonce_kept"] != true {
				t.Errorf("the fields are %v", got)
			}
			for _, key := range []string{"why", "says", "does", "detail"} {
				if text, ok := got[key].(string); !ok || text == "" {
					t.Errorf("%s is %v", key, got[key])
				}
			}
		})
	}
}

// A failed server behind a gateway may have accepted the bytes.
func TestExplain_Gateway(t *testing.T) {
	t.Parallel()
	for class, text := range map[txn.Class]string{
		txn.Unavailable: "502 Bad Gateway", txn.Invalid: "intrinsic gas too low",
	} {
		for status, want := range map[int]string{
			502: behindGateway, 500: behindGateway, 400: outcome.MeaningOf(class).Does,
			0: outcome.MeaningOf(class).Does,
		} {
			counts := class
			if want == behindGateway {
				counts = txn.Ambiguous
			}
			if e := explained(
				outcome.Response{Message: text, HTTPStatus: status},
			); e.Class != counts ||
				e.Read != class ||
				e.Does != want ||
				e.Says != outcome.MeaningOf(counts).Says {
				t.Errorf("HTTP %d: %s, %s", status, e.Class, e.Does)
			}
		}
	}
}

func TestExplain_RedactsSecrets(t *testing.T) {
	t.Parallel()
	got := newShell(t).good("explain-rpc-error",
		"nonce too low at https://node.example/v3/0123456789abcdef0123456789abcdef")
	if strings.Contains(got, "abcdef") || strings.Contains(got, "node.example") {
		t.Error(got)
	}
}

func TestExplain_UsageErrors(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	const help = "; see \"fencepost explain-rpc-error --help\"\n"
	s.bad(exitUsage, "fencepost: the text of the error (\"-\" reads it from stdin) is missing"+help,
		"explain-rpc-error")
	s.bad(exitUsage,
		`2 arguments given, 1 expected; quote values with spaces, as in `+
			`fencepost explain-rpc-error "nonce too low"`+help,
		"explain-rpc-error", "nonce", "too low")
	s.bad(exitUsage,
		"--data is not JSON",
		"explain-rpc-error", "--data", "text", "x")
	s.bad(exitUsage, "--http-status 42", "explain-rpc-error",
		"--http-status", "42", "x")
}

func TestExplain_EffectiveClass(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	if got := s.good(
		"explain-rpc-error", "--http-status", "502", "<html>502 Bad Gateway</html>",
	); !strings.Contains(
		got,
		"AMBIGUOUS for a broadcast; by the rule alone UNAVAILABLE\n") ||
		strings.Contains(got, outcome.MeaningOf(txn.Unavailable).Says) {
		t.Error(got)
	}
	if got := s.good(
		"explain-rpc-error", "--json", "--http-status", "502", "<html>502 Bad Gateway</html>",
	); !strings.Contains(
		got, `"class": "AMBIGUOUS"`) ||
		!strings.Contains(got, `"read": "UNAVAILABLE"`) {
		t.Error(got)
	}
}

func TestExplain_SuccessResponse(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for _, text := range []string{
		`{"result":"0x11"}`, `{"jsonrpc":"2.0","id":1,"result":null,"error":null}`,
	} {
		if _, errs, code := s.run("explain-rpc-error", text); code != exitFailed ||
			!strings.HasPrefix(errs, "fencepost: not an error: ") {
			t.Errorf("%s: %d %s", text, code, errs)
		}
	}
	s.good("explain-rpc-error", `{"result":null,"error":{"code":-32000,"message":"nonce too low"}}`)
}
