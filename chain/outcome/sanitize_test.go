package outcome

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestClean(t *testing.T) {
	t.Parallel()
	address, hash := "0x"+strings.Repeat("a1", 20), "0x"+strings.Repeat("b2", 32)
	for name, c := range map[string]struct{ in, want string }{
		"plain": {
			"nonce too low: next nonce 12, tx nonce 11",
			"nonce too low: next nonce 12, tx nonce 11",
		},
		"url":           {"Post https://user:pw@rpc.example/v3/abc: EOF", "Post […] EOF"},
		"websocket":     {"dial wss://rpc.example/key failed", "dial […] failed"},
		"host and path": {"see dashboard.rpc.example/v1/abc for more", "see […] for more"},
		"ip":            {"read tcp 10.0.0.1:5000: reset", "read tcp […]: reset"},
		"address":       {"have 0 want 1 for " + address, "have 0 want 1 for " + address},
		"hash":          {"known transaction: " + hash, "known transaction: " + hash},
		"signed bytes":  {"bad tx 0x02f8" + strings.Repeat("c3", 100), "bad tx […]"},
		"key": {
			"key 9aa3d95b3bc440fa88ea12eaa4456161 is over its limit",
			"key […] is over its limit",
		},
		"long number": {
			"overshot 900000000000000000000000",
			"overshot 900000000000000000000000",
		},
		"long word": {
			"CallerGasLimitMoreThanBlockAllows",
			"CallerGasLimitMoreThanBlockAllows",
		},
		"markup": {
			"<html><h1>503 Service Temporarily Unavailable</h1></html>",
			"503 Service Temporarily Unavailable",
		},
		"control and space": {"a\x00b\x1b[31m\r\n\tc", "ab[31m c"},
		"broken utf-8":      {"a\xffb", "ab"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Clean(c.in); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestClean_Secret_Hidden(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringMatching(`[a-f]{4}[0-9a-f]{28}9`).Draw(t, "key")
		before := rapid.String().Draw(t, "before")
		after := rapid.String().Draw(t, "after")
		form := rapid.SampledFrom(
			[]string{
				"https://rpc.example/v3/%",
				"wss://%:x@rpc.example",
				"rpc.example/%",
				" % ",
				"0x%" + strings.Repeat("0", 60),
			},
		).Draw(t, "form")
		got := Clean(before + " " + strings.ReplaceAll(form, "%", key) + " " + after)
		if strings.Contains(got, key) {
			t.Fatalf("%q leaks", got)
		}
		if n := utf8.RuneCountInString(got); n > detailLimit || !utf8.ValidString(got) {
			t.Fatalf("%d characters, valid %v", n, utf8.ValidString(got))
		}
	})
}
